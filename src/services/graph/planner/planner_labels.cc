// Tests of labels and types: what they ask of a node or relationship whatever else they say, by
// which scans and expansions begin with few.
#include <algorithm>
#include <iterator>
#include <optional>

#include "services/graph/planner/planner.h"

namespace pulse::cypher {
namespace {

using Names = std::set<std::string>;

struct Asked {
  Names all_of;
  std::optional<Names> any_of;
};

// `out` has the left side.
void Combine(LabelOp op, const Asked& right, Asked* out) {
  if (op == LabelOp::kAnd) {
    out->all_of.insert(right.all_of.begin(), right.all_of.end());
    if (!out->any_of || (right.any_of && right.any_of->size() < out->any_of->size())) {
      out->any_of = right.any_of;
    }
    return;
  }
  Names both;
  std::set_intersection(out->all_of.begin(), out->all_of.end(), right.all_of.begin(),
                        right.all_of.end(), std::inserter(both, both.end()));
  out->all_of = std::move(both);
  if (!right.any_of) out->any_of.reset();
  if (out->any_of) out->any_of->insert(right.any_of->begin(), right.any_of->end());
}

}  // namespace

Planner::AskedLabels Planner::LabelsAsked(const LabelExpr& expr) {
  if (expr.ops.empty()) return {expr.names, {}};
  std::vector<Asked> stack;
  size_t name = 0;
  for (const LabelOp op : expr.ops) {
    switch (op) {
      case LabelOp::kName: {
        const Names one = {expr.names[name++]};
        stack.push_back({one, one});
        break;
      }
      case LabelOp::kAny:
        stack.emplace_back();
        break;
      case LabelOp::kNot:
        stack.back() = {};
        break;
      default: {
        const Asked right = std::move(stack.back());
        stack.pop_back();
        Combine(op, right, &stack.back());
      }
    }
  }
  AskedLabels out;
  const Asked& asked = stack.back();
  out.all_of.assign(asked.all_of.begin(), asked.all_of.end());
  if (asked.any_of) out.any_of.assign(asked.any_of->begin(), asked.any_of->end());
  return out;
}

void Planner::AddLabelTest(const LabelExpr& test, ExprPtr subject, MatchState* state) {
  auto labels = std::make_unique<Expr>();
  labels->kind = Expr::Kind::kHasLabels;
  labels->names = test.names;
  labels->label_ops = test.ops;
  const std::vector<int> names = NameIndexes(test.names);
  labels->slot2 = names.empty() ? -1 : names[0];
  labels->pos = test.pos;
  labels->types = Bit(Type::kBool);
  labels->kids.push_back(std::move(subject));
  AddPredicate(Own(std::move(labels)), state);
}

// Of predicates too, so that WHERE n:A is found as (n:A) is.
void Planner::FindLabels(const MatchState& state, NodePattern* node) const {
  for (const Predicate& p : state.predicates) {
    const Expr& e = *p.expr;
    if (e.kind != Expr::Kind::kHasLabels || e.kids[0]->kind != Expr::Kind::kVariable ||
        e.kids[0]->slot != node->slot) {
      continue;
    }
    const AskedLabels asked = LabelsAsked({e.names, e.label_ops, {}});
    for (const std::string& name : asked.all_of) {
      const auto end = node->labels.end();
      if (std::find(node->labels.begin(), end, name) == end) node->labels.push_back(name);
    }
    if (asked.any_of.size() < 2) continue;
    if (node->any_of.empty() || CountOf(asked.any_of) < CountOf(node->any_of)) {
      node->any_of = asked.any_of;
    }
  }
}

double Planner::CountOf(const std::vector<std::string>& labels) const {
  double count = 0;
  for (const std::string& name : labels) {
    const auto label = view_.FindLabel(name);
    if (label) count += static_cast<double>(view_.NodeCount(*label));
  }
  return count;
}

// Predicates on labels that hold for all that the scan finds.
void Planner::DropScanned(const NodePattern& node, const Step& scan, MatchState* state) const {
  std::erase_if(state->predicates, [&](const Predicate& p) {
    const Expr& e = *p.expr;
    if (e.kind != Expr::Kind::kHasLabels || e.kids[0]->kind != Expr::Kind::kVariable ||
        e.kids[0]->slot != node.slot) {
      return false;
    }
    if (scan.label >= 0) {
      return e.label_ops.empty() && e.names.size() == 1 &&
             e.names[0] == plan_->names[static_cast<size_t>(scan.label)];
    }
    const bool one_of = std::all_of(e.label_ops.begin(), e.label_ops.end(), [](LabelOp op) {
      return op == LabelOp::kName || op == LabelOp::kOr;
    });
    return !scan.any_of.empty() && !e.label_ops.empty() && one_of &&
           LabelsAsked({e.names, e.label_ops, {}}).any_of == node.any_of;
  });
}

}  // namespace pulse::cypher
