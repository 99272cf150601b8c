#include "services/graph/expressions/batch_filter.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

namespace pulse::cypher {
namespace {

bool IsTest(const Expr& left, Op op, const Expr& right) {
  return IsComparison(op) && ((left.kind == Expr::Kind::kProperty && IsConstant(right)) ||
                              (IsConstant(left) && right.kind == Expr::Kind::kProperty));
}

template <typename Number>
void CompareAll(Op op, const Number* numbers, const uint8_t* valid, size_t count, Number with,
                uint8_t* pass) {
  const auto each = [&](const auto& holds) {
    for (size_t i = 0; i < count; ++i) {
      pass[i] = static_cast<uint8_t>(pass[i] & valid[i] & (holds(numbers[i]) ? 1 : 0));
    }
  };
  switch (op) {
    case Op::kEq:
      return each([with](Number n) { return n == with; });
    case Op::kNe:
      return each([with](Number n) { return n != with; });
    case Op::kLt:
      return each([with](Number n) { return n < with; });
    case Op::kLe:
      return each([with](Number n) { return n <= with; });
    case Op::kGt:
      return each([with](Number n) { return n > with; });
    default:
      return each([with](Number n) { return n >= with; });
  }
}

// A literal, a parameter, or a property of the variable.
bool IsPureOperand(const Expr& e, Slot* slot) {
  if (e.kind == Expr::Kind::kLiteral || e.kind == Expr::Kind::kParameter) return true;
  if (e.kind != Expr::Kind::kProperty || e.kids[0]->kind != Expr::Kind::kVariable) return false;
  const Slot found = e.kids[0]->slot;
  if (found < 0 || (*slot >= 0 && *slot != found)) return false;
  *slot = found;
  return true;
}

bool IsPure(const Expr& e, Slot* slot) {
  switch (e.kind) {
    case Expr::Kind::kHasLabels: {
      if (e.kids[0]->kind != Expr::Kind::kVariable) return false;
      const Slot found = e.kids[0]->slot;
      if (found < 0 || (*slot >= 0 && *slot != found)) return false;
      *slot = found;
      return true;
    }
    case Expr::Kind::kUnary:
      if (e.op == Op::kNot) return IsPure(*e.kids[0], slot);
      return (e.op == Op::kIsNull || e.op == Op::kIsNotNull) && IsPureOperand(*e.kids[0], slot);
    case Expr::Kind::kChain:
      return std::all_of(e.kids.begin(), e.kids.end(),
                         [slot](const ExprPtr& kid) { return IsPureOperand(*kid, slot); });
    case Expr::Kind::kBinary:
      break;
    default:
      return false;
  }
  if (e.op == Op::kAnd || e.op == Op::kOr || e.op == Op::kXor) {
    return IsPure(*e.kids[0], slot) && IsPure(*e.kids[1], slot);
  }
  if (!IsPureOperand(*e.kids[0], slot)) return false;
  const Expr& right = *e.kids[1];
  if (IsComparison(e.op)) return IsPureOperand(right, slot);
  if (right.kind != Expr::Kind::kLiteral) return false;
  // The planner has looked at the pattern.
  if (e.op == Op::kRegex) return e.flag;
  return IsStringTest(e.op) || (e.op == Op::kIn && right.value.is_list());
}

}  // namespace

Op Mirrored(Op op) {
  switch (op) {
    case Op::kLt:
      return Op::kGt;
    case Op::kLe:
      return Op::kGe;
    case Op::kGt:
      return Op::kLt;
    case Op::kGe:
      return Op::kLe;
    default:
      return op;
  }
}

bool IsPurePredicate(const Expr& predicate, Slot* slot) {
  *slot = -1;
  return IsPure(predicate, slot) && *slot >= 0;
}

BatchFilter::BatchFilter(std::span<const Expr* const> predicates) {
  for (const Expr* predicate : predicates) Split(*predicate);
  std::stable_sort(tests_.begin(), tests_.end(),
                   [](const Test& a, const Test& b) { return a.key < b.key; });
}

void BatchFilter::Split(const Expr& e) {
  if (e.kind == Expr::Kind::kHasLabels && e.label_ops.empty()) {
    for (size_t i = 0; i < e.names.size(); ++i) {
      labels_.push_back(e.slot2 + static_cast<int>(i));
    }
    return;
  }
  if (e.kind == Expr::Kind::kBinary && IsTest(*e.kids[0], e.op, *e.kids[1])) {
    return AddTest(*e.kids[0], e.op, *e.kids[1]);
  }
  bool tests = e.kind == Expr::Kind::kChain;
  for (size_t i = 0; tests && i < e.ops.size(); ++i) {
    tests = IsTest(*e.kids[i], e.ops[i], *e.kids[i + 1]);
  }
  if (!tests) return others_.push_back(&e);
  for (size_t i = 0; i < e.ops.size(); ++i) AddTest(*e.kids[i], e.ops[i], *e.kids[i + 1]);
}

void BatchFilter::AddTest(const Expr& left, Op op, const Expr& right) {
  const bool first = left.kind == Expr::Kind::kProperty;
  const Expr& property = first ? left : right;
  tests_.push_back({property.slot2, first ? op : Mirrored(op), first ? &right : &left, Value()});
}

bool BatchFilter::PassesAll(EvalContext& context) const {
  return tests_.empty() && others_.empty() &&
         std::all_of(labels_.begin(), labels_.end(), [&](int name) {
           const Token label = context.Label(name);
           return label != kNoToken && context.graph->EveryNodeHas(label);
         });
}

template <typename Subject>
void BatchFilter::Keep(std::vector<Subject>* left, std::vector<uint32_t>* selected) const {
  size_t kept = 0;
  for (size_t i = 0; i < left->size(); ++i) {
    (*left)[kept] = (*left)[i];
    (*selected)[kept] = (*selected)[i];
    kept += pass_[i];
  }
  left->resize(kept);
  selected->resize(kept);
}

void ApplyComparison(Op op, const Column& column, const Value& value, std::span<uint8_t> pass) {
  if (column.kind == Column::Kind::kInts && value.is_int()) {
    return CompareAll(op, column.ints.data(), column.valid.data(), pass.size(), value.as_int(),
                      pass.data());
  }
  if (column.kind == Column::Kind::kFloats && value.is_float()) {
    return CompareAll(op, column.floats.data(), column.valid.data(), pass.size(), value.as_float(),
                      pass.data());
  }
  if (column.kind == Column::Kind::kValues) {
    for (size_t i = 0; i < pass.size(); ++i) {
      if (pass[i] != 0) pass[i] = CompareValues(op, column.values[i], value) == 1 ? 1 : 0;
    }
    return;
  }
  for (size_t i = 0; i < pass.size(); ++i) {
    if (pass[i] != 0) pass[i] = Comparison(op, ValueAt(column, i), value).is_true() ? 1 : 0;
  }
}

template <typename Subject, typename Read>
bool BatchFilter::Run(std::vector<Subject>* left, EvalContext& context, const Read& read,
                      std::vector<uint32_t>* selected) {
  if (!evaluated_) {
    for (Test& test : tests_) test.value = Eval(*test.constant, nullptr, context);
    evaluated_ = true;
  }
  for (size_t t = 0; t < tests_.size() && !left->empty();) {
    const int name = tests_[t].key;
    const Token key = context.Key(name);
    if (key == kNoToken) {
      // Null, whatever it is compared with.
      left->clear();
      selected->clear();
      break;
    }
    if (!context.Check(read(key))) return false;
    pass_.assign(left->size(), 1);
    for (; t < tests_.size() && tests_[t].key == name; ++t)
      ApplyComparison(tests_[t].op, column_, tests_[t].value, pass_);
    Keep(left, selected);
  }
  return others_.empty() ? !context.failed() : RunOthers(left, context, selected);
}

template <typename Subject>
bool BatchFilter::RunOthers(std::vector<Subject>* left, EvalContext& context,
                            std::vector<uint32_t>* selected) {
  if (!eval_) eval_.emplace(&context);
  for (const Expr* other : others_) {
    if (left->empty()) break;
    BatchInput in;
    if constexpr (std::is_same_v<Subject, NodeId>) {
      in.nodes = *left;
    } else {
      in.edges = *left;
    }
    if (!eval_->Truths(*other, in, eval_->All(left->size()), &truths_)) return false;
    pass_.resize(left->size());
    for (size_t i = 0; i < left->size(); ++i) pass_[i] = truths_[i] == 1 ? 1 : 0;
    Keep(left, selected);
  }
  return !context.failed();
}

bool BatchFilter::Select(std::span<const NodeId> nodes, EvalContext& context,
                         std::vector<uint32_t>* selected) {
  selected->resize(nodes.size());
  std::iota(selected->begin(), selected->end(), 0);
  nodes_.assign(nodes.begin(), nodes.end());
  for (const int name : labels_) {
    if (nodes_.empty()) return true;
    const Token label = context.Label(name);
    if (label != kNoToken && context.graph->EveryNodeHas(label)) continue;
    pass_.assign(nodes_.size(), 0);
    if (label != kNoToken && !context.Check(context.graph->HasLabel(label, nodes_, pass_))) {
      return false;
    }
    Keep(&nodes_, selected);
  }
  return Run(
      &nodes_, context,
      [&](Token key) { return context.graph->ReadNodeProperty(key, nodes_, &column_); }, selected);
}

bool BatchFilter::Select(std::span<const EdgeRef> edges, EvalContext& context,
                         std::vector<uint32_t>* selected) {
  selected->resize(edges.size());
  std::iota(selected->begin(), selected->end(), 0);
  edges_.assign(edges.begin(), edges.end());
  return Run(
      &edges_, context,
      [&](Token key) { return context.graph->ReadEdgeProperty(key, edges_, &column_); }, selected);
}

}  // namespace pulse::cypher
