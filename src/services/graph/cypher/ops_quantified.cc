// Quantified paths: all trails of min to max repetitions of some hops, depth first.
#include <algorithm>
#include <unordered_set>

#include "services/graph/cypher/match.h"
#include "services/graph/cypher/operators.h"

namespace pulse::cypher {
namespace {

class QuantifiedOperator : public Operator {
 public:
  QuantifiedOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), hops_(step->hops.size()), types_(step->hops.size()) {}

  bool Push(Rows& in) override {
    known_ = true;
    for (size_t i = 0; i < hops_; ++i) {
      known_ = ResolveTypes(step().hops[i].types, ctx_, &types_[i]) && known_;
    }
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      NodeId from = 0;
      if (NodeOf(row[step().from], ctx_, &from) && !Walk(row, from)) return false;
    }
    return Flush();
  }

 private:
  // A relationship that was walked, and the node behind it.
  struct Walked {
    EdgeRef edge;
    NodeId node = 0;
  };
  struct Level {
    std::vector<Walked> next;
    size_t at = 0;
  };

  bool All(const std::vector<const Expr*>& predicates, Value* row) {
    return std::all_of(predicates.begin(), predicates.end(),
                       [&](const Expr* p) { return Holds(*p, row, ctx_); });
  }
  NodeId NodeAt(size_t position) const { return position == 0 ? from_ : trail_[position - 1].node; }

  // The slots of the repetition that goes on at the trail's end.
  void SetRow(Value* row) const {
    const size_t begin = trail_.size() / hops_ * hops_;
    row[step().element] = Value::Node(NodeAt(begin));
    for (size_t i = begin; i < trail_.size(); ++i) {
      const QuantifiedHop& hop = step().hops[i - begin];
      row[hop.edge] = Value::Edge(trail_[i].edge);
      row[hop.node] = Value::Node(trail_[i].node);
    }
  }

  // What can follow, into the level of the trail's length.
  bool Load(Value* row) {
    if (levels_.size() <= trail_.size()) levels_.emplace_back();
    Level& level = levels_[trail_.size()];
    level.next.clear();
    level.at = 0;
    const size_t number = trail_.size() % hops_;
    const QuantifiedHop& hop = step().hops[number];
    SetRow(row);
    if (number == 0 && !All(step().predicates, row)) return !ctx_.failed();
    const NodeId node = NodeAt(trail_.size());
    const Value same = hop.into ? row[hop.node] : Value();
    ExpandPosition position;
    while (position.node < 1) {
      if (!ExpandNext({&node, 1}, hop.direction, types_[number], ctx_, &position, &batch_)) {
        return false;
      }
      for (size_t i = 0; i < batch_.size() && !ctx_.failed(); ++i) {
        const Walked walked{RefOf(batch_, i, node), batch_.node[i]};
        if (hop.into && same.as_node() != walked.node) continue;
        if (walked_.contains(walked.edge.id) || !Differs(row, step().unique, walked.edge.id)) {
          continue;
        }
        if (!hop.predicates.empty()) {
          row[hop.edge] = Value::Edge(walked.edge);
          row[hop.node] = Value::Node(walked.node);
          if (!All(hop.predicates, row)) continue;
        }
        level.next.push_back(walked);
      }
    }
    pending_ += level.next.size();
    // A trail of n relationships is a set, and levels of vectors, beside them.
    return ctx_.Fits((pending_ + trail_.size() * 4) * sizeof(Walked)) && !ctx_.failed();
  }

  bool Walk(Value* row, NodeId from) {
    from_ = from;
    trail_.clear();
    walked_.clear();
    pending_ = 0;
    if (step().min == 0 && !Emit(row)) return false;
    if (!known_ || (step().max >= 0 && step().max < step().min)) return true;
    if (!Load(row)) return false;
    while (true) {
      Level& level = levels_[trail_.size()];
      if (level.at == level.next.size()) {
        pending_ -= level.next.size();
        if (trail_.empty()) return true;
        Drop();
        continue;
      }
      trail_.push_back(level.next[level.at++]);
      walked_.insert(trail_.back().edge.id);
      if (trail_.size() % hops_ == 0) {
        const auto times = static_cast<int64_t>(trail_.size() / hops_);
        if (times >= step().min && !Emit(row)) return false;
        if (step().max >= 0 && times >= step().max) {
          Drop();
          continue;
        }
      }
      if (!Load(row)) return false;
    }
  }
  void Drop() {
    walked_.erase(trail_.back().edge.id);
    trail_.pop_back();
  }

  // The list of a variable, one element for each repetition, in the order of the pattern.
  Value Group(const QuantifiedGroup& group) const {
    const size_t times = trail_.size() / hops_, length = trail_.size();
    ValueList list;
    list.reserve(times);
    for (size_t i = 0; i < times; ++i) {
      const size_t at = i * hops_ + group.at;
      if (group.edges) {
        list.push_back(Value::Edge(trail_[step().reversed ? length - 1 - at : at].edge));
      } else {
        list.push_back(Value::Node(NodeAt(step().reversed ? length - at : at)));
      }
    }
    return Value::List(std::move(list));
  }

  bool Emit(const Value* row) {
    const NodeId end = NodeAt(trail_.size());
    if (step().into) {
      NodeId target = 0;
      if (!NodeOf(row[step().slot], ctx_, &target) || target != end) return !ctx_.failed();
    }
    Value* out = NewRow(row);
    if (out == nullptr) return false;
    if (!step().into) out[step().slot] = Value::Node(end);
    size_t items = 0;
    if (step().edge >= 0) {
      ValueList edges;
      edges.reserve(trail_.size());
      for (const Walked& walked : trail_) edges.push_back(Value::Edge(walked.edge));
      if (step().reversed) std::reverse(edges.begin(), edges.end());
      out[step().edge] = Value::List(std::move(edges));
      items += trail_.size();
    }
    for (const QuantifiedGroup& group : step().groups) out[group.slot] = Group(group);
    items += trail_.size() / hops_ * step().groups.size();
    if (!ctx_.Tick(trail_.size() + items)) return false;
    listed_ += items * (sizeof(Value) + sizeof(EdgeRef));
    if (listed_ < kListBytes) return true;
    listed_ = 0;
    return Flush();
  }

  // Rows are handed on where their lists have so much.
  static constexpr size_t kListBytes = size_t{1} << 20;

  const size_t hops_;
  size_t listed_ = 0;  // of rows that were not handed on, or that have been since
  bool known_ = true;
  std::vector<std::vector<Token>> types_;  // of each hop
  NeighbourBatch batch_;
  NodeId from_ = 0;
  std::vector<Walked> trail_;
  std::unordered_set<EdgeId> walked_;
  size_t pending_ = 0;  // entries of all levels in use
  std::vector<Level> levels_;
};

}  // namespace

std::unique_ptr<Operator> MakeQuantifiedOperator(const Step& step, Runtime* runtime,
                                                 Operator* next) {
  return std::make_unique<QuantifiedOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
