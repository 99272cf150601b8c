// Operators that change the graph. Unless nothing reads, each takes all its rows before it changes
// anything, and changes everything before it gives a row on: what a clause reads does not depend on
// what it writes.
#include <algorithm>
#include <span>
#include <utility>

#include "services/graph/cypher/kept_rows.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

bool CheckStorable(const Value& v, EvalContext& ctx) {
  if (IsPropertyValue(v)) return true;
  ctx.Fail(RuntimeError(
      "TypeError", "InvalidPropertyType",
      Concat("a property cannot be a ", TypeName(v.type()), v.is_list() ? " of these" : "")));
  return false;
}

// The properties of CREATE: a map, whose nulls are left out.
bool ReadProperties(const Expr* expr, Value* row, EvalContext& ctx, Properties* out) {
  out->clear();
  if (expr == nullptr) return true;
  const Value map = Eval(*expr, row, ctx);
  if (ctx.failed() || map.is_null()) return !ctx.failed();
  if (!map.is_map()) {
    ctx.TypeError(Concat("properties are a MAP, found a ", TypeName(map.type())));
    return false;
  }
  for (const auto& [key, value] : map.as_map()) {
    if (value.is_null()) continue;
    if (!CheckStorable(value, ctx)) return false;
    const auto token = ctx.transaction->AddKeyName(key);
    if (!ctx.Check(token.status())) return false;
    out->emplace_back(*token, value);
  }
  ctx.counters.properties_set += out->size();
  return true;
}

// The token of a label, made where there is none; kNoToken: this has failed.
Token MakeLabel(const std::string& name, EvalContext& ctx) {
  const auto token = ctx.transaction->AddLabelName(name);
  return ctx.Check(token.status()) ? *token : kNoToken;
}

// What has all of the labels: those that are named, and dynamic ones.
bool ReadDynamic(const std::vector<const Expr*>& dynamic, Value* row, EvalContext& ctx,
                 std::vector<std::string>* names) {
  for (const Expr* expr : dynamic) {
    const Value value = Eval(*expr, row, ctx);
    if (ctx.failed() || !ctx.ReadLabelNames(value, names)) return false;
  }
  return true;
}

bool CreateNode(const CreateNodeOp& op, Value* row, EvalContext& ctx) {
  Properties properties;
  std::vector<Token> labels;
  if (!ReadProperties(op.properties, row, ctx, &properties)) return false;
  const auto add = [&](const std::string& name) {
    const Token label = MakeLabel(name, ctx);
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
    return !ctx.failed();
  };
  for (const int name : op.labels) {
    if (!add(ctx.NameOf(name))) return false;
  }
  std::vector<std::string> names;
  if (!ReadDynamic(op.dynamic, row, ctx, &names)) return false;
  if (!std::all_of(names.begin(), names.end(), add)) return false;
  const auto node = ctx.transaction->CreateNode(labels, properties);
  if (!ctx.Check(node.status())) return false;
  ++ctx.counters.nodes_created;
  ctx.counters.labels_added += labels.size();
  row[op.slot] = Value::Node(*node);
  return true;
}

bool CreateEdge(const CreateEdgeOp& op, Value* row, EvalContext& ctx) {
  const Value &source = row[op.source], &target = row[op.target];
  if (!source.is_node() || !target.is_node()) {
    ctx.Fail(RuntimeError("SemanticError", "NullNode",
                          "a relationship needs two nodes, and one of them is null"));
    return false;
  }
  for (const Value* end : {&source, &target}) {
    if (ctx.deleted_nodes.contains(end->as_node())) {
      ctx.Fail(RuntimeError("EntityNotFound", "DeletedEntityAccess",
                            "this node was deleted by the query"));
      return false;
    }
  }
  Properties properties;
  if (!ReadProperties(op.properties, row, ctx, &properties)) return false;
  std::string dynamic;
  if (op.dynamic_type != nullptr) {
    const Value value = Eval(*op.dynamic_type, row, ctx);
    if (ctx.failed() || !ctx.ReadTypeName(value, &dynamic)) return false;
  }
  const auto type =
      ctx.transaction->AddTypeName(op.dynamic_type != nullptr ? dynamic : ctx.NameOf(op.type));
  if (!ctx.Check(type.status())) return false;
  const auto edge =
      ctx.transaction->CreateEdge(source.as_node(), target.as_node(), *type, properties);
  if (!ctx.Check(edge.status())) return false;
  ++ctx.counters.edges_created;
  row[op.slot] = Value::Edge(*edge);
  return true;
}

bool Create(const CreateOps& ops, Value* row, EvalContext& ctx) {
  size_t node = 0, edge = 0;
  for (const bool is_edge : ops.order) {
    if (!(is_edge ? CreateEdge(ops.edges[edge++], row, ctx)
                  : CreateNode(ops.nodes[node++], row, ctx)))
      return false;
  }
  for (const auto& [part, slot] : ops.paths) {
    Value path;
    BuildPath(*part, row, &path);
    row[slot] = std::move(path);
  }
  return ctx.ChangesFit() && ctx.Tick();
}

void SetProperty(const Value& entity, std::string_view key, const Value& value, EvalContext& ctx) {
  if (!CheckStorable(value, ctx)) return;
  if (value.is_null()) {
    // What is not there is not removed, nor counted.
    const std::optional<Token> known = ctx.graph->FindKey(key);
    if (!known.has_value() || PropertyOf(entity, key, *known, ctx).is_null()) return;
  }
  const auto token = ctx.transaction->AddKeyName(key);
  if (!ctx.Check(token.status())) return;
  ++ctx.counters.properties_set;
  ctx.Check(entity.is_node() ? ctx.transaction->SetNodeProperty(entity.as_node(), *token, value)
                             : ctx.transaction->SetEdgeProperty(entity.as_edge(), *token, value));
}

bool ChangeLabel(const SetOp& op, NodeId node, Token label, EvalContext& ctx) {
  if (ctx.failed() || label == kNoToken) return !ctx.failed();
  uint8_t has = 0;
  if (!ctx.Check(ctx.graph->HasLabel(label, {&node, 1}, {&has, 1}))) return false;
  if ((has != 0) == !op.remove) return true;
  ++(op.remove ? ctx.counters.labels_removed : ctx.counters.labels_added);
  return ctx.Check(op.remove ? ctx.transaction->RemoveLabel(node, label)
                             : ctx.transaction->AddLabel(node, label));
}

void SetLabels(const SetOp& op, const Value& node, Value* row, EvalContext& ctx) {
  if (!node.is_node()) {
    ctx.TypeError(Concat("a ", TypeName(node.type()), " has no labels"));
    return;
  }
  const NodeId id = node.as_node();
  // Before any is changed: an expression sees the labels that were there.
  std::vector<std::string> names;
  if (!ReadDynamic(op.dynamic, row, ctx, &names)) return;
  // A label that nobody used yet need not be known to be removed.
  for (const int name : op.names) {
    const Token label = op.remove ? ctx.Label(name) : MakeLabel(ctx.NameOf(name), ctx);
    if (!ChangeLabel(op, id, label, ctx)) return;
  }
  for (const std::string& name : names) {
    const Token label =
        op.remove ? ctx.graph->FindLabel(name).value_or(kNoToken) : MakeLabel(name, ctx);
    if (!ChangeLabel(op, id, label, ctx)) return;
  }
}

void SetAll(const SetOp& op, const Value& entity, const Value& value, EvalContext& ctx) {
  Value map = value;
  if (value.is_node() || value.is_edge()) map = ctx.PropertyMap(value);
  if (ctx.failed()) return;
  if (map.is_null() && op.kind == SetItem::Kind::kMerge) return;
  if (!map.is_map()) {
    ctx.TypeError(Concat("properties are a MAP, found a ", TypeName(map.type())));
    return;
  }
  if (op.kind == SetItem::Kind::kReplace) {
    const Value before = ctx.PropertyMap(entity);
    if (ctx.failed()) return;
    for (const auto& [key, old] : before.as_map()) {
      if (map.Find(key) == nullptr) SetProperty(entity, key, Value(), ctx);
    }
  }
  for (const auto& [key, item] : map.as_map()) SetProperty(entity, key, item, ctx);
}

}  // namespace

void ApplySet(const std::vector<SetOp>& ops, Value* row, EvalContext& ctx) {
  for (const SetOp& op : ops) {
    const Value entity = Eval(*op.target, row, ctx);
    const Value key = op.key != nullptr ? Eval(*op.key, row, ctx) : Value();
    Value value = op.value != nullptr ? Eval(*op.value, row, ctx) : Value();
    if (ctx.failed()) return;
    if (entity.is_null()) continue;
    if (!entity.is_node() && !entity.is_edge()) {
      ctx.TypeError(Concat("a ", TypeName(entity.type()),
                           op.kind == SetItem::Kind::kLabels
                               ? " has no labels"
                               : " has no properties that could be set"));
      return;
    }
    const bool deleted = entity.is_node() ? ctx.deleted_nodes.contains(entity.as_node())
                                          : ctx.deleted_edges.contains(entity.as_edge().id);
    if (deleted) {
      ctx.Fail(RuntimeError("EntityNotFound", "DeletedEntityAccess",
                            "this entity was deleted by the query"));
      return;
    }
    if (op.kind == SetItem::Kind::kLabels) {
      SetLabels(op, entity, row, ctx);
      if (ctx.failed()) return;
      if (!ctx.ChangesFit()) return;
      continue;
    }
    if (op.kind == SetItem::Kind::kDynamic && !key.is_string()) {
      ctx.TypeError(Concat("the name of a property is a STRING, found a ", TypeName(key.type())));
      return;
    }
    if (op.kind == SetItem::Kind::kDynamic)
      SetProperty(entity, key.as_string(), value, ctx);
    else if (op.kind == SetItem::Kind::kProperty)
      SetProperty(entity, ctx.NameOf(op.names[0]), value, ctx);
    else
      SetAll(op, entity, value, ctx);
    if (!ctx.ChangesFit()) return;
  }
}

namespace {

class UpdateOperator : public Operator {
 public:
  UpdateOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), held_(runtime->width, &ctx_), done_(runtime->width, &ctx_) {}
  // Changes the graph for these rows, and them. Rows that go on are left in `in`, or in done_.
  virtual bool Apply(Rows& in) = 0;

  bool Push(Rows& in) override {
    if (step().eager) return held_.Add(in);
    return Apply(in) && Done() && (in.empty() || Give(in)) && GiveDone();
  }
  bool Finish() override {
    const bool ok = held_.Drain([this](Rows& rows) { return Apply(rows) && done_.Add(rows); }) &&
                    Done() && GiveDone();
    return next_->Finish() && ok;
  }
  void Reset() override {
    held_.Clear();
    done_.Clear();
  }

 protected:
  // All rows were taken.
  virtual bool Done() { return !ctx_.failed(); }

  KeptRows held_, done_;  // before and behind the change

 private:
  bool Give(Rows& in) { return next_->Push(in) && !ctx_.failed(); }
  bool GiveDone() {
    return done_.Drain([this](Rows& rows) { return Give(rows); });
  }
};

class CreateOperator : public UpdateOperator {
 public:
  using UpdateOperator::UpdateOperator;
  bool Apply(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      if (!Create(step().create, in.Row(i), ctx_)) return false;
    }
    return true;
  }
};

class SetOperator : public UpdateOperator {
 public:
  using UpdateOperator::UpdateOperator;
  bool Apply(Rows& in) override {
    for (size_t i = 0; i < in.size() && ctx_.Tick(); ++i) ApplySet(step().set, in.Row(i), ctx_);
    return !ctx_.failed();
  }
};

class DeleteOperator : public UpdateOperator {
 public:
  using UpdateOperator::UpdateOperator;
  bool Apply(Rows& in) override {
    for (size_t i = 0; i < in.size() && ctx_.Tick(); ++i) {
      for (const Expr* expr : step().deletes) Collect(Eval(*expr, in.Row(i), ctx_));
    }
    return ChargeHeld();
  }
  // Relationships first: what is left of a node's then forbids to delete it.
  bool Done() override {
    if (step().detach) {
      ExpandPosition position;
      while (position.node < nodes_.size() && !ctx_.failed()) {
        NeighbourBatch batch;
        if (!ctx_.Check(
                ctx_.graph->Expand(nodes_, Direction::kBoth, {}, kBatchRows, &position, &batch)))
          return false;
        for (size_t i = 0; i < batch.size(); ++i) {
          const NodeId from = nodes_[batch.origin[i]];
          const bool in = batch.incoming[i] != 0;
          edges_.push_back(
              {batch.edge[i], in ? batch.node[i] : from, in ? from : batch.node[i], batch.type[i]});
        }
        if (!ChargeHeld() || !ctx_.Tick(batch.size())) return false;
      }
    }
    for (const EdgeRef& edge : edges_) {
      if (!ctx_.deleted_edges.insert(edge.id).second) continue;
      if (!ctx_.ChargeDeleted() || !ctx_.Check(ctx_.transaction->DeleteEdge(edge)) ||
          !ctx_.ChangesFit() || !ctx_.Tick()) {
        return false;
      }
      ++ctx_.counters.edges_deleted;
    }
    for (size_t i = 0; i < nodes_.size(); i += kGraphBatch) {
      const size_t count = std::min(kGraphBatch, nodes_.size() - i);
      if (!DeleteNodes({nodes_.data() + i, count})) return false;
    }
    nodes_.clear();
    edges_.clear();
    seen_.clear();
    return ChargeHeld();
  }

 private:
  bool DeleteNodes(std::span<const NodeId> nodes) {
    std::vector<uint64_t> degrees(nodes.size(), 0);
    if (!ctx_.Check(ctx_.graph->Degrees(nodes, Direction::kBoth, {}, degrees))) return false;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (degrees[i] != 0) {
        ctx_.Fail(RuntimeError(
            "ConstraintVerificationFailed", "DeleteConnectedNode",
            "a node that has relationships cannot be deleted; DETACH DELETE deletes these, too"));
        return false;
      }
      ctx_.deleted_nodes.insert(nodes[i]);
      if (!ctx_.ChargeDeleted() || !ctx_.Check(ctx_.transaction->DeleteNode(nodes[i])) ||
          !ctx_.ChangesFit() || !ctx_.Tick()) {
        return false;
      }
      ++ctx_.counters.nodes_deleted;
    }
    return true;
  }

  bool ChargeHeld() {
    const size_t lists = nodes_.size() * sizeof(NodeId) + edges_.size() * sizeof(EdgeRef);
    const auto seen = static_cast<int64_t>(seen_.size()) * EvalContext::kBytesOfId;
    const int64_t held = static_cast<int64_t>(lists) + seen;
    return ctx_.Charge(held - std::exchange(charged_, held));
  }

  void Collect(const Value& v) {
    if (v.is_null()) return;
    if (v.is_node()) {
      if (!ctx_.deleted_nodes.contains(v.as_node()) && seen_.insert(v.as_node()).second)
        nodes_.push_back(v.as_node());
    } else if (v.is_edge()) {
      edges_.push_back(v.as_edge());
    } else if (v.is_path()) {
      for (const NodeId node : v.as_path().nodes) Collect(Value::Node(node));
      for (const EdgeRef& edge : v.as_path().edges) edges_.push_back(edge);
    } else {
      ctx_.TypeError(Concat("a ", TypeName(v.type()), " cannot be deleted"));
    }
  }

  std::vector<NodeId> nodes_;
  std::unordered_set<NodeId> seen_;
  std::vector<EdgeRef> edges_;
  int64_t charged_ = 0;  // for these
};

class MergeOperator : public UpdateOperator {
 public:
  MergeOperator(const Step* step, Runtime* runtime, Operator* next)
      : UpdateOperator(step, runtime, next),
        matched_(runtime->width, &ctx_),
        sink_(MakeSink(runtime,
                       [this](Rows& rows) {
                         found_ = true;
                         // They are changed when all are found.
                         KeptRows& to = step_->on_match.empty() ? done_ : matched_;
                         for (size_t i = 0; i < rows.size(); ++i) {
                           if (!Keep(rows.Row(i), &to)) return false;
                         }
                         return true;
                       })),
        inner_(step->inner, runtime, sink_.get()) {}

  bool Apply(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      if (!Prepare(row)) return false;
      found_ = false;
      inner_.RunOne(row);
      if (ctx_.failed()) return false;
      if (!found_) {
        if (!Create(step().create, row, ctx_)) return false;
        ApplySet(step().set, row, ctx_);
        if (!Keep(row, &done_)) return false;
      } else if (!matched_.Drain([this](Rows& rows) { return SetMatched(rows); })) {
        return false;
      }
      if (!ctx_.Tick()) return false;
    }
    in.clear();
    return !ctx_.failed();
  }
  void Reset() override {
    matched_.Clear();
    UpdateOperator::Reset();
  }

 private:
  bool Keep(Value* row, KeptRows* to) {
    // The properties were for the match.
    for (const auto& [expr, slot] : step().items) row[slot] = Value();
    return to->Add(row);
  }
  bool SetMatched(Rows& rows) {
    for (size_t i = 0; i < rows.size(); ++i) ApplySet(step().on_match, rows.Row(i), ctx_);
    return !ctx_.failed() && done_.Add(rows);
  }
  // The properties of the pattern, evaluated once for the match. A null matches nothing, and cannot
  // be made.
  bool Prepare(Value* row) {
    for (const auto& [expr, slot] : step().items) {
      Value value_of = Eval(*expr, row, ctx_);
      if (ctx_.failed()) return false;
      static const ValueMap kNoProperties;  // of names of labels
      for (const auto& [key, value] : value_of.is_map() ? value_of.as_map() : kNoProperties) {
        if (!value.is_null()) continue;
        ctx_.Fail(RuntimeError("SemanticError", "MergeReadOwnWrites",
                               Concat("MERGE cannot use null for the property ", key)));
        return false;
      }
      row[slot] = std::move(value_of);
    }
    return true;
  }

  bool found_ = false;
  KeptRows matched_;
  std::unique_ptr<Operator> sink_;
  Pipeline inner_;
};

class ForeachOperator : public UpdateOperator {
 public:
  ForeachOperator(const Step* step, Runtime* runtime, Operator* next)
      : UpdateOperator(step, runtime, next),
        sink_(MakeSink(runtime, [](Rows&) { return true; })),
        inner_(step->inner, runtime, sink_.get()) {}

  bool Apply(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      const Value list = Eval(*step().expr, row, ctx_);
      if (ctx_.failed()) return false;
      if (list.is_null()) continue;
      if (!list.is_list()) {
        ctx_.TypeError(Concat("FOREACH needs a LIST, found a ", TypeName(list.type())));
        return false;
      }
      for (const Value& item : list.as_list()) {
        row[step().slot] = item;
        inner_.RunOne(row);
        if (!ctx_.Tick()) return false;
      }
    }
    return !ctx_.failed();
  }

 private:
  std::unique_ptr<Operator> sink_;
  Pipeline inner_;
};

}  // namespace

std::unique_ptr<Operator> MakeUpdateOperator(const Step& step, Runtime* runtime, Operator* next) {
  switch (step.kind) {
    case Step::Kind::kCreate:
      return std::make_unique<CreateOperator>(&step, runtime, next);
    case Step::Kind::kMerge:
      return std::make_unique<MergeOperator>(&step, runtime, next);
    case Step::Kind::kSet:
      return std::make_unique<SetOperator>(&step, runtime, next);
    case Step::Kind::kDelete:
      return std::make_unique<DeleteOperator>(&step, runtime, next);
    default:
      return std::make_unique<ForeachOperator>(&step, runtime, next);
  }
}

}  // namespace pulse::cypher
