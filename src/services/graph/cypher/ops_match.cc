// Operators that find relationships and paths.
#include <algorithm>
#include <unordered_set>

#include "services/graph/cypher/match.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_filter.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

class ExpandOperator : public Operator {
 public:
  ExpandOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), filter_(step->predicates) {
    batch_.ends_only = step->edge < 0 && step->unique.empty();
  }

  bool Push(Rows& in) override {
    if (!ResolveTypes(step().types, ctx_, &types_)) return true;
    nodes_.clear();
    rows_.clear();
    for (size_t i = 0; i < in.size(); ++i) {
      NodeId node = 0;
      if (!NodeOf(in.Row(i)[step().from], ctx_, &node)) continue;
      nodes_.push_back(node);
      rows_.push_back(i);
    }
    ExpandPosition position;
    while (position.node < nodes_.size() && !ctx_.failed()) {
      if (!ExpandNext(nodes_, step().direction, types_, ctx_, &position, &batch_)) return false;
      // No row is made of a node that predicates do not hold for.
      const bool select = !filter_.empty();
      if (select && !filter_.Select({batch_.node.data(), batch_.node.size()}, ctx_, &selected_)) {
        return false;
      }
      const size_t count = select ? selected_.size() : batch_.size();
      for (size_t i = 0; i < count; ++i) {
        if (!Emit(in, select ? selected_[i] : i)) return false;
      }
    }
    return Flush();
  }

 private:
  bool Emit(Rows& in, size_t i) {
    Value* row = in.Row(rows_[batch_.origin[i]]);
    if (!step().unique.empty() && !Differs(row, step().unique, batch_.edge[i])) return true;
    Value* out = NewRow(row);
    if (out == nullptr) return false;
    out[step().slot] = Value::Node(batch_.node[i]);
    if (step().edge >= 0) {
      out[step().edge] = step().edge_number
                             ? Value::Int(static_cast<int64_t>(batch_.edge[i]))
                             : Value::Edge(RefOf(batch_, i, nodes_[batch_.origin[i]]));
    }
    return true;
  }

  BatchFilter filter_;
  std::vector<uint32_t> selected_;
  std::vector<Token> types_;
  std::vector<NodeId> nodes_;
  std::vector<size_t> rows_;
  NeighbourBatch batch_;
};

// Over a relationship that the row has already: its ends are what the pattern asks for.
class EdgeOperator : public Operator {
 public:
  using Operator::Operator;

  bool Push(Rows& in) override {
    if (!ResolveTypes(step().types, ctx_, &types_)) return true;
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      const Value& v = row[step().edge];
      if (v.is_null()) continue;
      if (!v.is_edge()) {
        ctx_.TypeError(Concat("a pattern needs a RELATIONSHIP, found a ", TypeName(v.type())));
        return false;
      }
      const EdgeRef edge = v.as_edge();
      if (!types_.empty() && std::find(types_.begin(), types_.end(), edge.type) == types_.end())
        continue;
      if (!Differs(row, step().unique, edge.id)) continue;
      if (step().direction != Direction::kIn && !Emit(row, edge.source, edge.target)) return false;
      const bool loop = edge.source == edge.target && step().direction == Direction::kBoth;
      if (step().direction != Direction::kOut && !loop && !Emit(row, edge.target, edge.source))
        return false;
    }
    return Flush();
  }

 private:
  bool Emit(const Value* row, NodeId from, NodeId to) {
    const auto is = [](const Value& v, NodeId node) { return v.is_node() && v.as_node() == node; };
    if (step().from_bound && !is(row[step().from], from)) return true;
    if (step().into && step().slot != step().from && !is(row[step().slot], to)) return true;
    if (step().slot == step().from && from != to) return true;
    Value* out = NewRow(row);
    if (out == nullptr) return false;
    out[step().from] = Value::Node(from);
    out[step().slot] = Value::Node(to);
    return true;
  }

  std::vector<Token> types_;
};

// Every trail of min to max relationships, depth first: none is walked twice in one trail.
class ExpandVarOperator : public Operator {
 public:
  using Operator::Operator;

  bool Push(Rows& in) override {
    known_ = ResolveTypes(step().types, ctx_, &types_);
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      NodeId from = 0;
      if (!NodeOf(row[step().from], ctx_, &from)) continue;
      if (!(step().edge_bound ? Follow(row, from) : Walk(row, from))) return false;
    }
    return Flush();
  }

 private:
  struct Level {
    std::vector<std::pair<EdgeRef, NodeId>> next;
    size_t at = 0;
  };

  bool Emit(const Value* row, NodeId end) {
    if (step().into) {
      NodeId target = 0;
      if (!NodeOf(row[step().slot], ctx_, &target) || target != end) return !ctx_.failed();
    }
    ValueList edges;
    edges.reserve(trail_.size());
    for (const EdgeRef& edge : trail_) edges.push_back(Value::Edge(edge));
    if (step().reversed) std::reverse(edges.begin(), edges.end());
    Value* out = NewRow(row);
    if (out == nullptr) return false;
    if (!step().into) out[step().slot] = Value::Node(end);
    if (step().edge >= 0) out[step().edge] = Value::List(std::move(edges));
    return ctx_.Tick(trail_.size());
  }

  // The relationships that can follow, into the level of the trail's length.
  bool Load(Value* row, NodeId node) {
    if (levels_.size() <= trail_.size()) levels_.emplace_back();
    Level& level = levels_[trail_.size()];
    level.next.clear();
    level.at = 0;
    ExpandPosition position;
    while (position.node < 1) {
      if (!ExpandNext({&node, 1}, step().direction, types_, ctx_, &position, &batch_)) return false;
      for (size_t i = 0; i < batch_.size(); ++i) {
        const EdgeRef edge = RefOf(batch_, i, node);
        if (walked_.contains(edge.id) || !Differs(row, step().unique, edge.id)) continue;
        if (step().element >= 0) {
          row[step().element] = Value::Edge(edge);
          const bool holds = std::all_of(step().predicates.begin(), step().predicates.end(),
                                         [&](const Expr* p) { return Holds(*p, row, ctx_); });
          if (!holds) continue;
        }
        level.next.emplace_back(edge, batch_.node[i]);
      }
    }
    pending_ += level.next.size();
    if (!ctx_.Fits((pending_ + trail_.size() * 4) * sizeof(level.next[0]))) return false;
    return !ctx_.failed();
  }

  bool Walk(Value* row, NodeId from) {
    trail_.clear();
    walked_.clear();
    pending_ = 0;
    const int64_t max = step().max;
    if (step().min == 0 && (max != -1 ? max >= 0 : true) && !Emit(row, from)) return false;
    if (!known_ || max == 0 || (max >= 0 && max < step().min)) return true;
    if (!Load(row, from)) return false;
    while (true) {
      Level& level = levels_[trail_.size()];
      if (level.at == level.next.size()) {
        pending_ -= level.next.size();
        if (trail_.empty()) return true;
        walked_.erase(trail_.back().id);
        trail_.pop_back();
        continue;
      }
      const auto [edge, node] = level.next[level.at++];
      trail_.push_back(edge);
      walked_.insert(edge.id);
      if (static_cast<int64_t>(trail_.size()) >= step().min && !Emit(row, node)) return false;
      if (max >= 0 && static_cast<int64_t>(trail_.size()) >= max) {
        walked_.erase(edge.id);
        trail_.pop_back();
        continue;
      }
      if (!Load(row, node)) return false;
    }
  }

  // The list of relationships is given; it must be a walk from here.
  bool Follow(Value* row, NodeId from) {
    const Value list = row[step().edge];
    if (list.is_null()) return true;
    if (!list.is_list()) {
      ctx_.TypeError("a pattern of variable length needs a LIST of relationships");
      return false;
    }
    ValueList edges = list.as_list();
    if (step().reversed) std::reverse(edges.begin(), edges.end());
    const auto length = static_cast<int64_t>(edges.size());
    if (length < step().min || (step().max >= 0 && length > step().max)) return true;
    trail_.clear();
    walked_.clear();
    NodeId at = from;
    for (const Value& v : edges) {
      if (!v.is_edge()) return true;
      const EdgeRef& e = v.as_edge();
      if (!known_ || !walked_.insert(e.id).second || !Differs(row, step().unique, e.id))
        return true;
      if (!types_.empty() && std::find(types_.begin(), types_.end(), e.type) == types_.end())
        return true;
      if (step().element >= 0) {
        row[step().element] = v;
        for (const Expr* p : step().predicates) {
          if (!Holds(*p, row, ctx_)) return !ctx_.failed();
        }
      }
      const bool out = e.source == at && step().direction != Direction::kIn;
      const bool in = e.target == at && step().direction != Direction::kOut;
      if (!out && !in) return true;
      at = out ? e.target : e.source;
      trail_.push_back(e);
    }
    return Emit(row, at);
  }

  bool known_ = true;
  std::vector<Token> types_;
  NeighbourBatch batch_;
  std::vector<EdgeRef> trail_;
  std::unordered_set<EdgeId> walked_;
  size_t pending_ = 0;  // entries of all levels in use
  std::vector<Level> levels_;
};

}  // namespace

// Builds the path of a part whose nodes and relationships are in the row; null where one is.
bool BuildPath(const PatternPart& part, const Value* row, Value* out) {
  Path path;
  for (size_t i = 0; i < part.nodes.size(); ++i) {
    const Value& node = row[part.nodes[i].slot];
    if (!node.is_node()) {
      *out = Value();
      return false;
    }
    if (i == 0) path.nodes.push_back(node.as_node());
    if (i == part.edges.size()) break;
    const Value& edges = row[part.edges[i].slot];
    const auto add = [&path](const EdgeRef& edge) {
      path.edges.push_back(edge);
      path.nodes.push_back(edge.source == path.nodes.back() ? edge.target : edge.source);
    };
    if (edges.is_edge()) {
      add(edges.as_edge());
    } else if (edges.is_list()) {
      for (const Value& edge : edges.as_list()) add(edge.as_edge());
    } else {
      *out = Value();
      return false;
    }
  }
  *out = Value::MakePath(std::move(path));
  return true;
}

namespace {

class PathOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      Value path;
      BuildPath(*step().part, in.Row(i), &path);
      in.Row(i)[step().slot] = std::move(path);
    }
    return ctx_.Tick(in.size()) && next_->Push(in);
  }
};

// The inner steps on all rows at once, in whose order they give what they find. Each row carries
// its number: those that are left out found nothing, and get their nulls where they stood.
class OptionalOperator : public Operator {
 public:
  OptionalOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next),
        sink_(MakeSink(runtime,
                       [this](Rows& rows) {
                         more_ = Take(rows);
                         return more_;
                       })),
        inner_(step->inner, runtime, sink_.get()),
        copy_(runtime->width) {}

  bool Push(Rows& in) override {
    in_ = &in;
    if (!step().ordered) return PushRows(in, 0, in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      if (!PushRows(in, i, i + 1)) return false;
    }
    return true;
  }

 private:
  bool PushRows(Rows& in, size_t from, size_t to) {
    copy_.clear();
    for (size_t i = from; i < to; ++i) {
      in.Row(i)[step().row_number] = Value::Int(static_cast<int64_t>(i));
      copy_.Add(in.Row(i));
    }
    more_ = true;
    given_ = from;
    inner_.Run(copy_);
    return more_ && !ctx_.failed() && GiveNulls(to) && Flush();
  }

  size_t NumberOf(const Value* row) const {
    return static_cast<size_t>(row[step().row_number].as_int());
  }

  bool Take(Rows& rows) {
    size_t given = given_;
    bool all_found = true;
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t number = NumberOf(rows.Row(i));
      all_found = all_found && number <= given;
      given = number + 1;
    }
    if (all_found) {
      given_ = given;
      return next_->Push(rows);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const Value* const row = rows.Row(i);
      if (!GiveNulls(NumberOf(row)) || NewRow(row) == nullptr) return false;
      given_ = NumberOf(row) + 1;
    }
    return Flush();
  }

  // For the rows below `number` that nothing was given for yet.
  bool GiveNulls(size_t number) {
    for (; given_ < number; ++given_) {
      Value* row = NewRow(in_->Row(given_));
      if (row == nullptr) return false;
      for (const Slot slot : step().nulls) row[slot] = Value();
    }
    return true;
  }

  Rows* in_ = nullptr;
  size_t given_ = 0;  // rows that are done
  bool more_ = true;
  std::unique_ptr<Operator> sink_;
  Pipeline inner_;
  Rows copy_;
};

}  // namespace

std::unique_ptr<Operator> MakeMatchOperator(const Step& step, Runtime* runtime, Operator* next) {
  switch (step.kind) {
    case Step::Kind::kScan:
      return MakeScanOperator(step, runtime, next);
    case Step::Kind::kExpand:
      if (step.into) return MakeIntoOperator(step, runtime, next);
      return std::make_unique<ExpandOperator>(&step, runtime, next);
    case Step::Kind::kIntersect:
      return MakeIntersectOperator(step, runtime, next);
    case Step::Kind::kEdgeColumns:
      return MakeEdgeColumnsOperator(step, runtime, next);
    case Step::Kind::kExpandVar:
      return std::make_unique<ExpandVarOperator>(&step, runtime, next);
    case Step::Kind::kQuantified:
      return MakeQuantifiedOperator(step, runtime, next);
    case Step::Kind::kShortest:
      return MakeShortestOperator(step, runtime, next);
    case Step::Kind::kEdge:
      return std::make_unique<EdgeOperator>(&step, runtime, next);
    case Step::Kind::kPath:
      return std::make_unique<PathOperator>(&step, runtime, next);
    case Step::Kind::kFilter:
      return MakeFilterOperator(step, runtime, next);
    case Step::Kind::kOptional:
      return std::make_unique<OptionalOperator>(&step, runtime, next);
    default:
      return nullptr;
  }
}

}  // namespace pulse::cypher
