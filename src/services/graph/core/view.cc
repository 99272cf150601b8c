#include "services/graph/core/view.h"

#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "services/graph/core/edge_scan.h"
#include "services/graph/core/read_costs.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr size_t kKeptScans = 64;
constexpr size_t kKeptHints = 4;

// Calls read(begin, end) for some nodes at a time, whose slots, then versions, were asked of memory
// together.
template <typename Read>
void PrefetchedTogether(const NodeTable& table, std::span<const NodeId> nodes, const Read& read) {
  constexpr size_t kTogether = 32;
  for (size_t begin = 0; begin < nodes.size(); begin += kTogether) {
    const size_t end = std::min(begin + kTogether, nodes.size());
    if (end - begin > 1) {
      for (size_t i = begin; i < end; ++i) table.PrefetchSlot(nodes[i]);
      for (size_t i = begin; i < end; ++i) table.PrefetchVersion(nodes[i]);
    }
    read(begin, end);
  }
}

void CountNodes(uint64_t nodes) {
  if (cypher::counted_reads != nullptr) cypher::counted_reads->nodes += nodes;
}

void CountProperties(uint64_t properties) {
  if (cypher::counted_reads != nullptr) cypher::counted_reads->properties += properties;
}

}  // namespace

absl::Status NoSuch(std::string_view what, uint64_t id) {
  return absl::NotFoundError(Concat("there is no ", what, " ", id));
}

absl::StatusOr<size_t> View::ScanNodes(Token label, uint64_t* position,
                                       std::span<NodeId> out) const {
  const NodeTable& nodes = tables_->nodes;
  const NodeId end = nodes.end();
  size_t count = 0;
  NodeId node = *position;
  while (node < end && count < out.size()) {
    const NodeId first = node & ~uint64_t{63};
    uint64_t word = nodes.Word(label, first, sequence_) >> (node % 64) << (node % 64);
    node = first + 64;
    for (; word != 0; word &= word - 1) {
      const NodeId found = first + static_cast<NodeId>(std::countr_zero(word));
      if (count == out.size()) {
        node = found;
        break;
      }
      out[count++] = found;
    }
  }
  CountNodes(count);
  *position = node;
  return count;
}

absl::StatusOr<size_t> View::ScanEdges(std::span<const Token> types, uint64_t* position,
                                       std::span<EdgeRef> out) const {
  std::shared_ptr<EdgeScan> scan;
  std::shared_ptr<BatchHint> hint;
  {
    std::lock_guard lock(scans_mu_);
    for (auto it = scans_.begin(); *position != 0 && it != scans_.end(); ++it) {
      if ((*it)->position() != *position || !(*it)->Has(types)) continue;
      scan = *it;
      scans_.erase(it);
      break;
    }
    if (hints_.size() >= kKeptHints && hints_.front().use_count() == 1) {
      hint = hints_.front();
      hints_.erase(hints_.begin());
    }
  }
  if (scan == nullptr) {
    scan = std::make_shared<EdgeScan>(this, types);
    PULSE_RETURN_IF_ERROR(scan->SkipTo(*position));
  }
  if (hint == nullptr) hint = std::make_shared<BatchHint>();
  hint->ids.clear();
  hint->ranges.clear();
  size_t count;
  PULSE_RETURN_IF_ERROR(scan->Fill(out, &count, hint.get()));
  *position = scan->position();
  std::lock_guard lock(scans_mu_);
  if (count > 0) {
    if (scans_.size() >= kKeptScans) scans_.erase(scans_.begin());
    scans_.push_back(std::move(scan));
  }
  hints_.push_back(std::move(hint));
  if (hints_.size() > 2 * kKeptHints) hints_.erase(hints_.begin());
  return count;
}

absl::Status View::ReadNodeProperty(Token key, std::span<const NodeId> nodes, Column* out) const {
  CountProperties(nodes.size());
  ColumnGather gather(nodes.size(), out);
  const auto read = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const NodeVersion* version = FindNode(nodes[i]);
      if (version == nullptr) continue;
      std::string_view bytes = FindProperty(version->properties(), key);
      if (bytes.empty()) continue;
      int64_t number;
      if (cypher::ReadInt(&bytes, &number)) {
        gather.PutInt(i, number);
        continue;
      }
      Value value;
      if (cypher::ReadValue(&bytes, &value)) gather.Put(i, std::move(value));
    }
  };
  PrefetchedTogether(tables_->nodes, nodes, read);
  return absl::OkStatus();
}

absl::Status View::ReadNodeProperties(NodeId node, Properties* out) const {
  const NodeVersion* version = FindNode(node);
  if (version == nullptr) return NoSuch("node", node);
  if (!DecodeProperties(version->properties(), out)) {
    return absl::DataLossError(Concat("the properties of node ", node, " are damaged"));
  }
  CountNodes(1);
  CountProperties(out->size());
  return absl::OkStatus();
}

absl::Status View::ReadLabels(NodeId node, std::vector<Token>* out) const {
  const NodeVersion* version = FindNode(node);
  if (version == nullptr) return NoSuch("node", node);
  CountNodes(1);
  out->assign(version->labels().begin(), version->labels().end());
  return absl::OkStatus();
}

absl::Status View::HasLabel(Token label, std::span<const NodeId> nodes,
                            std::span<uint8_t> out) const {
  CountNodes(nodes.size());
  // Most are told by bits, which caches hold; the others' versions come from memory together.
  std::vector<uint32_t> candidates;
  std::vector<NodeId> ids;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeTable::Known known = tables_->nodes.HasLabel(label, nodes[i], sequence_);
    out[i] = known == NodeTable::Known::kYes ? 1 : 0;
    if (known != NodeTable::Known::kAskItsVersion) continue;
    candidates.push_back(static_cast<uint32_t>(i));
    ids.push_back(nodes[i]);
  }
  PrefetchedTogether(tables_->nodes, ids, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const NodeVersion* version = FindNode(ids[i]);
      out[candidates[i]] = version != nullptr && version->HasLabel(label) ? 1 : 0;
    }
  });
  return absl::OkStatus();
}

absl::Status View::Seek(Token label, std::span<const Token> keys, std::span<const Value> values,
                        std::vector<NodeId>* out) const {
  const auto index = tables_->indexes.FindFor(label, keys);
  if (index == nullptr) return absl::FailedPreconditionError("there is no such index any more");
  std::vector<NodeId> candidates;
  index->FindBy(values, &candidates);
  CountNodes(candidates.size());
  if (cypher::counted_reads != nullptr) ++cypher::counted_reads->seeks;
  for (const NodeId node : candidates) {
    const NodeVersion* version = FindNode(node);
    if (version == nullptr || !version->HasLabel(label)) continue;
    if (HasValues(version->properties(), keys, values)) out->push_back(node);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> View::SeekRange(Token label, Token key, std::span<const cypher::Bound> bounds,
                                     size_t most, std::vector<NodeId>* out) const {
  const auto index = tables_->indexes.FindFor(label, {&key, 1});
  const std::optional<OrderRange> range = RangeOf(bounds);
  if (index == nullptr || !range) return false;
  out->clear();
  if (range->empty()) return true;
  if (!index->FindRange(tables_->nodes, sequence_, *range, most, out)) return false;
  if (cypher::counted_reads != nullptr) ++cypher::counted_reads->seeks;
  std::sort(out->begin(), out->end());
  out->erase(std::unique(out->begin(), out->end()), out->end());
  std::vector<uint8_t> has(out->size());
  PULSE_RETURN_IF_ERROR(HasLabel(label, *out, has));
  size_t kept = 0;
  for (size_t i = 0; i < out->size(); ++i) {
    if (has[i] != 0) (*out)[kept++] = (*out)[i];
  }
  out->resize(kept);
  return true;
}

uint64_t View::NodeCount(Token label) const {
  const auto* count = label == kNoToken ? &tables_->node_count : tables_->label_counts.Get(label);
  return count == nullptr ? 0 : static_cast<uint64_t>(std::max<int64_t>(0, *count));
}

// Looks at places at even distances, and at some nodes behind each; then once more in the range
// where nodes were found, since those of a label often lie together.
absl::StatusOr<size_t> View::SampleNodes(Token label, std::span<NodeId> out) const {
  constexpr NodeId kLook = 64 * 64;
  NodeId low = 0, high = tables_->nodes.end();
  size_t count = 0;
  for (int pass = 0; pass < 2 && count < out.size() / 2; ++pass) {
    const NodeId step = std::max<NodeId>(1, (high - low) / out.size());
    count = 0;
    for (NodeId place = low; place < high && count < out.size(); place += step) {
      if (count > 0 && place <= out[count - 1]) continue;
      const NodeId end = std::min(high, place + kLook);
      for (NodeId node = place; node < end; ++node) {
        const uint64_t word = tables_->nodes.Word(label, node & ~NodeId{63}, sequence_);
        if (word >> (node % 64) == 0) {
          node |= 63;
          continue;
        }
        out[count++] = node + static_cast<NodeId>(std::countr_zero(word >> (node % 64)));
        break;
      }
    }
    if (count == 0) break;
    low = out[0] > step ? out[0] - step : 0;
    high = std::min(high, out[count - 1] + step);
  }
  if (count > 0) return count;
  uint64_t position = 0;
  return ScanNodes(label, &position, out);
}

uint64_t View::EdgeCount(Token type) const {
  const auto* count = type == kNoToken ? &tables_->edge_count : tables_->type_counts.Get(type);
  return count == nullptr ? 0 : static_cast<uint64_t>(std::max<int64_t>(0, *count));
}

}  // namespace pulse::graph
