// The operator that closes cycles: relationships between two nodes that a row has already.
//
// Either end's list has them. Of rows beside each other that have an end in common, as those of a
// cycle do, that end's list is looked at once for all of them; else the shorter one is. So what a
// cycle costs is bounded by the paths that lead up to its last hop, and not by the relationships
// that leave these.
#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "services/graph/cypher/match.h"
#include "services/graph/cypher/operators.h"

namespace pulse::cypher {
namespace {

class IntoOperator : public Operator {
 public:
  IntoOperator(const Step* step, Runtime* runtime, Operator* next) : Operator(step, runtime, next) {
    batch_.ends_only = step->edge < 0 && step->unique.empty();
    const size_t memory = ctx_.limits.memory_bytes;
    if (memory != 0) most_found_ = std::min(most_found_, memory / 16 / sizeof(Found));
  }

  bool Push(Rows& in) override {
    if (!ResolveTypes(step().types, ctx_, &types_)) return true;
    pairs_.clear();
    for (size_t i = 0; i < in.size(); ++i) {
      Pair pair{static_cast<uint32_t>(i), {}};
      if (NodeOf(in.Row(i)[step().from], ctx_, &pair.ends[0]) &&
          NodeOf(in.Row(i)[step().slot], ctx_, &pair.ends[1])) {
        pairs_.push_back(pair);
      } else if (ctx_.failed()) {
        return false;
      }
    }
    return Run(in, pairs_) && Flush();
  }

 private:
  struct Pair {
    uint32_t row;
    NodeId ends[2];    // where the pattern's relationship begins as it is walked, and where it ends
    uint8_t side = 0;  // the end whose list is looked at
  };
  struct Found {
    uint32_t row;
    EdgeRef edge;
  };
  // An end with fewer is looked at, whatever the other one has: to ask that may take long, and is a
  // read that others may conflict with.
  static constexpr uint64_t kFew = 64;

  bool Run(Rows& in, std::span<Pair> pairs) {
    found_.clear();
    if (!ChooseEnds(pairs) || !Look(pairs, 0) || !Look(pairs, 1)) return false;
    if (found_.size() > most_found_ && pairs.size() > 1) {
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (!Run(in, pairs.subspan(i, 1))) return false;
      }
      return true;
    }
    // The rows' order, whichever end was looked at; of one row, by the relationships' numbers.
    std::sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return a.row != b.row ? a.row < b.row : a.edge.id < b.edge.id;
    });
    for (const Found& found : found_) {
      const Value* row = in.Row(found.row);
      if (!step().unique.empty() && !Differs(row, step().unique, found.edge.id)) continue;
      Value* out = NewRow(row);
      if (out == nullptr) return false;
      if (step().edge >= 0) {
        out[step().edge] = step().edge_number ? Value::Int(static_cast<int64_t>(found.edge.id))
                                              : Value::Edge(found.edge);
      }
    }
    Forget(&found_);
    return ChargeFound();
  }

  bool ChargeFound() {
    const auto held = static_cast<int64_t>(found_.capacity() * sizeof(Found));
    return held == charged_ || ctx_.Charge(held - std::exchange(charged_, held));
  }

  Direction DirectionOf(size_t side) const {
    return side == 0 ? step().direction : Reversed(step().direction);
  }

  // What a row costs by either end: the length of its list, for as many rows as share it.
  bool ChooseEnds(std::span<Pair> pairs) {
    if (!FindCosts(pairs, 0)) return false;
    const bool few =
        std::all_of(costs_[0].begin(), costs_[0].end(), [](double cost) { return cost <= kFew; });
    if (few) {
      for (Pair& pair : pairs) pair.side = 0;
      return true;
    }
    if (!FindCosts(pairs, 1)) return false;
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i].side = costs_[1][i] < costs_[0][i] ? 1 : 0;
    return true;
  }

  bool FindCosts(std::span<const Pair> pairs, size_t side) {
    nodes_.clear();
    for (const Pair& pair : pairs) {
      if (nodes_.empty() || nodes_.back() != pair.ends[side]) nodes_.push_back(pair.ends[side]);
    }
    if (!FindDegrees(nodes_, DirectionOf(side), types_, ctx_, &degrees_)) return false;
    costs_[side].assign(pairs.size(), 0);
    for (size_t i = 0, run = 0; i < pairs.size(); ++run) {
      size_t end = i;
      while (end < pairs.size() && pairs[end].ends[side] == nodes_[run]) ++end;
      const double cost = static_cast<double>(degrees_[run]) / static_cast<double>(end - i);
      for (; i < end; ++i) costs_[side][i] = cost;
    }
    return true;
  }

  // All rows of a side, by the lists of its nodes.
  bool Look(std::span<const Pair> pairs, uint8_t side) {
    nodes_.clear();
    begins_.clear();
    order_.clear();
    for (const Pair& pair : pairs) {
      if (pair.side != side) continue;
      if (nodes_.empty() || nodes_.back() != pair.ends[side]) {
        nodes_.push_back(pair.ends[side]);
        begins_.push_back(order_.size());
      }
      order_.push_back(&pair);
    }
    begins_.push_back(order_.size());
    placed_ = nodes_.size();
    for (ExpandPosition position; position.node < nodes_.size();) {
      if (!ExpandNext(nodes_, DirectionOf(side), types_, ctx_, &position, &batch_)) return false;
      for (size_t i = 0; i < batch_.size(); ++i) Match(side, i);
      if (!ChargeFound()) return false;
      if (found_.size() > most_found_ && pairs.size() > 1) return true;
    }
    return !ctx_.failed();
  }

  // Rows of the node that the relationship leads from, to where it leads.
  void Match(uint8_t side, size_t i) {
    const size_t origin = batch_.origin[i];
    const std::span<const Pair* const> run(order_.data() + begins_[origin],
                                           order_.data() + begins_[origin + 1]);
    const size_t other = 1 - side;
    const auto add = [&](const Pair& pair) {
      if (pair.ends[other] != batch_.node[i]) return;
      found_.push_back({pair.row, batch_.ends_only ? EdgeRef{} : RefOf(batch_, i, nodes_[origin])});
    };
    if (run.size() == 1) return add(*run[0]);
    if (placed_ != origin) Place(run, other, origin);
    for (uint32_t at = heads_[PlaceOf(batch_.node[i])]; at != 0; at = next_[at - 1]) {
      add(*run[at - 1]);
    }
  }

  // A table of the rows of a run, by their other end.
  void Place(std::span<const Pair* const> run, size_t other, size_t origin) {
    heads_.assign(std::bit_ceil(run.size() * 2), 0);
    next_.resize(run.size());
    for (size_t k = run.size(); k > 0; --k) {
      uint32_t& head = heads_[PlaceOf(run[k - 1]->ends[other])];
      next_[k - 1] = head;
      head = static_cast<uint32_t>(k);
    }
    placed_ = origin;
  }
  size_t PlaceOf(NodeId node) const {
    return (node * 0x9E3779B97F4A7C15u >> 32) & (heads_.size() - 1);
  }

  std::vector<Token> types_;
  std::vector<Pair> pairs_;  // of a batch
  std::array<std::vector<double>, 2> costs_;
  std::vector<NodeId> nodes_;
  std::vector<uint64_t> degrees_;
  std::vector<const Pair*> order_;  // of a side
  std::vector<size_t> begins_;      // in order_, of each node's
  NeighbourBatch batch_;
  std::vector<Found> found_;
  int64_t charged_ = 0;
  size_t most_found_ = 16 << 10;        // rows that find more go on one by one
  std::vector<uint32_t> heads_, next_;  // numbers in a run, from 1 on; 0: none
  size_t placed_ = 0;                   // the node whose rows these are
};

}  // namespace

std::unique_ptr<Operator> MakeIntoOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<IntoOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
