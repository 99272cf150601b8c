#include "services/graph/expressions/eval.h"

#include <algorithm>
#include <cmath>

#include "services/graph/functions/functions.h"
#include "services/graph/functions/list_set.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"
#include "services/graph/syntax/regex_cache.h"

namespace pulse::cypher {

namespace {

// Three-valued logic: 1, 0, -1 for null.
int Truth(const Value& v, EvalContext& ctx) {
  if (v.is_null()) return -1;
  if (!v.is_bool()) {
    ctx.TypeError(Concat("expected a BOOLEAN, found a ", TypeName(v.type())));
    return -1;
  }
  return v.as_bool() ? 1 : 0;
}
Value FromTruth(int truth) { return truth < 0 ? Value() : Value::Bool(truth != 0); }

Value InList(const Value& element, const Value& list, bool constant, EvalContext& ctx) {
  if (list.is_null()) return {};
  if (!list.is_list())
    return ctx.TypeError(Concat("IN needs a LIST, found a ", TypeName(list.type())));
  const ListSet* const set = constant ? FindSet(list, 1, ctx) : nullptr;
  return FromTruth(FindInList(element, list.as_list(), set, ctx));
}

Value EvalBinary(const Expr& e, Value* row, EvalContext& ctx) {
  switch (e.op) {
    case Op::kAnd: {
      const int a = Truth(Eval(*e.kids[0], row, ctx), ctx);
      if (a == 0) return Value::Bool(false);
      const int b = Truth(Eval(*e.kids[1], row, ctx), ctx);
      return b == 0 ? Value::Bool(false) : FromTruth(a < 0 || b < 0 ? -1 : 1);
    }
    case Op::kOr: {
      const int a = Truth(Eval(*e.kids[0], row, ctx), ctx);
      if (a == 1) return Value::Bool(true);
      const int b = Truth(Eval(*e.kids[1], row, ctx), ctx);
      return b == 1 ? Value::Bool(true) : FromTruth(a < 0 || b < 0 ? -1 : 0);
    }
    case Op::kXor: {
      const int a = Truth(Eval(*e.kids[0], row, ctx), ctx);
      const int b = Truth(Eval(*e.kids[1], row, ctx), ctx);
      return FromTruth(a < 0 || b < 0 ? -1 : a ^ b);
    }
    default:
      break;
  }
  const Value a = Eval(*e.kids[0], row, ctx), b = Eval(*e.kids[1], row, ctx);
  switch (e.op) {
    case Op::kEq:
    case Op::kNe:
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
      if (!ctx.Tick(std::min(a.Weight(), b.Weight()))) return {};
      return Comparison(e.op, a, b);
    case Op::kIn:
      return InList(a, b, IsConstant(*e.kids[1]), ctx);
    case Op::kStartsWith:
    case Op::kEndsWith:
    case Op::kContains:
    case Op::kRegex:
      return StringTest(e.op, a, b, ctx);
    default:
      return Arithmetic(e.op, a, b, ctx);
  }
}

Value EvalUnary(const Expr& e, Value* row, EvalContext& ctx) {
  const Value v = Eval(*e.kids[0], row, ctx);
  switch (e.op) {
    case Op::kIsNull:
      return ctx.failed() ? Value() : Value::Bool(v.is_null());
    case Op::kIsNotNull:
      return ctx.failed() ? Value() : Value::Bool(!v.is_null());
    case Op::kNot: {
      const int truth = Truth(v, ctx);
      return FromTruth(truth < 0 ? -1 : 1 - truth);
    }
    default:
      break;
  }
  if (v.is_null()) return v;
  if (v.is_number() && e.op == Op::kPlus) return v;
  if (v.is_float()) return Value::Float(-v.as_float());
  if (v.is_duration() && e.op == Op::kNegate) {
    std::string error;
    const auto negated = AddDurations(Duration{}, v.as_duration(), -1, &error);
    return negated ? *negated : ctx.ArgumentError("NumberOutOfRange", error);
  }
  if (!v.is_int()) return ctx.TypeError(Concat("a ", TypeName(v.type()), " has no sign"));
  return Arithmetic(Op::kSub, Value::Int(0), v, ctx);
}

Value EvalCase(const Expr& e, Value* row, EvalContext& ctx) {
  size_t i = 0;
  Value subject;
  if (e.flag) subject = Eval(*e.kids[i++], row, ctx);
  const bool compares = e.flag && e.slot < 0;
  if (e.slot >= 0) row[e.slot] = subject;
  for (; i + 1 < e.kids.size(); i += 2) {
    const Value when = Eval(*e.kids[i], row, ctx);
    if (ctx.failed()) return {};
    const bool taken = compares ? Equals(subject, when) == 1 : Truth(when, ctx) == 1;
    if (taken) return Eval(*e.kids[i + 1], row, ctx);
  }
  return e.kids[i] != nullptr ? Eval(*e.kids[i], row, ctx) : Value();
}

// The list that a comprehension, quantifier or reduce goes through; false: its value is null.
bool EvalSource(const Expr& source, Value* row, EvalContext& ctx, Value* list) {
  *list = Eval(source, row, ctx);
  if (list->is_null() || ctx.failed()) return false;
  if (!list->is_list()) {
    ctx.TypeError(Concat("expected a LIST, found a ", TypeName(list->type())));
    return false;
  }
  return true;
}

Value MakeList(ValueList list, EvalContext& ctx) {
  Value value = Value::List(std::move(list));
  if (!ctx.Fits(value.DeepBytes())) return {};
  if (value.depth() > kMaxValueDepth)
    return ctx.ArgumentError("NumberOutOfRange", "this list nests too deeply");
  return value;
}

Value MakeMap(ValueMap map, EvalContext& ctx) {
  Value value = Value::Map(std::move(map));
  if (!ctx.Fits(value.DeepBytes())) return {};
  if (value.depth() > kMaxValueDepth)
    return ctx.ArgumentError("NumberOutOfRange", "this map nests too deeply");
  return value;
}

Value EvalListComprehension(const Expr& e, Value* row, EvalContext& ctx) {
  Value list;
  if (!EvalSource(*e.kids[0], row, ctx, &list)) return {};
  ValueList out;
  size_t bytes = 0;
  for (const Value& v : list.as_list()) {
    if (!ctx.Tick()) return {};
    row[e.slot] = v;
    if (e.kids[1] != nullptr && !Holds(*e.kids[1], row, ctx)) continue;
    out.push_back(e.kids[2] != nullptr ? Eval(*e.kids[2], row, ctx) : v);
    bytes += out.back().OwnedBytes();
    if (!ctx.Fits(bytes)) return {};
  }
  return MakeList(std::move(out), ctx);
}

Value EvalQuantifier(const Expr& e, Value* row, EvalContext& ctx) {
  Value list;
  if (!EvalSource(*e.kids[0], row, ctx, &list)) return {};
  size_t holds = 0, unknown = 0;
  const size_t all = list.as_list().size();
  for (const Value& v : list.as_list()) {
    if (!ctx.Tick()) return {};
    row[e.slot] = v;
    const int truth = Truth(Eval(*e.kids[1], row, ctx), ctx);
    if (ctx.failed()) return {};
    holds += truth == 1;
    unknown += truth < 0;
  }
  if (e.name2 == "ALL")
    return holds == all ? Value::Bool(true) : holds + unknown < all ? Value::Bool(false) : Value();
  if (e.name2 == "ANY")
    return holds > 0 ? Value::Bool(true) : unknown > 0 ? Value() : Value::Bool(false);
  if (e.name2 == "NONE")
    return holds > 0 ? Value::Bool(false) : unknown > 0 ? Value() : Value::Bool(true);
  if (holds > 1) return Value::Bool(false);
  return unknown > 0 ? Value() : Value::Bool(holds == 1);
}

Value EvalSubquery(const Expr& e, const Value* row, EvalContext& ctx) {
  switch (e.use) {
    case Expr::Use::kExists:
      return Value::Bool(ctx.subplans->Exists(*e.plan, row));
    case Expr::Use::kCount:
      return Value::Int(ctx.subplans->Count(*e.plan, row));
    case Expr::Use::kCollect:
      break;
  }
  ValueList list;
  ctx.subplans->Collect(*e.plan, nullptr, row, &list);
  return MakeList(std::move(list), ctx);
}

Value EvalReduce(const Expr& e, Value* row, EvalContext& ctx) {
  Value accumulator = Eval(*e.kids[0], row, ctx);
  Value list;
  if (!EvalSource(*e.kids[1], row, ctx, &list)) return {};
  for (const Value& v : list.as_list()) {
    if (!ctx.Tick()) return {};
    row[e.slot] = v;
    row[e.slot2] = std::move(accumulator);
    accumulator = Eval(*e.kids[2], row, ctx);
  }
  return accumulator;
}

Value EvalSlice(const Expr& e, Value* row, EvalContext& ctx) {
  const Value list = Eval(*e.kids[0], row, ctx);
  int64_t bounds[2] = {0, 0};
  if (list.is_null()) return {};
  if (!list.is_list())
    return ctx.TypeError(Concat("a slice needs a LIST, found a ", TypeName(list.type())));
  const auto size = static_cast<int64_t>(list.as_list().size());
  bounds[1] = size;
  for (size_t i = 0; i < 2; ++i) {
    if (e.kids[i + 1] == nullptr) continue;
    const Value v = Eval(*e.kids[i + 1], row, ctx);
    if (v.is_null()) return {};
    if (!v.is_int()) return ctx.TypeError("the bounds of a slice must be INTEGER");
    bounds[i] = v.as_int() < 0 ? v.as_int() + size : v.as_int();
    bounds[i] = std::clamp<int64_t>(bounds[i], 0, size);
  }
  if (bounds[0] >= bounds[1]) return Value::List({});
  if (!ctx.Tick(static_cast<uint64_t>(bounds[1] - bounds[0]) / 16)) return {};
  return Value::List(
      ValueList(list.as_list().begin() + bounds[0], list.as_list().begin() + bounds[1]));
}

Value EvalMapProjection(const Expr& e, Value* row, EvalContext& ctx) {
  const Value subject = Eval(*e.kids[0], row, ctx);
  if (subject.is_null()) return {};
  if (!subject.is_map() && !subject.is_node() && !subject.is_edge()) {
    return ctx.TypeError(Concat("a ", TypeName(subject.type()), " has no properties to choose of"));
  }
  ValueMap map;
  for (size_t i = 0; i < e.names.size(); ++i) {
    if (e.kids[i + 1] != nullptr) {
      map.emplace_back(e.names[i], Eval(*e.kids[i + 1], row, ctx));
    } else if (e.names[i] == ".*") {
      const Value all = subject.is_map() ? subject : ctx.PropertyMap(subject);
      if (ctx.failed()) return {};
      map.insert(map.end(), all.as_map().begin(), all.as_map().end());
    } else {
      const Token key = ctx.graph->FindKey(e.names[i]).value_or(kNoToken);
      map.emplace_back(e.names[i], PropertyOf(subject, e.names[i], key, ctx));
    }
  }
  return MakeMap(std::move(map), ctx);
}

Value EvalCall(const Expr& e, Value* row, EvalContext& ctx) {
  constexpr size_t kFew = 4;
  Value few[kFew];
  std::vector<Value> many;
  const size_t n = e.kids.size();
  if (e.function->first_found) {
    Value found;
    for (size_t i = 0; i < n && found.is_null() && !ctx.failed(); ++i) {
      found = Eval(*e.kids[i], row, ctx);
    }
    return found;
  }
  if (n > kFew) many.resize(n);
  Value* args = n > kFew ? many.data() : few;
  for (size_t i = 0; i < n; ++i) {
    args[i] = Eval(*e.kids[i], row, ctx);
    if (args[i].is_null() && e.function->null_in) {
      // The others are evaluated for their errors.
      for (size_t k = i + 1; k < n; ++k) Eval(*e.kids[k], row, ctx);
      return {};
    }
  }
  if (ctx.failed()) return {};
  return e.function->call(ctx, {args, n});
}

Value EvalChain(const Expr& e, Value* row, EvalContext& ctx) {
  Value left = Eval(*e.kids[0], row, ctx);
  int result = 1;
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = Eval(*e.kids[i + 1], row, ctx);
    const Value holds = Comparison(e.ops[i], left, right);
    if (holds.is_null()) {
      result = -1;
    } else if (!holds.as_bool()) {
      return Value::Bool(false);
    }
    left = std::move(right);
  }
  return FromTruth(result);
}

}  // namespace

bool Holds(const Expr& predicate, Value* row, EvalContext& ctx) {
  return Truth(Eval(predicate, row, ctx), ctx) == 1 && !ctx.failed();
}

const ListSet* FindSet(const Value& list, uint64_t rows, EvalContext& ctx) {
  if (list.as_list().size() < ListSets::kLeast) return nullptr;
  if (ctx.list_sets == nullptr) ctx.list_sets = std::make_shared<ListSets>();
  return ctx.list_sets->Find(list, rows, ctx);
}

int FindInList(const Value& value, const ValueList& list, const ListSet* set, EvalContext& ctx) {
  const size_t weight = value.Weight();
  if (set != nullptr) {
    if (!ctx.Tick(weight)) return -1;
    if (const int found = set->Find(value); found != ListSet::kWalk) return found;
  }
  if (!ctx.Tick(list.size() / 16)) return -1;
  int result = 0;
  for (const Value& v : list) {
    if (weight > 0 && !ctx.Tick(std::min(weight, v.Weight()))) return -1;
    const int equal = Equals(value, v);
    if (equal == 1) return 1;
    if (equal < 0) result = -1;
  }
  return result;
}

const RegexPattern* FindPattern(const std::string& text, EvalContext& ctx) {
  if (ctx.regexes == nullptr) ctx.regexes = std::make_shared<RegexCache>();
  const RegexPattern& pattern = ctx.regexes->Find(text);
  if (pattern.error().empty()) return &pattern;
  ctx.Fail(RuntimeError("ArgumentError", "InvalidRegex",
                        Concat("\"", text, "\" is no regular expression: ", pattern.error())));
  return nullptr;
}

Value StringTest(Op op, const Value& a, const Value& b, EvalContext& ctx) {
  if (!a.is_string() || !b.is_string()) return {};
  const std::string &text = a.as_string(), &part = b.as_string();
  switch (op) {
    case Op::kStartsWith:
      return Value::Bool(text.starts_with(part));
    case Op::kEndsWith:
      return Value::Bool(text.ends_with(part));
    case Op::kContains:
      return Value::Bool(text.find(part) != std::string::npos);
    default:
      break;
  }
  const RegexPattern* pattern = FindPattern(part, ctx);
  return pattern != nullptr ? Value::Bool(pattern->Matches(text)) : Value();
}

Value PropertyOf(const Value& base, std::string_view key, Token token, EvalContext& ctx) {
  switch (base.type()) {
    case Type::kNull:
      return {};
    case Type::kNode:
      return ctx.NodeProperty(base.as_node(), token);
    case Type::kEdge:
      return ctx.EdgeProperty(base.as_edge(), token);
    case Type::kMap: {
      const Value* found = base.Find(key);
      return found != nullptr ? *found : Value();
    }
    default:
      break;
  }
  if (base.is_temporal() || base.is_duration()) {
    const auto component = TemporalComponent(base, key);
    return component ? *component
                     : ctx.ArgumentError("InvalidArgumentValue", Concat("No such field: ", key));
  }
  if (base.is_point()) {
    std::string error;
    auto component = PointComponent(base.as_point(), key, &error);
    return component ? *std::move(component) : ctx.ArgumentError("InvalidArgumentValue", error);
  }
  return ctx.TypeError(Concat("a ", TypeName(base.type()), " has no property ", key));
}

Value IndexValue(const Value& base, const Value& index, EvalContext& ctx) {
  if (base.is_null() || index.is_null()) return {};
  if (base.is_list()) {
    if (!index.is_int()) return ctx.TypeError("the index of a list must be an INTEGER");
    const auto size = static_cast<int64_t>(base.as_list().size());
    const int64_t i = index.as_int() < 0 ? index.as_int() + size : index.as_int();
    return i < 0 || i >= size ? Value() : base.as_list()[static_cast<size_t>(i)];
  }
  if (!base.is_map() && !base.is_node() && !base.is_edge()) {
    return ctx.TypeError(Concat("a ", TypeName(base.type()), " has no elements"));
  }
  if (!index.is_string()) {
    return ctx.Fail(RuntimeError("TypeError", "MapElementAccessByNonString",
                                 "the key of an element must be a STRING"));
  }
  const std::string& key = index.as_string();
  return PropertyOf(base, key,
                    base.is_map() ? kNoToken : ctx.graph->FindKey(key).value_or(kNoToken), ctx);
}

Value Eval(const Expr& e, Value* row, EvalContext& ctx) {
  if (ctx.failed()) return {};
  switch (e.kind) {
    case Expr::Kind::kLiteral:
      return e.value;
    case Expr::Kind::kVariable:
      return row[e.slot];
    case Expr::Kind::kCountStar:
      return row[e.slot];
    case Expr::Kind::kParameter: {
      const auto it =
          std::lower_bound(ctx.parameters->begin(), ctx.parameters->end(), e.name,
                           [](const auto& p, const std::string& n) { return p.first < n; });
      if (it != ctx.parameters->end() && it->first == e.name) return it->second;
      return ctx.Fail(RuntimeError("ParameterMissing", "MissingParameter",
                                   Concat("the parameter $", e.name, " has no value")));
    }
    case Expr::Kind::kProperty: {
      const Value base = Eval(*e.kids[0], row, ctx);
      const bool stored = base.is_node() || base.is_edge();
      return PropertyOf(base, e.name, stored ? ctx.Key(e.slot2) : kNoToken, ctx);
    }
    case Expr::Kind::kIndex: {
      const Value base = Eval(*e.kids[0], row, ctx);
      return IndexValue(base, Eval(*e.kids[1], row, ctx), ctx);
    }
    case Expr::Kind::kSlice:
      return EvalSlice(e, row, ctx);
    case Expr::Kind::kList: {
      ValueList list;
      list.reserve(e.kids.size());
      for (const ExprPtr& kid : e.kids) list.push_back(Eval(*kid, row, ctx));
      return MakeList(std::move(list), ctx);
    }
    case Expr::Kind::kMap: {
      ValueMap map;
      map.reserve(e.kids.size());
      for (size_t i = 0; i < e.kids.size(); ++i)
        map.emplace_back(e.names[i], Eval(*e.kids[i], row, ctx));
      return MakeMap(std::move(map), ctx);
    }
    case Expr::Kind::kMapProjection:
      return EvalMapProjection(e, row, ctx);
    case Expr::Kind::kUnary:
      return EvalUnary(e, row, ctx);
    case Expr::Kind::kBinary:
      return EvalBinary(e, row, ctx);
    case Expr::Kind::kChain:
      return EvalChain(e, row, ctx);
    case Expr::Kind::kHasLabels:
      return HasLabels(e, Eval(*e.kids[0], row, ctx), ctx);
    case Expr::Kind::kCase:
      return EvalCase(e, row, ctx);
    case Expr::Kind::kCall:
      // An aggregate's value was computed before, and lies in a slot.
      return e.function->aggregate != Aggregate::kNone ? row[e.slot] : EvalCall(e, row, ctx);
    case Expr::Kind::kListComprehension:
      return EvalListComprehension(e, row, ctx);
    case Expr::Kind::kQuantifier:
      return EvalQuantifier(e, row, ctx);
    case Expr::Kind::kReduce:
      return EvalReduce(e, row, ctx);
    case Expr::Kind::kSubquery:
      return EvalSubquery(e, row, ctx);
    case Expr::Kind::kPattern:
      if (e.flag) {
        // A shortest path as a value.
        ValueList paths;
        ctx.subplans->Collect(*e.plan, e.kids[0].get(), row, &paths);
        if (e.pattern[0].kind == PatternPart::Kind::kAllShortest)
          return MakeList(std::move(paths), ctx);
        return paths.empty() ? Value() : paths[0];
      }
      return Value::Bool(ctx.subplans->Exists(*e.plan, row));
    case Expr::Kind::kPatternComprehension: {
      ValueList list;
      ctx.subplans->Collect(*e.plan, e.kids[1].get(), row, &list);
      return MakeList(std::move(list), ctx);
    }
  }
  return {};
}

Value Comparison(Op op, const Value& a, const Value& b) {
  if (op == Op::kEq) return FromTruth(Equals(a, b));
  if (op == Op::kNe) {
    const int equal = Equals(a, b);
    return FromTruth(equal < 0 ? -1 : 1 - equal);
  }
  const int c = Compare(a, b);
  if (c == kIncomparable) return {};
  if (c == kUnordered) return Value::Bool(false);
  switch (op) {
    case Op::kLt:
      return Value::Bool(c < 0);
    case Op::kLe:
      return Value::Bool(c <= 0);
    case Op::kGt:
      return Value::Bool(c > 0);
    default:
      return Value::Bool(c >= 0);
  }
}

}  // namespace pulse::cypher
