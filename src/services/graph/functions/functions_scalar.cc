// Functions on entities and conversions between types.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/ast.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

Value Wrong(EvalContext& ctx, std::string_view function, const Value& v) {
  return ctx.Fail(RuntimeError("TypeError", "InvalidArgumentValue",
                               Concat(function, "() does not take a ", TypeName(v.type()))));
}
// TypeError, InvalidArgumentValue: what conversions raise.
Value NoConversion(EvalContext& ctx, std::string_view function, const Value& v) {
  return ctx.Fail(RuntimeError("TypeError", "InvalidArgumentValue",
                               Concat(function, "() cannot convert a ", TypeName(v.type()))));
}

Value Id(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_node()) return Value::Int(static_cast<int64_t>(a[0].as_node()));
  if (a[0].is_edge()) return Value::Int(static_cast<int64_t>(a[0].as_edge().id));
  return Wrong(ctx, "id", a[0]);
}
Value ElementId(EvalContext& ctx, std::span<Value> a) {
  const Value id = Id(ctx, a);
  return ctx.failed() ? id : Value::String(std::to_string(id.as_int()));
}

Value TypeOf(EvalContext& ctx, std::span<Value> a) {
  return a[0].is_edge() ? Value::String(ctx.graph->TypeName(a[0].as_edge().type))
                        : Wrong(ctx, "type", a[0]);
}

Value LabelsOf(EvalContext& ctx, std::span<Value> a) {
  if (!a[0].is_node()) return Wrong(ctx, "labels", a[0]);
  ValueList names;
  for (const Token label : ctx.Labels(a[0].as_node()))
    names.push_back(Value::String(ctx.graph->LabelName(label)));
  return Value::List(std::move(names));
}

// Of a node or relationship, one name or a list of them, and whether any of them is enough; null:
// exactly one name is wanted.
Value HasDynamic(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_null()) return {};
  if (!a[0].is_node() && !a[0].is_edge()) return Wrong(ctx, "a test of labels", a[0]);
  std::vector<std::string> names(a[2].is_null() ? 1 : 0);
  if (!(a[2].is_null() ? ctx.ReadTypeName(a[1], &names[0]) : ctx.ReadLabelNames(a[1], &names))) {
    return {};
  }
  const bool any = a[2].is_true();
  for (const std::string& name : names) {
    bool holds = false;
    if (a[0].is_edge()) {
      const auto type = ctx.graph->FindType(name);
      holds = type && *type == a[0].as_edge().type;
    } else if (const auto label = ctx.graph->FindLabel(name)) {
      const NodeId node = a[0].as_node();
      uint8_t has = 0;
      if (!ctx.Check(ctx.graph->HasLabel(*label, {&node, 1}, {&has, 1}))) return {};
      holds = has != 0;
    }
    if (holds == any) return Value::Bool(any);
  }
  return Value::Bool(!any);
}

Value PropertiesOf(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_map()) return a[0];
  if (a[0].is_node() || a[0].is_edge()) return ctx.PropertyMap(a[0]);
  return Wrong(ctx, "properties", a[0]);
}

Value Keys(EvalContext& ctx, std::span<Value> a) {
  if (!a[0].is_map() && !a[0].is_node() && !a[0].is_edge()) return Wrong(ctx, "keys", a[0]);
  const Value map = a[0].is_map() ? a[0] : ctx.PropertyMap(a[0]);
  if (ctx.failed()) return {};
  ValueList names;
  for (const auto& [key, value] : map.as_map()) names.push_back(Value::String(key));
  return Value::List(std::move(names));
}

Value StartNode(EvalContext& ctx, std::span<Value> a) {
  return a[0].is_edge() ? Value::Node(a[0].as_edge().source) : Wrong(ctx, "startNode", a[0]);
}
Value EndNode(EvalContext& ctx, std::span<Value> a) {
  return a[0].is_edge() ? Value::Node(a[0].as_edge().target) : Wrong(ctx, "endNode", a[0]);
}

Value NullIf(EvalContext&, std::span<Value> a) { return Equals(a[0], a[1]) == 1 ? Value() : a[0]; }

Value Timestamp(EvalContext& ctx, std::span<Value>) {
  return Value::Int(ctx.statement_nanos / 1'000'000);
}

// The number that a text is, without spaces around it; null where it is none.
Value ParseNumber(std::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(Absl(text));
  const char *begin = trimmed.data(), *end = begin + trimmed.size();
  if (begin != end && *begin == '+' && (++begin == end || *begin == '-')) return {};
  int64_t integer = 0;
  auto [stop, error] = std::from_chars(begin, end, integer);
  if (begin != end && stop == end && error == std::errc()) return Value::Int(integer);
  double number = 0;
  const auto parsed = std::from_chars(begin, end, number);
  // Words that it reads, as "inf", are none.
  const bool digits =
      begin != end && (absl::ascii_isdigit(static_cast<unsigned char>(end[-1])) || end[-1] == '.');
  if (!digits || parsed.ptr != end) return {};
  if (parsed.ec == std::errc()) return Value::Float(number);
  return Value::Float(std::strtod(std::string(begin, end).c_str(), nullptr));  // 0 or infinite
}

// The whole part of a decimal that ParseNumber has read, with all its digits; null: it has more
// than 64 bits.
Value WholePart(std::string_view text) {
  absl::string_view trimmed = absl::StripAsciiWhitespace(Absl(text));
  if (trimmed[0] == '+') trimmed.remove_prefix(1);
  const bool negative = trimmed[0] == '-';
  if (negative) trimmed.remove_prefix(1);
  int64_t exponent = 0, whole = 0;
  const size_t e = std::min(trimmed.find_first_of("eE"), trimmed.size());
  const size_t point = std::min(trimmed.find('.'), e);
  if (e < trimmed.size()) {
    const size_t digits = e + (trimmed[e + 1] == '+' ? 2 : 1);
    const auto read =
        std::from_chars(trimmed.data() + digits, trimmed.data() + trimmed.size(), exponent);
    constexpr int64_t kFar = int64_t{1} << 32;  // more than a text has digits
    if (read.ec != std::errc()) exponent = trimmed[e + 1] == '-' ? -kFar : kFar;
    exponent = std::clamp(exponent, -kFar, kFar);
  }
  const auto add = [&whole, negative](int digit) {
    return !__builtin_mul_overflow(whole, int64_t{10}, &whole) &&
           !__builtin_add_overflow(whole, int64_t{negative ? -digit : digit}, &whole);
  };
  // How many digits are before the point once the exponent has moved it.
  int64_t places = static_cast<int64_t>(point) + exponent;
  for (size_t at = 0; at < e && places > 0; ++at) {
    if (trimmed[at] == '.') continue;
    if (!add(trimmed[at] - '0')) return {};
    --places;
  }
  for (; places > 0 && whole != 0; --places) {
    if (!add(0)) return {};
  }
  return Value::Int(whole);
}

Value ToIntegerOrNull(EvalContext&, std::span<Value> a) {
  Value v = a[0].is_string() ? ParseNumber(a[0].as_string()) : a[0];
  if (a[0].is_string() && v.is_float()) return WholePart(a[0].as_string());
  if (v.is_bool()) return Value::Int(v.as_bool() ? 1 : 0);
  if (v.is_int()) return v;
  if (!v.is_float() || !(-0x1p63 <= v.as_float() && v.as_float() < 0x1p63)) return {};
  return Value::Int(static_cast<int64_t>(v.as_float()));
}
Value ToInteger(EvalContext& ctx, std::span<Value> a) {
  const bool ok = a[0].is_number() || a[0].is_string() || a[0].is_bool();
  if (!ok) return NoConversion(ctx, "toInteger", a[0]);
  const Value v = ToIntegerOrNull(ctx, a);
  if (a[0].is_float() && v.is_null()) {
    // As Java converts: to the nearest integer that there is, and NaN to 0.
    using Integers = std::numeric_limits<int64_t>;
    const double d = a[0].as_float();
    return Value::Int(std::isnan(d) ? 0 : d > 0 ? Integers::max() : Integers::min());
  }
  if (v.is_null() && !ParseNumber(a[0].as_string()).is_null()) {
    return ctx.ArgumentError("NumberOutOfRange",
                             Concat("integer, ", ShortText(a[0].as_string()), ", is too large"));
  }
  return v;
}

Value ToFloatOrNull(EvalContext&, std::span<Value> a) {
  // What toString() makes of numbers that are no decimals.
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a[0].is_string()) {
    const absl::string_view text = absl::StripAsciiWhitespace(a[0].as_string());
    if (text == "NaN") return Value::Float(std::numeric_limits<double>::quiet_NaN());
    if (text == "Infinity" || text == "+Infinity") return Value::Float(kInfinite);
    if (text == "-Infinity") return Value::Float(-kInfinite);
  }
  const Value v = a[0].is_string() ? ParseNumber(a[0].as_string()) : a[0];
  return v.is_number() ? Value::Float(v.as_number()) : Value();
}
Value ToFloat(EvalContext& ctx, std::span<Value> a) {
  return a[0].is_number() || a[0].is_string() ? ToFloatOrNull(ctx, a)
                                              : NoConversion(ctx, "toFloat", a[0]);
}

Value ToBooleanOrNull(EvalContext&, std::span<Value> a) {
  if (a[0].is_bool()) return a[0];
  if (a[0].is_int()) return Value::Bool(a[0].as_int() != 0);
  if (!a[0].is_string()) return {};
  const std::string text = absl::AsciiStrToLower(absl::StripAsciiWhitespace(a[0].as_string()));
  return text == "true" ? Value::Bool(true) : text == "false" ? Value::Bool(false) : Value();
}
Value ToBoolean(EvalContext& ctx, std::span<Value> a) {
  const bool ok = a[0].is_bool() || a[0].is_string() || a[0].is_int();
  return ok ? ToBooleanOrNull(ctx, a) : NoConversion(ctx, "toBoolean", a[0]);
}

Value ToStringOrNull(EvalContext&, std::span<Value> a) {
  if (a[0].is_string()) return a[0];
  return HasText(a[0]) ? Value::TakeString(ScalarText(a[0])) : Value();
}
Value ToString(EvalContext& ctx, std::span<Value> a) {
  Value text = ToStringOrNull(ctx, a);
  return text.is_null() ? NoConversion(ctx, "toString", a[0]) : text;
}

// Each item by itself; what cannot be converted is null.
template <Value (*convert)(EvalContext&, std::span<Value>)>
Value ConvertItems(EvalContext& ctx, std::span<Value> a) {
  if (!a[0].is_list()) {
    return ctx.TypeError(Concat("expected a LIST, found a ", TypeName(a[0].type())));
  }
  ValueList items;
  for (const Value& item : a[0].as_list()) {
    Value one[1] = {item};
    items.push_back(item.is_null() ? Value() : convert(ctx, std::span<Value>(one)));
    if (!ctx.Tick()) return {};
  }
  return Value::List(std::move(items));
}

// As Neo4j writes types: of lists with those of their elements, each once, in this order.
struct TypeText {
  size_t order = 0;
  std::string text;
  bool operator<(const TypeText& other) const {
    return std::tie(order, text) < std::tie(other.order, other.text);
  }
};

TypeText TypeTextOf(const Value& value) {
  static constexpr Type kOrder[] = {
      Type::kNull,     Type::kBool,      Type::kString, Type::kInt,           Type::kFloat,
      Type::kDate,     Type::kLocalTime, Type::kTime,   Type::kLocalDateTime, Type::kDateTime,
      Type::kDuration, Type::kPoint,     Type::kBytes,  Type::kNode,          Type::kEdge,
      Type::kMap,      Type::kList,      Type::kPath};
  TypeText type;
  type.order = static_cast<size_t>(std::find(std::begin(kOrder), std::end(kOrder), value.type()) -
                                   std::begin(kOrder));
  const bool zoned = value.type() == Type::kTime || value.type() == Type::kDateTime;
  type.text = Concat(zoned ? "ZONED " : "", TypeName(value.type()));
  if (!value.is_list()) return type;
  std::set<TypeText> elements;
  for (const Value& element : value.as_list()) elements.insert(TypeTextOf(element));
  // With null, each may be null.
  const bool nullable = !elements.empty() && elements.begin()->order == 0;
  if (nullable && elements.size() > 1) elements.erase(elements.begin());
  std::string inner;
  for (const TypeText& element : elements) {
    inner += Concat(inner.empty() ? "" : " | ", element.text, nullable ? "" : " NOT NULL");
  }
  type.text = Concat("LIST<", inner.empty() ? "NOTHING" : inner, ">");
  return type;
}

// Whether a value is one of the alternatives that the parser makes of a type: bits of types,
// whether it may be null, and what elements of a list may be.
bool Conforms(const Value& value, const Value& alternatives) {
  if (!alternatives.is_list()) return false;
  for (const Value& alternative : alternatives.as_list()) {
    if (!alternative.is_list() || alternative.as_list().size() != 3) continue;
    const ValueList& parts = alternative.as_list();
    if (value.is_null() ? parts[1].is_true()
                        : parts[0].is_int() && (parts[0].as_int() & Bit(value.type())) != 0) {
      const auto fits = [&parts](const Value& element) { return Conforms(element, parts[2]); };
      if (!value.is_list() || parts[2].is_null()) return true;
      if (std::all_of(value.as_list().begin(), value.as_list().end(), fits)) return true;
    }
  }
  return false;
}

Value IsTyped(EvalContext&, std::span<Value> a) { return Value::Bool(Conforms(a[0], a[1])); }

Value ValueTypeOf(EvalContext&, std::span<Value> a) {
  return Value::String(TypeTextOf(a[0]).text + (a[0].is_null() ? "" : " NOT NULL"));
}

}  // namespace

void AddScalarFunctions(std::vector<Function>* out) {
  constexpr uint32_t kNull = Bit(Type::kNull), kNode = Bit(Type::kNode), kEdge = Bit(Type::kEdge),
                     kMap = Bit(Type::kMap), kString = Bit(Type::kString), kInt = Bit(Type::kInt);
  constexpr uint32_t kScalar = kNumberTypes | kString | Bit(Type::kBool) | kNull;
  const uint32_t entity = kNode | kEdge | kNull;
  out->push_back({"id", 1, 1, Id, kInt, {entity}});
  out->push_back({"elementId", 1, 1, ElementId, kString, {entity}});
  out->push_back({"type", 1, 1, TypeOf, kString, {kEdge | kNull}});
  out->push_back({"labels", 1, 1, LabelsOf, Bit(Type::kList), {kNode | kNull}});
  out->push_back({"properties", 1, 1, PropertiesOf, kMap, {entity | kMap}});
  out->push_back({"keys", 1, 1, Keys, Bit(Type::kList), {entity | kMap}});
  out->push_back({"startNode", 1, 1, StartNode, kNode, {kEdge | kNull}});
  out->push_back({"endNode", 1, 1, EndNode, kNode, {kEdge | kNull}});
  out->push_back({"coalesce", 1, 1000, nullptr, kAnyType, {kAnyType, kAnyType, kAnyType}, false});
  out->back().first_found = true;
  out->push_back({"nullIf", 2, 2, NullIf, kAnyType, {kAnyType, kAnyType, kAnyType}, false});
  const uint32_t list = Bit(Type::kList);
  out->push_back({"toBooleanList", 1, 1, ConvertItems<ToBooleanOrNull>, list, {list | kNull}});
  out->push_back({"toFloatList", 1, 1, ConvertItems<ToFloatOrNull>, list, {list | kNull}});
  out->push_back({"toIntegerList", 1, 1, ConvertItems<ToIntegerOrNull>, list, {list | kNull}});
  out->push_back({"toStringList", 1, 1, ConvertItems<ToStringOrNull>, list, {list | kNull}});
  out->push_back({"timestamp", 0, 0, Timestamp, kInt, {}});
  out->push_back({"toInteger", 1, 1, ToInteger, kInt, {kAnyType}});
  out->push_back({"toIntegerOrNull", 1, 1, ToIntegerOrNull, kInt, {kAnyType}});
  out->push_back({"toFloat", 1, 1, ToFloat, Bit(Type::kFloat), {kAnyType}});
  out->push_back({"toFloatOrNull", 1, 1, ToFloatOrNull, Bit(Type::kFloat), {kAnyType}});
  out->push_back({"toBoolean", 1, 1, ToBoolean, Bit(Type::kBool), {kScalar | kAnyType}});
  out->push_back({"toBooleanOrNull", 1, 1, ToBooleanOrNull, Bit(Type::kBool), {kAnyType}});
  out->push_back({"toString", 1, 1, ToString, kString, {kAnyType}});
  out->push_back({"toStringOrNull", 1, 1, ToStringOrNull, kString, {kAnyType}});
  out->push_back({kHasDynamicLabels,
                  3,
                  3,
                  HasDynamic,
                  Bit(Type::kBool) | kNull,
                  {kNode | kEdge | kNull, kAnyType, kAnyType},
                  false});
  out->push_back({"IS TYPED", 2, 2, IsTyped, Bit(Type::kBool), {kAnyType, kAnyType}, false});
  out->push_back({"valueType", 1, 1, ValueTypeOf, kString, {kAnyType, kAnyType, kAnyType}, false});
}

}  // namespace pulse::cypher
