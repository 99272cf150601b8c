// The operator that finds shortest paths between two bound nodes, breadth first and from both of
// them: the side goes on whose next level has fewer relationships. The sides meet in nodes that
// every shortest path has one of. Where something is to hold of the path, and does not of these,
// the longer ones are tried, length by length, as trails.
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
    std::vector<Stop>().swap(trail_);
    charged_ += std::exchange(trail_charged_, 0);
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
    emitted_ = false;
    emitted_more_ = true;
    if (!FindMost(row)) return false;
    if (!NodeHolds(row, from) || !NodeHolds(row, to)) return !ctx_.failed();
    if (from == to) {
      if (step().min > 0) {
        // Of a selector that is a pair of ends as any other; shortestPath() has no cycles.
        return !step().cycles || !known_ || SearchTrails(row, from, to, 0);
      }
      if (!Emit(row, {}, {}) || emitted_ || !known_) return !ctx_.failed() && emitted_more_;
      return SearchTrails(row, from, to, 0);
    }
    if (!known_) return true;
    Begin(from, step().direction, &sides_[0]);
    Begin(to, Reversed(step().direction), &sides_[1]);
    // What a transaction has changed it looks through for each degree, and to read the other end's
    // list may conflict with others: it goes from one end.
    one_sided_ = ctx_.transaction != nullptr;
    sides_[1].cost = UINT64_MAX;
    if (!FindCost(&sides_[0]) || (!one_sided_ && !FindCost(&sides_[1]))) return false;
    while (most_ < 0 || sides_[0].depth + sides_[1].depth < most_) {
      const size_t side = sides_[1].cost < sides_[0].cost ? 1 : 0;
      // Where one of them has nowhere to go there is no path.
      if (sides_[side].cost == 0) break;
      if (!Advance(row, side)) return false;
      if (!meetings_.empty()) {
        if (!EmitPaths(row) || emitted_) return !ctx_.failed() && emitted_more_;
        return SearchTrails(row, from, to, sides_[0].depth + sides_[1].depth);
      }
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

  // Whether a relationship may be on the path, with the node behind it.
  bool Holds(Value* row, const EdgeRef& edge, NodeId node) {
    if (step().element >= 0) {
      row[step().element] = Value::Edge(edge);
      const bool all = std::all_of(step().predicates.begin(), step().predicates.end(),
                                   [&](const Expr* p) { return cypher::Holds(*p, row, ctx_); });
      if (!all) return false;
    }
    return std::all_of(step().tests.begin(), step().tests.end(), [&](const Step::PathTest& test) {
      return Holds(row, test, test.of_nodes ? Value::Node(node) : Value::Edge(edge));
    });
  }
  bool NodeHolds(Value* row, NodeId node) {
    return std::all_of(step().tests.begin(), step().tests.end(), [&](const Step::PathTest& test) {
      return !test.of_nodes || Holds(row, test, Value::Node(node));
    });
  }
  // Null is neither.
  bool Holds(Value* row, const Step::PathTest& test, Value of) {
    row[test.slot] = std::move(of);
    // What is no boolean is neither, too: it may be on no path that is found.
    const Value truth = Eval(*test.expr, row, ctx_);
    return truth.is_bool() && truth.as_bool() == test.holds && !ctx_.failed();
  }

  // Paths that are longer than `length`, of each length all before those of the next. Of a trail no
  // relationship comes twice, as in any path.
  bool SearchTrails(Value* row, NodeId from, NodeId to, int64_t length) {
    while (!emitted_ && (most_ < 0 || length < most_)) {
      ++length;
      bool grown = false;
      if (!WalkTrails(row, from, to, static_cast<size_t>(length), &grown)) {
        return !ctx_.failed() && emitted_more_;
      }
      if (!grown) return true;
    }
    return true;
  }

  bool WalkTrails(Value* row, NodeId from, NodeId to, size_t length, bool* grown) {
    trail_.resize(std::max(trail_.size(), length + 1));
    edges_.clear();
    if (!FillStop(row, from, &trail_[0])) return false;
    for (size_t depth = 0;;) {
      Stop& stop = trail_[depth];
      if (stop.next == stop.edges.size()) {
        if (depth == 0) return true;
        --depth;
        edges_.pop_back();
        continue;
      }
      const EdgeRef edge = stop.edges[stop.next];
      const NodeId node = stop.nodes[stop.next++];
      if (!ctx_.Tick()) return false;
      if (std::any_of(edges_.begin(), edges_.end(),
                      [&edge](const EdgeRef& before) { return before.id == edge.id; })) {
        continue;
      }
      edges_.push_back(edge);
      if (edges_.size() < length) {
        if (!FillStop(row, node, &trail_[++depth])) return false;
        continue;
      }
      *grown = true;
      if (node == to && (!Emit(row, {}, edges_) || OneIsEnough())) return false;
      edges_.pop_back();
    }
  }

  // The longest path that WHERE leaves.
  bool FindMost(Value* row) {
    most_ = step().max;
    for (const auto& [bound, less] : step().most_lengths) {
      const Value value = Eval(*bound, row, ctx_);
      if (ctx_.failed()) return false;
      if (!value.is_int()) continue;  // the predicate sees to it
      const int64_t most = std::max<int64_t>(0, value.as_int() - (less ? 1 : 0));
      most_ = most_ < 0 ? most : std::min(most_, most);
    }
    return true;
  }

  // Whichever of the shortest ones comes first.
  bool OneIsEnough() const { return !step().all_paths && step().of_path.empty(); }

  struct Stop {
    std::vector<EdgeRef> edges;
    std::vector<NodeId> nodes;
    size_t next = 0;
  };
  bool FillStop(Value* row, NodeId node, Stop* stop) {
    const size_t before = stop->edges.capacity();
    stop->edges.clear();
    stop->nodes.clear();
    stop->next = 0;
    for (ExpandPosition position; position.node < 1;) {
      if (!ExpandNext({&node, 1}, step().direction, types_, ctx_, &position, &batch_)) return false;
      for (size_t i = 0; i < batch_.size(); ++i) {
        const EdgeRef edge = RefOf(batch_, i, node);
        if (!Holds(row, edge, batch_.node[i])) {
          if (ctx_.failed()) return false;
          continue;
        }
        stop->edges.push_back(edge);
        stop->nodes.push_back(batch_.node[i]);
      }
    }
    const size_t more = (stop->edges.capacity() - before) * (sizeof(EdgeRef) + sizeof(NodeId));
    trail_charged_ += static_cast<int64_t>(more);
    return ctx_.Charge(static_cast<int64_t>(more));
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
        if (!Holds(row, edge, batch_.node[i])) {
          if (ctx_.failed()) return false;
          continue;
        }
        const auto [it, added] = side.reached.try_emplace(batch_.node[i]);
        if (added) {
          it->second.depth = side.depth;
          next_.push_back(batch_.node[i]);
          if (other.reached.contains(batch_.node[i])) meetings_.push_back(batch_.node[i]);
        } else if (it->second.depth != side.depth || OneIsEnough()) {
          continue;
        }
        side.ways.push_back({nearer, edge, it->second.ways});
        it->second.ways = static_cast<uint32_t>(side.ways.size() - 1);
      }
      if (OneIsEnough() && !meetings_.empty()) break;
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
    if (OneIsEnough()) meetings_.resize(1);
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
    Value list = Value::List(std::move(edges));
    if (!step().of_path.empty()) {
      whole_.assign(row, row + runtime_->width);
      whole_[static_cast<size_t>(step().edge)] = list;
      if (step().part->slot >= 0) {
        BuildPath(*step().part, whole_.data(), &whole_[static_cast<size_t>(step().part->slot)]);
      }
      const bool holds =
          std::all_of(step().of_path.begin(), step().of_path.end(),
                      [&](const Expr* e) { return cypher::Holds(*e, whole_.data(), ctx_); });
      if (!holds) return !ctx_.failed();
    }
    emitted_ = true;
    Value* out = NewRow(row);
    emitted_more_ = out != nullptr;
    if (out == nullptr) return false;
    if (step().edge >= 0) out[step().edge] = std::move(list);
    return step().all_paths || step().of_path.empty();  // else no other is looked for
  }

  bool known_ = true;
  std::vector<Token> types_;
  NeighbourBatch batch_;
  Side sides_[2];
  std::vector<NodeId> next_, meetings_;
  std::vector<uint64_t> degrees_;
  bool one_sided_ = false;
  bool emitted_ = false;      // a path between these nodes
  bool emitted_more_ = true;  // and more rows are wanted
  std::vector<Stop> trail_;   // of trails, one for each of their nodes
  std::vector<EdgeRef> edges_;
  std::vector<Value> whole_;
  int64_t most_ = -1;  // length
  int64_t charged_ = 0, trail_charged_ = 0;
};

}  // namespace

std::unique_ptr<Operator> MakeShortestOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<ShortestOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
