#include "services/graph/cypher/node_source.h"

#include <algorithm>
#include <utility>

namespace pulse::cypher {
namespace {

// Of the nodes with a label, what may come from an index: more are scanned sooner.
constexpr uint64_t kMostShare = 4;

}  // namespace

bool NodeSource::Begin(const Step& scan, Token label, Value* row, EvalContext& context) {
  label_ = label;
  position_ = 0;
  size_ = context.graph->NodeCount(label);
  by_index_ = false;
  return scan.within.empty() || size_ == 0 || FindWithin(scan, row, context);
}

bool NodeSource::FindWithin(const Step& scan, Value* row, EvalContext& context) {
  const Token key = context.Key(scan.within_key);
  if (key == kNoToken) return true;
  bounds_.clear();
  for (const auto& [kind, value] : scan.within) {
    bounds_.push_back({kind, Eval(*value, row, context)});
  }
  if (context.failed()) return false;
  const absl::StatusOr<bool> found =
      context.graph->SeekRange(label_, key, bounds_, size_ / kMostShare, &within_);
  if (!context.Check(found.status()) || !context.Tick(within_.size() + 1)) return false;
  const size_t held = within_.capacity() * sizeof(NodeId);
  const auto more = static_cast<int64_t>(held - std::exchange(held_, held));
  if (more != 0 && !context.Charge(more)) return false;
  by_index_ = *found;
  if (by_index_) size_ = within_.size();
  return true;
}

absl::StatusOr<size_t> NodeSource::Next(const GraphView& graph, std::span<NodeId> out) {
  if (!by_index_) return graph.ScanNodes(label_, &position_, out);
  const size_t count = std::min<size_t>(out.size(), within_.size() - position_);
  std::copy_n(within_.begin() + static_cast<std::ptrdiff_t>(position_), count, out.begin());
  position_ += count;
  return count;
}

}  // namespace pulse::cypher
