// Functions on lists and paths.
#include <algorithm>
#include <cmath>

#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

bool WantList(EvalContext& ctx, std::string_view function, const Value& v) {
  if (v.is_list()) return true;
  ctx.TypeError(Concat(function, "() needs a LIST, found a ", TypeName(v.type())));
  return false;
}
bool WantPath(EvalContext& ctx, std::string_view function, const Value& v) {
  if (v.is_path()) return true;
  ctx.TypeError(Concat(function, "() needs a PATH, found a ", TypeName(v.type())));
  return false;
}

Value Head(EvalContext& ctx, std::span<Value> a) {
  if (!WantList(ctx, "head", a[0]) || a[0].as_list().empty()) return {};
  return a[0].as_list().front();
}
Value Last(EvalContext& ctx, std::span<Value> a) {
  if (!WantList(ctx, "last", a[0]) || a[0].as_list().empty()) return {};
  return a[0].as_list().back();
}
Value Tail(EvalContext& ctx, std::span<Value> a) {
  if (!WantList(ctx, "tail", a[0])) return {};
  const ValueList& list = a[0].as_list();
  if (!ctx.Tick(list.size() / 16)) return {};
  return Value::List(list.empty() ? ValueList() : ValueList(list.begin() + 1, list.end()));
}

Value Range(EvalContext& ctx, std::span<Value> a) {
  for (const Value& v : a) {
    if (!v.is_int())
      return ctx.Fail(RuntimeError("ArgumentError", "InvalidArgumentType",
                                   "range() needs INTEGER bounds and steps"));
  }
  if (a.size() == 3 && a[2].as_int() == 0) {
    return ctx.ArgumentError("NumberOutOfRange", "the step of range() must not be 0");
  }
  NumberRange range;
  if (!NumberRange::Of(a, &range) || range.count > (uint64_t{1} << 48) ||
      !ctx.Fits(range.count * sizeof(Value))) {
    return ctx.ArgumentError("NumberOutOfRange", "this range is too long for a list");
  }
  ValueList list;
  list.reserve(range.count);
  for (uint64_t i = 0; i < range.count; ++i) {
    list.push_back(Value::Int(range.At(i)));
    if (!ctx.Tick()) return {};
  }
  return Value::List(std::move(list));
}

Value Nodes(EvalContext& ctx, std::span<Value> a) {
  if (!WantPath(ctx, "nodes", a[0])) return {};
  ValueList list;
  for (const NodeId node : a[0].as_path().nodes) list.push_back(Value::Node(node));
  return Value::List(std::move(list));
}
Value Relationships(EvalContext& ctx, std::span<Value> a) {
  if (!WantPath(ctx, "relationships", a[0])) return {};
  ValueList list;
  for (const EdgeRef& edge : a[0].as_path().edges) list.push_back(Value::Edge(edge));
  return Value::List(std::move(list));
}
Value LengthOf(EvalContext& ctx, std::span<Value> a) {
  if (!WantPath(ctx, "length", a[0])) return {};
  return Value::Int(static_cast<int64_t>(a[0].as_path().edges.size()));
}

Value IsEmpty(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_list()) return Value::Bool(a[0].as_list().empty());
  if (a[0].is_map()) return Value::Bool(a[0].as_map().empty());
  if (a[0].is_string()) return Value::Bool(a[0].as_string().empty());
  if (a[0].is_bytes()) return Value::Bool(a[0].as_bytes().empty());
  return ctx.TypeError(Concat("isEmpty() does not take a ", TypeName(a[0].type())));
}

bool WantVectors(EvalContext& ctx, std::string_view function, std::span<Value> a) {
  if (!WantList(ctx, function, a[0]) || !WantList(ctx, function, a[1])) return false;
  const ValueList &x = a[0].as_list(), &y = a[1].as_list();
  const auto finite = [](const Value& v) { return v.is_number() && std::isfinite(v.as_number()); };
  if (x.empty() || x.size() != y.size() || !std::all_of(x.begin(), x.end(), finite) ||
      !std::all_of(y.begin(), y.end(), finite)) {
    ctx.ArgumentError(
        "InvalidArgumentValue",
        Concat(function, "() needs two lists of as many finite numbers, one at least"));
    return false;
  }
  return ctx.Tick(x.size() / 4);
}

// Of absolute values.
double LargestOf(const ValueList& vector) {
  double largest = 0;
  for (const Value& v : vector) largest = std::max(largest, std::fabs(v.as_number()));
  return largest;
}

Value CosineSimilarity(EvalContext& ctx, std::span<Value> a) {
  if (!WantVectors(ctx, "vector.similarity.cosine", a)) return {};
  const ValueList &x = a[0].as_list(), &y = a[1].as_list();
  // A cosine is the same of vectors that are divided by these, and no square is too large then.
  const double largest_x = LargestOf(x), largest_y = LargestOf(y);
  if (largest_x == 0 || largest_y == 0) {
    return ctx.ArgumentError("InvalidArgumentValue",
                             "vector.similarity.cosine() does not take a vector of zeros");
  }
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double p = x[i].as_number() / largest_x, q = y[i].as_number() / largest_y;
    xy += p * q;
    xx += p * p;
    yy += q * q;
  }
  return Value::Float((1 + std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0)) / 2);
}

Value EuclideanSimilarity(EvalContext& ctx, std::span<Value> a) {
  if (!WantVectors(ctx, "vector.similarity.euclidean", a)) return {};
  const ValueList &x = a[0].as_list(), &y = a[1].as_list();
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i].as_number() - y[i].as_number();
    squares += d * d;
  }
  return Value::Float(1 / (1 + squares));
}

}  // namespace

bool NumberRange::Of(std::span<const Value> arguments, NumberRange* range) {
  for (const Value& v : arguments) {
    if (!v.is_int()) return false;
  }
  const int64_t last = arguments[1].as_int();
  range->first = arguments[0].as_int();
  range->step = arguments.size() == 3 ? arguments[2].as_int() : 1;
  range->count = 0;
  if (range->step == 0) return false;
  const bool up = range->step > 0;
  if (up ? range->first > last : range->first < last) return true;
  const uint64_t from = static_cast<uint64_t>(range->first), to = static_cast<uint64_t>(last);
  const auto step = static_cast<uint64_t>(range->step);
  range->count = (up ? to - from : from - to) / (up ? step : 0 - step) + 1;
  return range->count != 0;
}

void AddListFunctions(std::vector<Function>* out) {
  constexpr uint32_t kNull = Bit(Type::kNull), kList = Bit(Type::kList),
                     kPath = Bit(Type::kPath) | kNull, kInt = Bit(Type::kInt);
  out->push_back({"head", 1, 1, Head, kAnyType, {kList | kNull}});
  out->push_back({"last", 1, 1, Last, kAnyType, {kList | kNull}});
  out->push_back({"tail", 1, 1, Tail, kList, {kList | kNull}});
  out->push_back({"range", 2, 3, Range, kList, {kAnyType, kAnyType, kAnyType}, false});
  out->push_back({"nodes", 1, 1, Nodes, kList, {kPath}});
  out->push_back({"relationships", 1, 1, Relationships, kList, {kPath}});
  out->push_back({"rels", 1, 1, Relationships, kList, {kPath}});
  out->push_back({"length", 1, 1, LengthOf, kInt, {kPath}});
  out->push_back({"isEmpty", 1, 1, IsEmpty, Bit(Type::kBool), {kAnyType}});
  const auto vectors = [out](std::string_view name, Value (*call)(EvalContext&, std::span<Value>)) {
    constexpr uint32_t kVector = Bit(Type::kList) | Bit(Type::kNull);
    out->push_back({name, 2, 2, call, Bit(Type::kFloat), {kVector, kVector, kAnyType}});
  };
  vectors("vector.similarity.cosine", CosineSimilarity);
  vectors("vector.similarity.euclidean", EuclideanSimilarity);
}

}  // namespace pulse::cypher
