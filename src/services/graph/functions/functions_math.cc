// Functions on numbers.
#include <sys/random.h>

#include <array>
#include <cmath>
#include <numbers>

#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

bool WantNumber(EvalContext& ctx, const Value& v) {
  if (v.is_number()) return true;
  ctx.TypeError(Concat("expected a number, found a ", TypeName(v.type())));
  return false;
}

template <double (*function)(double)>
Value Real(EvalContext& ctx, std::span<Value> a) {
  return WantNumber(ctx, a[0]) ? Value::Float(function(a[0].as_number())) : Value();
}

Value Abs(EvalContext& ctx, std::span<Value> a) {
  if (!WantNumber(ctx, a[0])) return {};
  if (a[0].is_float()) return Value::Float(std::fabs(a[0].as_float()));
  return a[0].as_int() < 0 ? Arithmetic(Op::kSub, Value::Int(0), a[0], ctx) : a[0];
}
Value Sign(EvalContext& ctx, std::span<Value> a) {
  if (!WantNumber(ctx, a[0])) return {};
  const double d = a[0].as_number();
  return Value::Int(d > 0 ? 1 : d < 0 ? -1 : 0);
}
Value Round(EvalContext& ctx, std::span<Value> a) {
  if (!WantNumber(ctx, a[0])) return {};
  double scale = 1;
  if (a.size() == 2) {
    if (!a[1].is_int() || a[1].as_int() < 0 || a[1].as_int() > 300) {
      return ctx.ArgumentError("NumberOutOfRange", "round() takes a precision from 0 to 300");
    }
    scale = std::pow(10.0, static_cast<double>(a[1].as_int()));
  }
  // Half goes up, as in 2.5 to 3 and -2.5 to -2.
  const double scaled = a[0].as_number() * scale;
  if (!std::isfinite(scaled)) return Value::Float(a[0].as_number());
  const double below = std::floor(scaled);  // not of scaled + 0.5, which may have been rounded
  return Value::Float((scaled - below >= 0.5 ? below + 1 : below) / scale);
}
Value Atan2(EvalContext& ctx, std::span<Value> a) {
  if (!WantNumber(ctx, a[0]) || !WantNumber(ctx, a[1])) return {};
  return Value::Float(std::atan2(a[0].as_number(), a[1].as_number()));
}
Value Rand(EvalContext& ctx, std::span<Value>) {
  return Value::Float(static_cast<double>(ctx.Random()() >> 11) * 0x1.0p-53);
}
// Of the system's randomness, as others rely on it that no two are equal; version 4.
Value RandomUuid(EvalContext& ctx, std::span<Value>) {
  std::array<uint8_t, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return ctx.Fail(absl::UnavailableError("the system has no random bytes"));
  }
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3F) | 0x80);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return Value::String(text);
}
Value Pi(EvalContext&, std::span<Value>) { return Value::Float(std::numbers::pi); }
Value Euler(EvalContext&, std::span<Value>) { return Value::Float(std::numbers::e); }
Value IsNan(EvalContext& ctx, std::span<Value> a) {
  return WantNumber(ctx, a[0]) ? Value::Bool(std::isnan(a[0].as_number())) : Value();
}

double Cot(double x) { return 1 / std::tan(x); }
double Degrees(double x) { return x * 180 / std::numbers::pi; }
double Radians(double x) { return x * std::numbers::pi / 180; }
double Haversin(double x) { return (1 - std::cos(x)) / 2; }

}  // namespace

void AddMathFunctions(std::vector<Function>* out) {
  constexpr uint32_t kFloat = Bit(Type::kFloat), kInt = Bit(Type::kInt),
                     kNumber = kNumberTypes | Bit(Type::kNull);
  out->push_back({"abs", 1, 1, Abs, kNumberTypes, {kNumber}});
  out->push_back({"sign", 1, 1, Sign, kInt, {kNumber}});
  out->push_back({"round", 1, 2, Round, kFloat, {kNumber, kNumber, kAnyType}});
  out->push_back({"atan2", 2, 2, Atan2, kFloat, {kNumber, kNumber, kAnyType}});
  out->push_back({"rand", 0, 0, Rand, kFloat, {}, true, Aggregate::kNone, false});
  out->push_back(
      {"randomUUID", 0, 0, RandomUuid, Bit(Type::kString), {}, true, Aggregate::kNone, false});
  out->push_back({"pi", 0, 0, Pi, kFloat, {}});
  out->push_back({"e", 0, 0, Euler, kFloat, {}});
  out->push_back({"isNaN", 1, 1, IsNan, Bit(Type::kBool), {kNumber}});
  const auto real = [out](std::string_view name, Value (*call)(EvalContext&, std::span<Value>)) {
    out->push_back({name, 1, 1, call, Bit(Type::kFloat), {kNumberTypes | Bit(Type::kNull)}});
  };
  real("ceil", Real<std::ceil>);
  real("floor", Real<std::floor>);
  real("sqrt", Real<std::sqrt>);
  real("exp", Real<std::exp>);
  real("log", Real<std::log>);
  real("log10", Real<std::log10>);
  real("sin", Real<std::sin>);
  real("cos", Real<std::cos>);
  real("tan", Real<std::tan>);
  real("asin", Real<std::asin>);
  real("acos", Real<std::acos>);
  real("atan", Real<std::atan>);
  real("cot", Real<Cot>);
  real("degrees", Real<Degrees>);
  real("radians", Real<Radians>);
  real("haversin", Real<Haversin>);
}

}  // namespace pulse::cypher
