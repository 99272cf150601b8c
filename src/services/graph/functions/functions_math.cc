// Functions on numbers.
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
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
// The digits of a decimal that is to be cut behind `kept` of them: whether what remains grows by
// one.
bool RoundsAway(std::string_view digits, size_t kept, bool negative, std::string_view mode) {
  const std::string_view cut = digits.substr(kept);
  if (cut.find_first_not_of('0') == std::string_view::npos || mode == "DOWN") return false;
  if (mode == "UP") return true;
  if (mode == "CEILING") return !negative;
  if (mode == "FLOOR") return negative;
  const bool half = cut[0] == '5' && cut.find_first_not_of('0', 1) == std::string_view::npos;
  if (!half || mode == "HALF_UP") return cut[0] >= '5';
  return mode == "HALF_EVEN" && kept > 0 && (digits[kept - 1] - '0') % 2 == 1;
}

// Of the shortest decimal that is the number.
double RoundDecimal(double number, int64_t precision, std::string_view mode) {
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof(text), std::fabs(number), std::chars_format::scientific);
  const std::string_view all(text, static_cast<size_t>(end.ptr - text));
  const size_t e = all.find('e');
  std::string digits;
  for (const char c : all.substr(0, e)) {
    if (c != '.') digits += c;
  }
  int64_t before_point = 0;  // digits; negative: zeros behind it
  const size_t sign = all[e + 1] == '+' ? 2 : 1;
  std::from_chars(text + e + sign, end.ptr, before_point);
  ++before_point;
  if (before_point > 400 || precision >= static_cast<int64_t>(digits.size()) - before_point) {
    return number;
  }
  const int64_t kept = before_point + precision;
  if (kept < 0) {
    digits.insert(0, static_cast<size_t>(-kept), '0');
    before_point -= kept;
  }
  const auto cut = static_cast<size_t>(std::max<int64_t>(kept, 0));
  const bool grows = RoundsAway(digits, cut, std::signbit(number), mode);
  digits.resize(cut);
  digits.insert(0, 1, '0');
  for (size_t i = digits.size(); grows && i-- > 0;) {
    if (digits[i] != '9') {
      ++digits[i];
      break;
    }
    digits[i] = '0';
  }
  digits += Concat("e", before_point - static_cast<int64_t>(cut));
  double rounded = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
  return rounded == 0 ? 0 : std::copysign(rounded, number);  // decimals have one zero
}

Value Round(EvalContext& ctx, std::span<Value> a) {
  if (!WantNumber(ctx, a[0])) return {};
  const double number = a[0].as_number();
  if (a.size() > 1 && (!a[1].is_int() || a[1].as_int() < 0)) {
    return ctx.ArgumentError("NumberOutOfRange", "round() takes a precision of 0 or more");
  }
  std::string_view mode = "HALF_UP";
  if (a.size() > 2) {
    static constexpr std::string_view kModes[] = {"UP",      "DOWN",      "CEILING",  "FLOOR",
                                                  "HALF_UP", "HALF_DOWN", "HALF_EVEN"};
    const auto* const found =
        a[2].is_string() ? std::find(std::begin(kModes), std::end(kModes), a[2].as_string())
                         : std::end(kModes);
    if (found == std::end(kModes)) {
      return ctx.ArgumentError("InvalidArgumentValue",
                               "round() takes UP, DOWN, CEILING, FLOOR, HALF_UP, HALF_DOWN or "
                               "HALF_EVEN");
    }
    mode = *found;
  }
  const int64_t precision = a.size() > 1 ? a[1].as_int() : 0;
  if (!std::isfinite(number)) return Value::Float(number);
  if (precision > 0 || a.size() > 2) return Value::Float(RoundDecimal(number, precision, mode));
  // Half goes up, as in 2.5 to 3 and -2.5 to -2.
  const double below = std::floor(number);  // not of number + 0.5, which may have been rounded
  return Value::Float(number - below >= 0.5 ? below + 1 : below);
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

double Coth(double x) { return 1 / std::tanh(x); }
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
  out->push_back({"round", 1, 3, Round, kFloat, {kNumber, kNumber, kAnyType}});
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
  real("sinh", Real<std::sinh>);
  real("cosh", Real<std::cosh>);
  real("tanh", Real<std::tanh>);
  real("coth", Real<Coth>);
  real("degrees", Real<Degrees>);
  real("radians", Real<Radians>);
  real("haversin", Real<Haversin>);
}

}  // namespace pulse::cypher
