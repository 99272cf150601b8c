// Paths counted without a row for each: the last relationship of a pattern by degrees, and the last
// two by the nodes between them, each of which is looked at once however many paths lead to it.
//
// Relationships of one pattern differ from each other. A node's degree counts also those that the
// path walked before; these are known by their ends and type, and are taken off.
#include <algorithm>

#include "services/graph/cypher/match.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_filter.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

// Nodes and how often each was reached, in a table that grows up to a size that caches hold.
class Reached {
 public:
  struct Entry {
    NodeId node = 0;
    uint64_t paths = 0;   // 0: an empty slot
    uint64_t walked = 0;  // of its relationships, on these paths
  };

  // Null: full. A new entry has no paths yet, and needs some before the next call.
  Entry* Find(NodeId node) {
    if (count_ * 4 >= slots_.size() * 3) {
      if (slots_.size() == kMostSlots) {
        Entry* found = Probe(node);
        return found->paths != 0 ? found : nullptr;
      }
      Grow();
    }
    Entry* found = Probe(node);
    if (found->paths == 0) {
      ++count_;
      *found = {node, 0, 0};
    }
    return found;
  }
  bool empty() const { return count_ == 0; }
  void clear() {
    // A table that a hub has grown is not walked for few entries again and again.
    const bool few = count_ * 16 < slots_.size();
    if (count_ > 0) slots_.assign(few ? kFewestSlots : slots_.size(), Entry());
    count_ = 0;
  }
  const std::vector<Entry>& slots() const { return slots_; }

 private:
  static constexpr size_t kFewestSlots = 256, kMostSlots = size_t{1} << 15;
  static constexpr int kNeighbourBits = 6;

  // Nodes with neighbouring numbers, whose lists a store keeps together, stay together.
  Entry* Probe(NodeId node) {
    const uint64_t hash = (node >> kNeighbourBits) * 0x9E3779B97F4A7C15;
    const uint64_t low = (node + (hash >> 58)) % (1 << kNeighbourBits);
    const size_t mask = slots_.size() - 1;
    size_t at = ((hash >> 32 << kNeighbourBits) | low) & mask;
    while (slots_[at].paths != 0 && slots_[at].node != node) at = (at + 1) & mask;
    return &slots_[at];
  }
  void Grow() {
    std::vector<Entry> old(slots_.empty() ? kFewestSlots : slots_.size() * 2);
    std::swap(old, slots_);
    for (const Entry& entry : old) {
      if (entry.paths != 0) *Probe(entry.node) = entry;
    }
  }

  std::vector<Entry> slots_;
  size_t count_ = 0;
};

// The last relationship and the node at its end, of which only the number is wanted.
class LastHop {
 public:
  LastHop(const Step& expand, EvalContext* ctx)
      : step_(expand), ctx_(*ctx), filter_(expand.predicates) {}

  // Names that the query brings about may be there by now. False: there is no such type.
  bool Begin() {
    passes_all_ = filter_.PassesAll(ctx_);
    known_ = false;
    return ResolveTypes(step_.types, ctx_, &types_);
  }

  // How many there are of each node. False: an error.
  bool Count(std::span<const NodeId> nodes, std::vector<uint64_t>* counts) {
    if (passes_all_) return FindDegrees(nodes, step_.direction, types_, ctx_, counts);
    counts->assign(nodes.size(), 0);
    batch_.ends_only = true;
    ExpandPosition position;
    while (position.node < nodes.size()) {
      if (!ExpandNext(nodes, step_.direction, types_, ctx_, &position, &batch_) ||
          !filter_.Select({batch_.node.data(), batch_.node.size()}, ctx_, &selected_)) {
        return false;
      }
      for (const uint32_t i : selected_) ++(*counts)[batch_.origin[i]];
    }
    return true;
  }

  // Whether a relationship that was walked already is among those that Count() counts of `node`.
  bool Counts(const EdgeRef& edge, NodeId node) {
    const bool wanted =
        types_.empty() || std::find(types_.begin(), types_.end(), edge.type) != types_.end();
    if (!wanted) return false;
    if (edge.source == node && step_.direction != Direction::kIn) return Passes(edge.target);
    return edge.target == node && step_.direction != Direction::kOut && Passes(edge.source);
  }
  // The same of all that a value holds.
  uint64_t CountsIn(const Value& value, NodeId node) {
    if (value.is_edge()) return Counts(value.as_edge(), node) ? 1 : 0;
    uint64_t count = 0;
    if (value.is_list()) {
      for (const Value& item : value.as_list()) count += CountsIn(item, node);
    }
    return count;
  }

 private:
  bool Passes(NodeId node) {
    if (passes_all_) return true;
    if (known_ && node == last_) return last_passes_;
    if (!filter_.Select({&node, 1}, ctx_, &one_)) return false;
    known_ = true;
    last_ = node;
    last_passes_ = !one_.empty();
    return last_passes_;
  }

  const Step& step_;
  EvalContext& ctx_;
  BatchFilter filter_;
  bool passes_all_ = false;
  std::vector<Token> types_;
  NeighbourBatch batch_;
  std::vector<uint32_t> selected_, one_;
  // What Passes() was asked last.
  bool known_ = false, last_passes_ = false;
  NodeId last_ = 0;
};

absl::Status TooMany() {
  return RuntimeError("ArithmeticError", "NumberOutOfRange", "there are more than 2^63 paths");
}

// One relationship: rows go on with the number of paths beside them, where there are some.
class CountHopOperator : public Operator {
 public:
  CountHopOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), expand_(step->inner[0]), last_(expand_, &ctx_) {}

  bool Push(Rows& in) override {
    if (!last_.Begin()) return true;
    nodes_.clear();
    size_t kept = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      NodeId node = 0;
      if (!NodeOf(in.Row(i)[expand_.from], ctx_, &node)) continue;
      nodes_.push_back(node);
      in.Move(i, kept++);
    }
    in.Resize(kept);
    if (ctx_.failed() || !last_.Count(nodes_, &counts_)) return false;
    kept = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      uint64_t count = counts_[i];
      for (const Slot slot : expand_.unique) count -= last_.CountsIn(row[slot], nodes_[i]);
      if (count == 0) continue;
      row[step().slot] = Value::Int(static_cast<int64_t>(count));
      in.Move(i, kept++);
    }
    in.Resize(kept);
    if (ctx_.failed()) return false;
    return in.empty() || next_->Push(in);
  }

 private:
  const Step& expand_;
  LastHop last_;
  std::vector<NodeId> nodes_;
  std::vector<uint64_t> counts_;
};

// Two relationships: one row with the number of all paths.
class CountTwoHopsOperator : public Operator {
 public:
  CountTwoHopsOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next),
        first_(step->inner[0]),
        second_(step->inner[1]),
        middle_(first_.predicates),
        last_(second_, &ctx_) {
    for (const Slot slot : second_.unique) {
      if (slot == first_.edge) {
        differ_ = true;
      } else {
        unique_.push_back(slot);
      }
    }
    batch_.ends_only = !differ_ && first_.unique.empty();
  }

  bool Push(Rows& in) override {
    if (!last_.Begin() || !ResolveTypes(first_.types, ctx_, &types_)) return true;
    nodes_.clear();
    rows_.clear();
    for (size_t i = 0; i < in.size(); ++i) {
      NodeId node = 0;
      if (!NodeOf(in.Row(i)[first_.from], ctx_, &node)) continue;
      nodes_.push_back(node);
      rows_.push_back(i);
    }
    ExpandPosition position;
    while (position.node < nodes_.size() && !ctx_.failed()) {
      if (!ExpandNext(nodes_, first_.direction, types_, ctx_, &position, &batch_)) return false;
      for (size_t i = 0; i < batch_.size(); ++i) {
        if (!Add(in.Row(rows_[batch_.origin[i]]), i)) return false;
      }
    }
    return !ctx_.failed();
  }

  bool Finish() override {
    if (!ctx_.failed() && Drain() && total_ > 0) {
      const std::vector<Value> empty(static_cast<size_t>(runtime_->width));
      Value* row = NewRow(empty.data());
      if (row != nullptr) row[step().slot] = Value::Int(static_cast<int64_t>(total_));
      Flush();
    }
    return next_->Finish();
  }

  void Reset() override {
    Operator::Reset();
    reached_.clear();
    total_ = 0;
  }

 private:
  // One relationship of the first hop.
  bool Add(const Value* row, size_t i) {
    if (!first_.unique.empty() && !Differs(row, first_.unique, batch_.edge[i])) return true;
    const NodeId node = batch_.node[i];
    Reached::Entry* entry = reached_.Find(node);
    if (entry == nullptr) {
      if (!Drain()) return false;
      entry = reached_.Find(node);
    }
    ++entry->paths;
    if (differ_) {
      const NodeId from = nodes_[batch_.origin[i]];
      const bool in = batch_.incoming[i] != 0;
      const EdgeRef edge = {batch_.edge[i], in ? node : from, in ? from : node, batch_.type[i]};
      entry->walked += last_.Counts(edge, node) ? 1 : 0;
    }
    for (const Slot slot : unique_) entry->walked += last_.CountsIn(row[slot], node);
    return !ctx_.failed();
  }

  // Counts the second hop of what was reached.
  bool Drain() {
    if (reached_.empty()) return !ctx_.failed();
    between_.clear();
    entries_.clear();
    for (const Reached::Entry& entry : reached_.slots()) {
      if (entry.paths == 0) continue;
      between_.push_back(entry.node);
      entries_.push_back(&entry);
    }
    if (!middle_.empty() && !middle_.PassesAll(ctx_)) {
      if (!middle_.Select(between_, ctx_, &selected_)) return false;
      for (size_t k = 0; k < selected_.size(); ++k) {
        between_[k] = between_[selected_[k]];
        entries_[k] = entries_[selected_[k]];
      }
      between_.resize(selected_.size());
      entries_.resize(selected_.size());
    }
    if (!last_.Count(between_, &counts_)) return false;
    for (size_t i = 0; i < between_.size(); ++i) {
      uint64_t paths = 0;
      if (__builtin_mul_overflow(entries_[i]->paths, counts_[i], &paths) ||
          __builtin_add_overflow(total_, paths - entries_[i]->walked, &total_) ||
          total_ > static_cast<uint64_t>(INT64_MAX)) {
        return ctx_.Check(TooMany());
      }
    }
    reached_.clear();
    return true;
  }

  const Step& first_;
  const Step& second_;
  BatchFilter middle_;
  LastHop last_;
  bool differ_ = false;       // the second relationship from the first
  std::vector<Slot> unique_;  // what else the second one differs from
  std::vector<Token> types_;
  std::vector<NodeId> nodes_;
  std::vector<size_t> rows_;
  NeighbourBatch batch_;
  Reached reached_;
  std::vector<NodeId> between_;
  std::vector<const Reached::Entry*> entries_;
  std::vector<uint64_t> counts_;
  std::vector<uint32_t> selected_;
  uint64_t total_ = 0;
};

}  // namespace

std::unique_ptr<Operator> MakeCountOperator(const Step& step, Runtime* runtime, Operator* next) {
  if (step.kind != Step::Kind::kCountPaths) return nullptr;
  const auto hops = std::count_if(step.inner.begin(), step.inner.end(), [](const Step& inner) {
    return inner.kind == Step::Kind::kExpand;
  });
  if (hops == 1) return std::make_unique<CountHopOperator>(&step, runtime, next);
  return std::make_unique<CountTwoHopsOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
