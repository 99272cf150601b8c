// Which labels nodes have, and types relationships: one by one, and by columns.
#include <algorithm>

#include "services/graph/expressions/batch_eval.h"
#include "services/graph/expressions/eval.h"
#include "services/graph/expressions/rows.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {

bool LabelsHold(const std::vector<LabelOp>& ops, const std::function<bool(size_t)>& has,
                const std::function<bool()>& any) {
  std::vector<bool> stack;
  size_t name = 0;
  for (const LabelOp op : ops) {
    switch (op) {
      case LabelOp::kName:
        stack.push_back(has(name++));
        break;
      case LabelOp::kAny:
        stack.push_back(any());
        break;
      case LabelOp::kNot:
        stack.back() = !stack.back();
        break;
      default: {
        const bool right = stack.back();
        stack.pop_back();
        stack.back() = op == LabelOp::kAnd ? stack.back() && right : stack.back() || right;
      }
    }
  }
  return stack.back();
}

namespace {

// By a program: of any node or relationship.
Value TestLabels(const Expr& e, const Value& v, EvalContext& ctx) {
  if (!ctx.Tick(e.label_ops.size())) return Value();
  if (v.is_edge()) {
    const Token type = v.as_edge().type;
    return Value::Bool(LabelsHold(
        e.label_ops, [&](size_t i) { return ctx.EdgeType(e.slot2 + static_cast<int>(i)) == type; },
        [] { return true; }));
  }
  const std::vector<Token> labels = ctx.Labels(v.as_node());
  return Value::Bool(LabelsHold(
      e.label_ops,
      [&](size_t i) {
        const Token label = ctx.Label(e.slot2 + static_cast<int>(i));
        return label != kNoToken && std::find(labels.begin(), labels.end(), label) != labels.end();
      },
      [&labels] { return !labels.empty(); }));
}

}  // namespace

Value HasLabels(const Expr& e, const Value& v, EvalContext& ctx) {
  if (v.is_null()) return v;
  if (!e.label_ops.empty() && (v.is_edge() || v.is_node())) return TestLabels(e, v, ctx);
  if (v.is_edge()) {
    for (size_t i = 0; i < e.names.size(); ++i) {
      if (ctx.EdgeType(e.slot2 + static_cast<int>(i)) != v.as_edge().type)
        return Value::Bool(false);
    }
    return Value::Bool(true);
  }
  if (!v.is_node()) return ctx.TypeError(Concat("a ", TypeName(v.type()), " has no labels"));
  const NodeId node = v.as_node();
  for (size_t i = 0; i < e.names.size(); ++i) {
    const Token label = ctx.Label(e.slot2 + static_cast<int>(i));
    uint8_t has = 0;
    if (label == kNoToken || !ctx.Check(ctx.graph->HasLabel(label, {&node, 1}, {&has, 1})) ||
        has == 0) {
      return Value::Bool(false);
    }
  }
  return Value::Bool(true);
}

bool BatchEval::Labels(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                       std::vector<int8_t>* out) {
  const Expr& base = *e.kids[0];
  const bool nodes = in.rows == nullptr
                         ? !in.nodes.empty()
                         : base.kind == Expr::Kind::kVariable &&
                               std::all_of(rows.begin(), rows.end(), [&](uint32_t r) {
                                 return in.rows->Row(r)[base.slot].is_node();
                               });
  if (!nodes) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const Value edge = in.rows == nullptr ? Value::Edge(in.edges[rows[i]]) : Value();
      const Value truth =
          in.rows == nullptr ? HasLabels(e, edge, ctx_) : Eval(e, in.rows->Row(rows[i]), ctx_);
      (*out)[i] = static_cast<int8_t>(truth.is_null() ? -1 : truth.is_true() ? 1 : 0);
      if (ctx_.failed()) return false;
    }
    return true;
  }
  std::vector<NodeId> of(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    of[i] = in.rows == nullptr ? in.nodes[rows[i]] : in.rows->Row(rows[i])[base.slot].as_node();
  }
  if (!e.label_ops.empty()) return LabelProgram(e, of, out);
  std::fill(out->begin(), out->end(), 1);
  std::vector<uint8_t> has(rows.size());
  for (size_t l = 0; l < e.names.size(); ++l) {
    const Token label = ctx_.Label(e.slot2 + static_cast<int>(l));
    std::fill(has.begin(), has.end(), 0);
    if (label != kNoToken && !ctx_.Check(ctx_.graph->HasLabel(label, of, has))) return false;
    for (size_t i = 0; i < rows.size(); ++i) {
      (*out)[i] = static_cast<int8_t>((*out)[i] & (has[i] != 0 ? 1 : 0));
    }
  }
  return true;
}

// The program on columns of truths: one call of the graph for a name, whatever it says of others.
bool BatchEval::LabelProgram(const Expr& e, std::span<const NodeId> nodes,
                             std::vector<int8_t>* out) {
  std::vector<std::vector<uint8_t>> stack;
  std::vector<Token> labels;
  int name = e.slot2;
  for (const LabelOp op : e.label_ops) {
    if (!ctx_.Tick(nodes.size())) return false;
    if (op == LabelOp::kNot) {
      for (uint8_t& truth : stack.back()) truth ^= 1;
    } else if (op == LabelOp::kAnd || op == LabelOp::kOr) {
      const std::vector<uint8_t> right = std::move(stack.back());
      stack.pop_back();
      for (size_t i = 0; i < nodes.size(); ++i) {
        uint8_t& left = stack.back()[i];
        left = static_cast<uint8_t>(op == LabelOp::kAnd ? left & right[i] : left | right[i]);
      }
    } else {
      std::vector<uint8_t>& has = stack.emplace_back(nodes.size());
      if (op == LabelOp::kName) {
        const Token label = ctx_.Label(name++);
        if (label != kNoToken && !ctx_.Check(ctx_.graph->HasLabel(label, nodes, has))) return false;
        for (uint8_t& truth : has) truth = truth != 0 ? 1 : 0;
        continue;
      }
      for (size_t i = 0; i < nodes.size(); ++i) {
        if (!ctx_.Check(ctx_.graph->ReadLabels(nodes[i], &labels))) return false;
        has[i] = labels.empty() ? 0 : 1;
      }
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) (*out)[i] = static_cast<int8_t>(stack.back()[i]);
  return true;
}

}  // namespace pulse::cypher
