// Binds expressions: names to slots, functions, and what is known of types.
#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/planner.h"
#include "services/graph/syntax/error.h"
#include "services/graph/syntax/regex_cache.h"

namespace pulse::cypher {
namespace {

std::string TypesText(uint32_t types) {
  std::string text;
  for (int i = 0; i <= static_cast<int>(kLastType); ++i) {
    if ((types & (1u << i)) == 0) continue;
    if (!text.empty()) text += " or ";
    text += TypeName(static_cast<Type>(i));
  }
  return text;
}

// Inf, Infinity and NaN are numbers where no variable is called so.
bool FloatWord(Expr* e) {
  const std::string word = absl::AsciiStrToUpper(e->name);
  const bool infinite = word == "INF" || word == "INFINITY";
  if (!infinite && word != "NAN") return false;
  using Limits = std::numeric_limits<double>;
  e->kind = Expr::Kind::kLiteral;
  e->value = Value::Float(infinite ? Limits::infinity() : Limits::quiet_NaN());
  e->types = Bit(Type::kFloat);
  e->name.clear();
  return true;
}

}  // namespace

bool Planner::IsAggregate(const Expr& expr) {
  if (expr.kind == Expr::Kind::kCountStar) return true;
  if (expr.kind != Expr::Kind::kCall) return false;
  const Function* f = expr.function != nullptr ? expr.function : FindFunction(expr.name);
  return f != nullptr && f->aggregate != Aggregate::kNone;
}

bool Planner::HasAggregate(const Expr& expr) {
  if (IsAggregate(expr)) return true;
  return std::any_of(expr.kids.begin(), expr.kids.end(),
                     [](const ExprPtr& kid) { return kid != nullptr && HasAggregate(*kid); });
}

ExprPtr Planner::MakeVariable(const std::string& name, Slot slot, uint32_t types, Pos pos) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = Expr::Kind::kVariable;
  expr->name = name;
  expr->slot = slot;
  expr->types = types;
  expr->pos = pos;
  return expr;
}

// The same text, but for spaces.
bool Planner::Same(const Expr& a, const Expr& b) {
  if (a.kind != b.kind || a.op != b.op || a.flag != b.flag || a.name != b.name ||
      a.name2 != b.name2 || a.names != b.names || a.ops != b.ops || a.label_ops != b.label_ops ||
      a.kids.size() != b.kids.size() || !a.pattern.empty() || a.subquery != nullptr ||
      a.value.type() != b.value.type() || Order(a.value, b.value) != 0) {
    return false;
  }
  for (size_t i = 0; i < a.kids.size(); ++i) {
    if ((a.kids[i] == nullptr) != (b.kids[i] == nullptr)) return false;
    if (a.kids[i] != nullptr && !Same(*a.kids[i], *b.kids[i])) return false;
  }
  return true;
}

void Planner::Slots(const Expr& expr, std::set<Slot>* out, bool* opaque) {
  if (expr.kind == Expr::Kind::kVariable) out->insert(expr.slot);
  if (expr.plan != nullptr) *opaque = true;
  for (const ExprPtr& kid : expr.kids) {
    if (kid != nullptr) Slots(*kid, out, opaque);
  }
}

void Planner::Want(const Expr& expr, uint32_t types, std::string_view what, std::string_view kind) {
  if ((expr.types & types) != 0) return;
  Fail("InvalidArgumentType", expr.pos,
       Concat(what, " needs ", TypesText(types & ~kNullType), ", found ", TypesText(expr.types)),
       kind);
}

void Planner::Bind(Expr* e, Context context) {
  if (Ended()) return;
  const Context inner = {.aggregates = context.aggregates, .in_aggregate = context.in_aggregate};
  e->types = kAnyType;
  switch (e->kind) {
    case Expr::Kind::kLiteral:
      e->types = Bit(e->value.type());
      return;
    case Expr::Kind::kParameter:
      parameters_.insert(e->name);
      return;
    case Expr::Kind::kVariable: {
      if (e->slot >= 0) {
        LookedUp(e->slot);
        // The planner made it; of star, the name is in scope as it is.
        const auto known = scope_.find(e->name);
        e->types = known != scope_.end() ? known->second.types : kAnyType;
        return;
      }
      const auto it = scope_.find(e->name);
      if (it == scope_.end()) {
        if (FloatWord(e)) return;
        return Fail("UndefinedVariable", e->pos, Concat("`", e->name, "` is not defined"));
      }
      e->slot = it->second.slot;
      LookedUp(e->slot);
      e->types = it->second.types;
      return;
    }
    case Expr::Kind::kCall:
      return BindCall(e, context);
    case Expr::Kind::kCountStar:
      e->types = kIntType;
      if (context.in_aggregate)
        return Fail("NestedAggregation", e->pos, "an aggregate inside an aggregate");
      if (!context.aggregates) Fail("InvalidAggregation", e->pos, "nothing can be aggregated here");
      return;
    case Expr::Kind::kListComprehension:
    case Expr::Kind::kQuantifier:
    case Expr::Kind::kReduce:
      return BindComprehension(e, context);
    case Expr::Kind::kSubquery:
    case Expr::Kind::kPatternComprehension:
      return BindSubquery(e);
    case Expr::Kind::kPattern:
      if (!context.predicate && e->op != Op::kIsNotNull &&
          e->pattern[0].kind == PatternPart::Kind::kPlain) {
        return Fail("UnexpectedSyntax", e->pos,
                    "a pattern is no value here; use EXISTS { } or a pattern comprehension");
      }
      return BindSubquery(e);
    case Expr::Kind::kUnary:
    case Expr::Kind::kBinary:
    case Expr::Kind::kChain:
      return BindOperator(e, context);
    default:
      break;
  }
  const bool of_subject = e->kind == Expr::Kind::kCase && !e->name.empty();
  const Scope saved = of_subject ? scope_ : Scope();
  for (size_t i = 0; i < e->kids.size(); ++i) {
    Expr* kid = e->kids[i].get();
    if (kid == nullptr) continue;
    Context of_kid = inner;
    of_kid.predicate = e->kind == Expr::Kind::kCase && !e->flag;
    Bind(kid, of_kid);
    if (of_subject && i == 0) e->slot = Declare(e->name, kid->types);
  }
  if (of_subject) scope_ = saved;
  if (failed()) return;
  const Expr& first = e->kids.empty() || e->kids[0] == nullptr ? *e : *e->kids[0];
  switch (e->kind) {
    case Expr::Kind::kProperty: {
      e->slot2 = NameIndex(e->name);
      const uint32_t owners = kNullType | kNodeType | kEdgeType | kMapType | kTemporalTypes |
                              Bit(Type::kDuration) | Bit(Type::kPoint);
      if ((first.types & owners) == 0) {
        const bool path = (first.types & kPathType) != 0;
        Fail("InvalidArgumentType", e->pos,
             Concat("a ", TypesText(first.types), " has no property"),
             path ? "SyntaxError" : "TypeError");
      }
      return;
    }
    case Expr::Kind::kIndex:
      Want(first, kListType | kMapType | kNodeType | kEdgeType | kNullType, "an index",
           "TypeError");
      if (first.types == kListType)
        Want(*e->kids[1], kIntType | kNullType, "the index of a list", "TypeError");
      return;
    case Expr::Kind::kSlice:
      e->types = kListType | kNullType;
      return Want(first, kListType | kNullType, "a slice");
    case Expr::Kind::kList:
      e->types = kListType;
      return;
    case Expr::Kind::kMap:
      e->types = kMapType;
      return;
    case Expr::Kind::kMapProjection:
      e->types = kMapType | kNullType;
      return Want(first, kMapType | kNodeType | kEdgeType | kNullType, "a map projection");
    case Expr::Kind::kHasLabels: {
      e->types = kBoolType;
      const std::vector<int> names = NameIndexes(e->names);
      e->slot2 = names.empty() ? -1 : names[0];
      return Want(first, kNodeType | kEdgeType | kNullType, "a label predicate");
    }
    default:
      return;
  }
}

void Planner::BindOperator(Expr* e, Context context) {
  const bool logical =
      e->op == Op::kAnd || e->op == Op::kOr || e->op == Op::kXor || e->op == Op::kNot;
  Context inner = {.aggregates = context.aggregates, .in_aggregate = context.in_aggregate};
  inner.predicate = logical;
  for (const ExprPtr& kid : e->kids) Bind(kid.get(), inner);
  if (failed()) return;
  const Expr& a = *e->kids[0];
  e->types = kBoolType | kNullType;
  if (e->kind == Expr::Kind::kChain) return;
  if (e->kind == Expr::Kind::kBinary) PrepareOperator(e);
  switch (e->op) {
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kNot:
      for (const ExprPtr& kid : e->kids)
        Want(*kid, kBoolType | kNullType, "each of AND, OR, XOR and NOT");
      return;
    case Op::kConcat:
      for (const ExprPtr& kid : e->kids) {
        Want(*kid, Bit(Type::kString) | kListType | kNullType, "||");
      }
      e->types = Bit(Type::kString) | kListType | kNullType;
      return;
    case Op::kIn:
      return Want(*e->kids[1], kListType | kNullType, "IN");
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kMod:
    case Op::kPow: {
      const uint32_t both = a.types | e->kids[1]->types;
      uint32_t operands = kNumberTypes | kNullType;
      if (e->op != Op::kMod && e->op != Op::kPow) operands |= Bit(Type::kDuration);
      if (e->op == Op::kSub) operands |= kTemporalTypes;
      if (e->op != Op::kAdd) {
        for (const ExprPtr& kid : e->kids) Want(*kid, operands, "this operator");
      }
      e->types = kAnyType;
      if ((both & ~kNumberTypes) == 0) {
        e->types = e->op == Op::kPow                                ? Bit(Type::kFloat)
                   : both == kIntType                               ? kIntType
                   : (both & kIntType) != 0 && both != kNumberTypes ? both
                                                                    : kNumberTypes;
        if (e->op != Op::kPow &&
            (a.types == Bit(Type::kFloat) || e->kids[1]->types == Bit(Type::kFloat)))
          e->types = Bit(Type::kFloat);
      }
      if (e->op == Op::kAdd && (a.types == kListType || e->kids[1]->types == kListType))
        e->types = kListType | kNullType;
      return;
    }
    case Op::kNegate:
    case Op::kPlus:
      e->types = a.types;
      return Want(a, kNumberTypes | Bit(Type::kDuration) | kNullType, "a sign");
    case Op::kIsNull:
    case Op::kIsNotNull:
      e->types = kBoolType;
      return;
    default:
      return;
  }
}

void Planner::BindCall(Expr* e, Context context) {
  e->function = FindFunction(e->name);
  if (e->function == nullptr) {
    if (absl::AsciiStrToLower(e->name) == "normalize") {
      return Fail("Unsupported", e->pos, "normal forms of texts are not supported", "Unsupported");
    }
    return Fail("UnknownFunction", e->pos, Concat("there is no function `", e->name, "`"));
  }
  const Function& f = *e->function;
  const bool aggregate = f.aggregate != Aggregate::kNone;
  if (aggregate) {
    if (context.in_aggregate)
      return Fail("NestedAggregation", e->pos, "an aggregate inside an aggregate");
    if (!context.aggregates)
      return Fail("InvalidAggregation", e->pos, "nothing can be aggregated here");
  } else if (e->flag) {
    return Fail("UnexpectedSyntax", e->pos, "DISTINCT is for aggregates");
  }
  const auto n = static_cast<int>(e->kids.size());
  if (n < f.min_args || n > f.max_args) {
    return Fail("InvalidNumberOfArguments", e->pos,
                Concat(f.name, "() takes ", f.min_args,
                       f.max_args > f.min_args ? Concat(" to ", f.max_args) : std::string(),
                       " arguments, found ", n));
  }
  for (size_t i = 0; i < e->kids.size(); ++i) {
    Bind(e->kids[i].get(),
         {.aggregates = context.aggregates, .in_aggregate = context.in_aggregate || aggregate});
    if (failed()) return;
    if (i < f.args.size())
      Want(*e->kids[i], f.args[i] | (f.null_in ? kNullType : 0), Concat(f.name, "()"));
    // One that differs from row to row cannot be aggregated: its rows would not be those that are
    // seen.
    if (aggregate && e->kids[i]->kind == Expr::Kind::kCall && e->kids[i]->function != nullptr &&
        !e->kids[i]->function->deterministic && e->kids[i]->name == "rand") {
      return Fail("NonConstantExpression", e->kids[i]->pos, "a random number cannot be aggregated");
    }
  }
  e->types = f.result;
  FoldCall(e);
}

// A date, time or duration written as a string is computed now, where it has no error.
void Planner::FoldCall(Expr* e) {
  Value value;
  if (!ComputedNow(*e, &value)) return;
  e->kind = Expr::Kind::kLiteral;
  e->types = Bit(value.type());
  e->value = std::move(value);
  e->kids.clear();
  e->name.clear();
  e->function = nullptr;
}

// A list of literals behind IN becomes one, and a pattern behind =~ is looked at.
void Planner::PrepareOperator(Expr* e) {
  Expr& right = *e->kids[1];
  if (e->op == Op::kRegex && right.kind == Expr::Kind::kLiteral && right.value.is_string()) {
    e->flag = RegexPattern(right.value.as_string()).error().empty();
  }
  const bool literals = std::all_of(right.kids.begin(), right.kids.end(), [](const ExprPtr& kid) {
    return kid != nullptr && kid->kind == Expr::Kind::kLiteral;
  });
  if (e->op != Op::kIn || right.kind != Expr::Kind::kList || !literals) return;
  ValueList list;
  for (const ExprPtr& kid : right.kids) list.push_back(kid->value);
  Value value = Value::List(std::move(list));
  if (value.depth() > kMaxValueDepth) return;
  right.kind = Expr::Kind::kLiteral;
  right.value = std::move(value);
  right.kids.clear();
}

void Planner::BindComprehension(Expr* e, Context context) {
  const bool reduce = e->kind == Expr::Kind::kReduce;
  const Context inner = {.aggregates = context.aggregates, .in_aggregate = context.in_aggregate};
  Bind(e->kids[0].get(), inner);
  if (reduce) Bind(e->kids[1].get(), inner);
  if (failed()) return;
  Want(*e->kids[reduce ? 1 : 0], kListType | kNullType, reduce ? "reduce()" : "IN");
  const Scope saved = scope_;
  uint32_t element = kAnyType;
  const Expr& source = *e->kids[reduce ? 1 : 0];
  if (source.kind == Expr::Kind::kList && !source.kids.empty()) {
    element = 0;
    for (const ExprPtr& kid : source.kids) element |= kid->types;
  }
  e->slot = Declare(e->name, element);
  if (reduce) e->slot2 = Declare(e->name2, kAnyType);
  for (size_t i = reduce ? 2 : 1; i < e->kids.size(); ++i) {
    if (e->kids[i] == nullptr) continue;
    const bool where = !reduce && i == 1;
    // An aggregate would need rows for the elements.
    Bind(e->kids[i].get(), {.predicate = where});
    if (where && !failed()) Want(*e->kids[i], kBoolType | kNullType, "WHERE");
  }
  scope_ = saved;
  e->types = e->kind == Expr::Kind::kQuantifier ? kBoolType | kNullType
             : reduce                           ? kAnyType
                                                : kListType | kNullType;
}

void Planner::BindSubquery(Expr* e) {
  const Scope saved = scope_;
  const std::vector<bool> used = used_;
  const bool updated = updated_;
  auto plan = std::make_shared<Plan>();
  plan_->reads = true;
  if (e->kind == Expr::Kind::kSubquery) {
    e->types = e->use == Expr::Use::kExists  ? kBoolType
               : e->use == Expr::Use::kCount ? kIntType
                                             : kListType;
    // All of its clauses see what is outside, also behind a WITH.
    const Scope around = std::exchange(imported_, scope_);
    PlanQuery(e->subquery.get(), plan.get(), true);
    imported_ = around;
    if (e->use == Expr::Use::kCollect && !failed() && plan->columns.size() != 1) {
      Fail("InvalidClauseComposition", e->pos, "COLLECT needs a query that returns one column");
    }
  } else {
    plan->branches.emplace_back();
    std::vector<Slot> fresh;
    const bool shortest = e->pattern[0].kind != PatternPart::Kind::kPlain;
    if (e->kind == Expr::Kind::kPattern) {
      e->types = kBoolType;
      // A predicate binds nothing.
      const PatternPart& part = e->pattern[0];
      const auto unknown = [&](const std::string& name, Pos pos) {
        if (!name.empty() && !scope_.contains(name)) {
          Fail("UndefinedVariable", pos, Concat("`", name, "` is not defined"));
        }
      };
      for (const NodePattern& node : part.nodes) unknown(node.variable, node.pos);
      for (const EdgePattern& edge : part.edges) {
        unknown(edge.variable, edge.pos);
        if (edge.path == nullptr) continue;
        Fail("UnexpectedSyntax", edge.pos, "a quantified path is no predicate; use EXISTS { }");
      }
      if (shortest && e->kids.empty() && e->op != Op::kIsNotNull) {
        e->flag = true;
        e->types = kPathType | kListType | kNullType;
        e->pattern[0].path = " path";
      }
    }
    Expr* where = e->kind == Expr::Kind::kPatternComprehension ? e->kids[0].get() : nullptr;
    if (!failed()) PlanMatch(&e->pattern, where, &plan->branches[0].steps, &fresh);
    if (e->kind == Expr::Kind::kPatternComprehension && !failed()) {
      e->types = kListType;
      Bind(e->kids[1].get(), {});
    }
    if (e->flag && !failed()) {
      e->kids.push_back(MakeVariable(" path", e->pattern[0].slot, kPathType, e->pos));
    }
  }
  e->plan = std::move(plan);
  scope_ = saved;
  updated_ = updated;
  std::vector<bool> next = used;
  next.resize(used_.size(), false);
  used_ = std::move(next);
}

}  // namespace pulse::cypher
