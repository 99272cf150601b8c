// The operator that finds shortest paths between two bound nodes, breadth first and from both of
// them: the side goes on whose next level has fewer relationships. The sides meet in nodes that
// every shortest path has one of.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "services/graph/cypher/match.h"
#include "services/graph/cypher/operators.h"

namespace pulse::cypher {
namespace {

class ShortestOperator : public Operator {
 public:
  using Operator::Operator;

  bool Push(Rows& in) override {
    known_ = ResolveTypes(step().types, ctx_, &types_);
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      NodeId from = 0, to = 0;
      if (!NodeOf(row[step().from], ctx_, &from) || !NodeOf(row[step().slot], ctx_, &to)) continue;
      if (!Search(row, from, to)) return false;
    }
    for (Side& side : sides_) side = {};
    ctx_.Charge(-std::exchange(charged_, 0));
    return Flush();
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // A way to a node from one that is a level nearer to where its side began.
  struct Way {
    NodeId nearer;
    EdgeRef edge;
    uint32_t next;  // to the same node, or kNone
  };
  struct Reached {
    int64_t depth = 0;
    uint32_t ways = kNone;
  };
  struct Side {
    Direction direction;
    int64_t depth = 0;             // of the frontier
    uint64_t cost = 0;             // relationships that the frontier has
    std::vector<NodeId> frontier;  // the nodes of the last level
    absl::flat_hash_map<NodeId, Reached> reached;
    std::vector<Way> ways;
  };

  bool Search(Value* row, NodeId from, NodeId to) {
    if (from == to) return step().min > 0 || Emit(row, {}, {});
    if (!known_) return true;
    Begin(from, step().direction, &sides_[0]);
    Begin(to, Reversed(step().direction), &sides_[1]);
    // What a transaction has changed it looks through for each degree, and to read the other end's
    // list may conflict with others: it goes from one end.
    one_sided_ = ctx_.transaction != nullptr;
    sides_[1].cost = UINT64_MAX;
    if (!FindCost(&sides_[0]) || (!one_sided_ && !FindCost(&sides_[1]))) return false;
    while (step().max < 0 || sides_[0].depth + sides_[1].depth < step().max) {
      const size_t side = sides_[1].cost < sides_[0].cost ? 1 : 0;
      // Where one of them has nowhere to go there is no path.
      if (sides_[side].cost == 0) break;
      if (!Advance(row, side)) return false;
      if (!meetings_.empty()) return EmitPaths(row);
      if (!FindCost(&sides_[side])) return false;
    }
    return !ctx_.failed();
  }

  static void Begin(NodeId node, Direction direction, Side* side) {
    side->direction = direction;
    side->depth = 0;
    side->frontier = {node};
    side->reached.clear();
    side->reached[node] = {};
    side->ways.clear();
  }

  bool FindCost(Side* side) {
    side->cost = side->frontier.size();
    if (one_sided_) return true;
    if (!FindDegrees(side->frontier, side->direction, types_, ctx_, &degrees_)) return false;
    side->cost = 0;
    for (const uint64_t degree : degrees_) side->cost += degree;
    return true;
  }

  bool Holds(Value* row, const EdgeRef& edge) {
    if (step().element < 0) return true;
    row[step().element] = Value::Edge(edge);
    return std::all_of(step().predicates.begin(), step().predicates.end(),
                       [&](const Expr* p) { return cypher::Holds(*p, row, ctx_); });
  }

  // The next level of a side. What the other side has reached of it is where they meet: there at
  // its last level, or they would have met before.
  bool Advance(Value* row, size_t which) {
    Side &side = sides_[which], &other = sides_[1 - which];
    ++side.depth;
    next_.clear();
    meetings_.clear();
    for (ExpandPosition position; position.node < side.frontier.size();) {
      if (!ExpandNext(side.frontier, side.direction, types_, ctx_, &position, &batch_) ||
          !HasRoom()) {
        return false;
      }
      for (size_t i = 0; i < batch_.size(); ++i) {
        const NodeId nearer = side.frontier[batch_.origin[i]];
        const EdgeRef edge = RefOf(batch_, i, nearer);
        if (!Holds(row, edge)) {
          if (ctx_.failed()) return false;
          continue;
        }
        const auto [it, added] = side.reached.try_emplace(batch_.node[i]);
        if (added) {
          it->second.depth = side.depth;
          next_.push_back(batch_.node[i]);
          if (other.reached.contains(batch_.node[i])) meetings_.push_back(batch_.node[i]);
        } else if (it->second.depth != side.depth || !step().all_paths) {
          continue;
        }
        side.ways.push_back({nearer, edge, it->second.ways});
        it->second.ways = static_cast<uint32_t>(side.ways.size() - 1);
      }
      // One path is enough.
      if (!step().all_paths && !meetings_.empty()) break;
    }
    std::swap(side.frontier, next_);
    return true;
  }

  bool HasRoom() {
    size_t bytes = next_.capacity() * sizeof(NodeId);
    for (const Side& side : sides_) {
      if (side.ways.size() + kGraphBatch * 2 >= kNone) {
        ctx_.Fail(absl::ResourceExhaustedError("a shortest path has too many ways"));
      }
      bytes += side.reached.capacity() * (sizeof(std::pair<NodeId, Reached>) + 1) +
               side.ways.capacity() * sizeof(Way) + side.frontier.capacity() * sizeof(NodeId);
    }
    const auto held = static_cast<int64_t>(bytes);
    return ctx_.Charge(held - std::exchange(charged_, held));
  }

  // Of a single shortest path, the first one.
  bool EmitPaths(const Value* row) {
    if (!step().all_paths) meetings_.resize(1);
    for (const NodeId node : meetings_) {
      const bool more = Trace(0, node, [&](const std::vector<EdgeRef>& there) {
        return Trace(1, node,
                     [&](const std::vector<EdgeRef>& back) { return Emit(row, there, back); });
      });
      if (!more) return false;
    }
    return true;
  }

  // Each way from the node to where the side began. At most as deep as the path is long.
  template <typename Take>
  bool Trace(size_t which, NodeId node, const Take& take) {
    const Side& side = sides_[which];
    std::vector<EdgeRef> trail;
    // Of each node on the way, the way that is to be tried next.
    std::vector<uint32_t> stack = {side.reached.at(node).ways};
    if (side.depth == 0) return take(trail);
    while (!stack.empty()) {
      if (!ctx_.Tick()) return false;
      if (stack.back() == kNone) {
        stack.pop_back();
        if (!trail.empty()) trail.pop_back();
        continue;
      }
      const Way& way = side.ways[stack.back()];
      stack.back() = way.next;
      trail.push_back(way.edge);
      const Reached& nearer = side.reached.at(way.nearer);
      if (nearer.depth > 0) {
        stack.push_back(nearer.ways);
        continue;
      }
      if (!take(trail)) return false;
      trail.pop_back();
    }
    return true;
  }

  // `there`: from the meeting to where the path begins; `back`: to where it ends.
  bool Emit(const Value* row, const std::vector<EdgeRef>& there, const std::vector<EdgeRef>& back) {
    ValueList edges;
    edges.reserve(there.size() + back.size());
    for (auto edge = there.rbegin(); edge != there.rend(); ++edge)
      edges.push_back(Value::Edge(*edge));
    for (const EdgeRef& edge : back) edges.push_back(Value::Edge(edge));
    Value* out = NewRow(row);
    if (out == nullptr) return false;
    if (step().edge >= 0) out[step().edge] = Value::List(std::move(edges));
    return true;
  }

  bool known_ = true;
  std::vector<Token> types_;
  NeighbourBatch batch_;
  Side sides_[2];
  std::vector<NodeId> next_, meetings_;
  std::vector<uint64_t> degrees_;
  bool one_sided_ = false;
  int64_t charged_ = 0;
};

}  // namespace

std::unique_ptr<Operator> MakeShortestOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<ShortestOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
