#include "services/graph/planner/planner_statistics.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "services/graph/expressions/batch_filter.h"

namespace pulse::cypher {
namespace {

constexpr size_t kSample = 128;
// Relationships of a sample whose ends are looked at.
constexpr size_t kEnds = 1024;
// Of a predicate that cannot be evaluated now.
constexpr double kEqualGuess = 0.02, kOtherGuess = 0.4;

bool HasParameter(const Expr& e) {
  return e.kind == Expr::Kind::kParameter ||
         std::any_of(e.kids.begin(), e.kids.end(),
                     [](const ExprPtr& kid) { return kid != nullptr && HasParameter(*kid); });
}

double Guess(const Expr& e) {
  return e.kind == Expr::Kind::kBinary && e.op == Op::kEq ? kEqualGuess : kOtherGuess;
}

}  // namespace

double Statistics::Nodes(const std::string& label) const {
  if (label.empty()) return static_cast<double>(view_.NodeCount(kNoToken));
  const auto token = view_.FindLabel(label);
  return token ? static_cast<double>(view_.NodeCount(*token)) : 0;
}

const std::vector<NodeId>& Statistics::Sample(const std::string& label) {
  const auto [it, added] = samples_.try_emplace(label);
  if (!added) return it->second;
  const auto token = label.empty() ? std::optional<Token>(kNoToken) : view_.FindLabel(label);
  if (!token) return it->second;
  it->second.resize(kSample);
  const auto count = view_.SampleNodes(*token, it->second);
  it->second.resize(count.ok() ? *count : 0);
  return it->second;
}

double Statistics::Alike(const std::string& label, const std::string& key) {
  const auto token = view_.FindKey(key);
  const std::vector<NodeId>& sample = Sample(label);
  Column column;
  if (!token || sample.empty() || !view_.ReadNodeProperty(*token, sample, &column).ok()) return 1;
  std::set<uint64_t> hashes;
  size_t values = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    const Value value = ValueAt(column, i);
    if (value.is_null()) continue;
    ++values;
    hashes.insert(Hash(value));
  }
  if (values == 0) return 1;
  const auto distinct = static_cast<double>(hashes.size());
  // Where nearly each has one of its own there are as many as nodes.
  if (10 * hashes.size() >= 9 * values) return static_cast<double>(values) / distinct;
  return Nodes(label) * static_cast<double>(values) / static_cast<double>(sample.size()) / distinct;
}

double Statistics::Share(const std::string& label, Slot slot,
                         std::span<const Expr* const> predicates,
                         const std::vector<std::string>& names, size_t width) {
  double guess = 1;
  std::vector<const Expr*> evaluated;
  for (const Expr* predicate : predicates) {
    // Others may fail, or take as long as they like: planning has no limits.
    Slot of = -1;
    if (HasParameter(*predicate) || !IsPurePredicate(*predicate, &of) || of != slot) {
      guess *= Guess(*predicate);
    } else {
      evaluated.push_back(predicate);
    }
  }
  const std::vector<NodeId>& sample = Sample(label);
  if (evaluated.empty() || sample.empty()) return guess;
  EvalContext context;
  context.graph = &view_;
  context.monotonic_nanos = [] { return NowNanos(); };
  context.wall_nanos = [] { return ClockNanos(CLOCK_REALTIME); };
  context.Start(&names);
  std::vector<Value> row(width);
  size_t hold = 0;
  for (const NodeId node : sample) {
    row[static_cast<size_t>(slot)] = Value::Node(node);
    const bool all = std::all_of(evaluated.begin(), evaluated.end(), [&](const Expr* predicate) {
      return Holds(*predicate, row.data(), context);
    });
    hold += all ? 1 : 0;
    if (context.failed()) return guess * kOtherGuess;
  }
  return guess * (static_cast<double>(hold) + 0.3) / (static_cast<double>(sample.size()) + 0.3);
}

Statistics::Hop Statistics::HopOf(const std::string& from, Direction direction,
                                  const std::vector<std::string>& types, const std::string& to) {
  const auto [it, added] = hops_.try_emplace({from, direction, types, to});
  Hop& hop = it->second;
  if (!added) return hop;
  std::vector<Token> tokens;
  for (const std::string& type : types) {
    if (const auto token = view_.FindType(type)) tokens.push_back(*token);
  }
  const std::vector<NodeId>& sample = Sample(from);
  if (sample.empty() || (!types.empty() && tokens.empty())) return hop;
  std::vector<uint64_t> degrees(sample.size(), 0);
  if (!view_.Degrees(sample, direction, tokens, degrees).ok()) return hop;
  double all = 0;
  for (const uint64_t degree : degrees) all += static_cast<double>(degree);
  hop.degree = all / static_cast<double>(sample.size());
  if (to.empty() || all == 0) return hop;
  const auto label = view_.FindLabel(to);
  if (!label) {
    hop.share = 0;
    return hop;
  }
  NeighbourBatch batch;
  batch.ends_only = true;
  ExpandPosition position;
  if (!view_.Expand(sample, direction, tokens, kEnds, &position, &batch).ok() ||
      batch.size() == 0) {
    return hop;
  }
  std::vector<uint8_t> has(batch.size(), 0);
  if (!view_.HasLabel(*label, {batch.node.data(), batch.node.size()}, has).ok()) return hop;
  const auto hold = static_cast<double>(std::count(has.begin(), has.end(), 1));
  hop.share = (hold + 0.1) / (static_cast<double>(batch.size()) + 0.1);
  return hop;
}

}  // namespace pulse::cypher
