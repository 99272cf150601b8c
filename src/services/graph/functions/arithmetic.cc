// The operators + - * / % ^.
#include <algorithm>
#include <cmath>

#include "services/graph/functions/context.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"
#include "services/graph/syntax/lexer.h"

namespace pulse::cypher {
namespace {

Value Overflow(EvalContext& ctx) {
  return ctx.Fail(
      RuntimeError("ArithmeticError", "IntegerOverflow", "the result has more than 64 bits"));
}

Value Integers(Op op, int64_t a, int64_t b, EvalContext& ctx) {
  int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Overflow(ctx) : Value::Int(result);
    case Op::kSub:
      return __builtin_sub_overflow(a, b, &result) ? Overflow(ctx) : Value::Int(result);
    case Op::kMul:
      return __builtin_mul_overflow(a, b, &result) ? Overflow(ctx) : Value::Int(result);
    case Op::kPow:
      return Value::Float(std::pow(static_cast<double>(a), static_cast<double>(b)));
    default:
      break;
  }
  if (b == 0) {
    return ctx.Fail(
        RuntimeError("ArithmeticError", "DivisionByZero", "an integer is divided by 0"));
  }
  if (b == -1) return op == Op::kDiv ? Integers(Op::kSub, 0, a, ctx) : Value::Int(0);
  return Value::Int(op == Op::kDiv ? a / b : a % b);
}

Value Floats(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value::Float(a + b);
    case Op::kSub:
      return Value::Float(a - b);
    case Op::kMul:
      return Value::Float(a * b);
    case Op::kDiv:
      return Value::Float(a / b);
    case Op::kMod:
      return Value::Float(std::fmod(a, b));
    default:
      return Value::Float(std::pow(a, b));
  }
}

Value Checked(std::optional<Value> value, const std::string& error, EvalContext& ctx) {
  return value ? *std::move(value) : ctx.ArgumentError("NumberOutOfRange", error);
}

Value Concatenate(const Value& a, const Value& b, EvalContext& ctx) {
  ValueList list;
  const auto length = [](const Value& v) { return v.is_list() ? v.as_list().size() : 1; };
  const bool same = a.is_list() && b.is_list() && &a.as_list() == &b.as_list();
  const size_t bytes = a.DeepBytes() + (same ? length(b) * sizeof(Value) : b.DeepBytes());
  if (!ctx.Fits(bytes) || !ctx.Tick((length(a) + length(b)) / 16)) return {};
  list.reserve(length(a) + length(b));
  for (const Value* v : {&a, &b}) {
    if (v->is_list())
      list.insert(list.end(), v->as_list().begin(), v->as_list().end());
    else
      list.push_back(*v);
  }
  Value value = Value::ListOf(std::move(list), bytes);
  if (value.depth() > kMaxValueDepth)
    return ctx.ArgumentError("NumberOutOfRange", "this list nests too deeply");
  return value;
}

// A string's own text, or that of another value, in `made`.
std::string_view TextIn(const Value& v, std::string* made) {
  if (v.is_string()) return v.as_string();
  return *made = ScalarText(v);
}

// What it takes is known before it is made.
Value JoinTexts(const Value& a, const Value& b, EvalContext& ctx) {
  std::string made[2];
  const std::string_view first = TextIn(a, &made[0]), second = TextIn(b, &made[1]);
  const size_t size = first.size() + second.size();
  if (!ctx.Fits(size) || !ctx.Tick(size / 64)) return {};
  std::string text;
  text.reserve(size);
  text.append(first).append(second);
  return Value::TakeString(std::move(text));
}

std::string_view OpName(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kMod:
      return "%";
    default:
      return "^";
  }
}

}  // namespace

bool HasText(const Value& v) {
  return v.is_string() || v.is_bool() || v.is_number() || v.is_temporal() || v.is_duration() ||
         v.is_point();
}

std::string ScalarText(const Value& v) {
  if (v.is_string()) return v.as_string();
  if (v.is_bool()) return v.as_bool() ? "true" : "false";
  if (v.is_int()) return std::to_string(v.as_int());
  if (v.is_point()) return PointText(v.as_point());
  return v.is_float() ? FloatText(v.as_float()) : TemporalText(v, Seconds::kAlways);
}

Value Arithmetic(Op op, const Value& a, const Value& b, EvalContext& ctx) {
  if (a.is_null() || b.is_null()) return {};
  if (op == Op::kConcat) {
    // As +, but of nothing else.
    const bool alike = (a.is_string() && b.is_string()) || (a.is_list() && b.is_list());
    if (alike) return Arithmetic(Op::kAdd, a, b, ctx);
    return ctx.TypeError(Concat("|| joins two texts or two lists, not ", TypeName(a.type()),
                                " and ", TypeName(b.type())));
  }
  if (a.is_int() && b.is_int()) return Integers(op, a.as_int(), b.as_int(), ctx);
  if (a.is_number() && b.is_number()) return Floats(op, a.as_number(), b.as_number());
  std::string error;
  if (op == Op::kAdd) {
    if (a.is_list() || b.is_list()) return Concatenate(a, b, ctx);
    // toString() is of points, too.
    const bool joins = (a.is_string() || b.is_string()) && !a.is_point() && !b.is_point();
    if (joins && HasText(a) && HasText(b)) return JoinTexts(a, b, ctx);
  }
  if (op == Op::kAdd || op == Op::kSub) {
    const int sign = op == Op::kAdd ? 1 : -1;
    if (a.is_duration() && b.is_duration()) {
      return Checked(AddDurations(a.as_duration(), b.as_duration(), sign, &error), error, ctx);
    }
    if (a.is_temporal() && b.is_duration()) {
      return Checked(AddToTemporal(a, b.as_duration(), sign, &error), error, ctx);
    }
    if (a.is_duration() && b.is_temporal() && op == Op::kAdd) {
      return Checked(AddToTemporal(b, a.as_duration(), 1, &error), error, ctx);
    }
  }
  if ((op == Op::kMul || op == Op::kDiv) && a.is_duration() && b.is_number()) {
    return Checked(ScaleDuration(a.as_duration(), b.as_number(), op == Op::kDiv, &error), error,
                   ctx);
  }
  if (op == Op::kMul && a.is_number() && b.is_duration()) {
    return Checked(ScaleDuration(b.as_duration(), a.as_number(), false, &error), error, ctx);
  }
  return ctx.TypeError(
      Concat("cannot compute ", TypeName(a.type()), " ", OpName(op), " ", TypeName(b.type())));
}

}  // namespace pulse::cypher
