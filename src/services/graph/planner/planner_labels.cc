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

Asked AskedOf(const std::vector<std::string>& names, const std::vector<LabelOp>& ops) {
  if (ops.empty()) return {Names(names.begin(), names.end()), Names{names[0]}};
  std::vector<Asked> stack;
  size_t name = 0;
  for (const LabelOp op : ops) {
    switch (op) {
      case LabelOp::kName: {
        const Names one = {names[name++]};
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
  return stack.back();
}

bool IsLabelTest(const Expr& e, Slot slot) {
  return e.kind == Expr::Kind::kHasLabels && e.kids[0]->kind == Expr::Kind::kVariable &&
         e.kids[0]->slot == slot;
}

// What a predicate asks of the node in a slot where it holds: AND and OR of tests of labels.
Asked AskedBy(const Expr& e, Slot slot) {
  if (IsLabelTest(e, slot)) return AskedOf(e.names, e.label_ops);
  if (e.kind != Expr::Kind::kBinary || (e.op != Op::kAnd && e.op != Op::kOr)) return {};
  Asked asked = AskedBy(*e.kids[0], slot);
  Combine(e.op == Op::kAnd ? LabelOp::kAnd : LabelOp::kOr, AskedBy(*e.kids[1], slot), &asked);
  return asked;
}

std::vector<std::string> ListOf(const Names& names) { return {names.begin(), names.end()}; }

}  // namespace

// Types of which a relationship has one; empty where nothing is known.
std::vector<std::string> Planner::AnyOf(const LabelExpr& expr) {
  const Asked asked = AskedOf(expr.names, expr.ops);
  return asked.any_of ? ListOf(*asked.any_of) : std::vector<std::string>();
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

ExprPtr Planner::TestDynamic(DynamicLabels labels, ExprPtr subject) {
  ExprPtr call = HasDynamicLabels(std::move(subject), std::move(labels));
  call->function = FindFunction(call->name);
  call->types = kBoolType | kNullType;
  call->kids[2]->types = kBoolType;
  return call;
}

void Planner::AddDynamicTests(std::vector<DynamicLabels>* dynamic, const std::string& name,
                              Slot slot, uint32_t type, MatchState* state) {
  for (DynamicLabels& labels : *dynamic) {
    Bind(labels.names.get(), {});
    if (failed()) return;
    const Pos pos = labels.pos;
    AddPredicate(Own(TestDynamic(std::move(labels), MakeVariable(name, slot, type, pos))), state);
  }
}

// Of all predicates, so that WHERE n:A is found as (n:A) is.
void Planner::FindLabels(const MatchState& state, NodePattern* node) const {
  for (const Predicate& p : state.predicates) {
    const Asked asked = AskedBy(*p.expr, node->slot);
    for (const std::string& name : asked.all_of) {
      const auto end = node->labels.end();
      if (std::find(node->labels.begin(), end, name) == end) node->labels.push_back(name);
    }
    if (!asked.any_of || asked.any_of->size() < 2) continue;
    const std::vector<std::string> any_of = ListOf(*asked.any_of);
    if (node->any_of.empty() || CountOf(any_of) < CountOf(node->any_of)) node->any_of = any_of;
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
    if (!IsLabelTest(e, node.slot)) return false;
    if (scan.label >= 0) {
      return e.label_ops.empty() && e.names.size() == 1 &&
             e.names[0] == plan_->names[static_cast<size_t>(scan.label)];
    }
    const bool one_of = std::all_of(e.label_ops.begin(), e.label_ops.end(), [](LabelOp op) {
      return op == LabelOp::kName || op == LabelOp::kOr;
    });
    return !scan.any_of.empty() && !e.label_ops.empty() && one_of &&
           AnyOf({e.names, e.label_ops, {}}) == node.any_of;
  });
}

}  // namespace pulse::cypher
