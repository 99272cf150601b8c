// date(), duration.between() and the other temporal functions.
#include "services/graph/functions/functions.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

Value Checked(std::optional<Value> value, const std::string& error, EvalContext& ctx) {
  return value ? *std::move(value) : ctx.ArgumentError("InvalidArgumentValue", error);
}

// A moment as a value of the type, in a zone.
Value At(Type type, int64_t nanos, const Zone& zone) {
  TemporalParts parts;
  parts.has_date = parts.has_time = parts.has_zone = true;
  const int64_t seconds = FloorDiv(nanos, kNanosPerSecond);
  parts.days = FloorDiv(seconds, kSecondsPerDay);
  parts.nanos =
      FloorMod(seconds, kSecondsPerDay) * kNanosPerSecond + FloorMod(nanos, kNanosPerSecond);
  parts.MoveTo(zone);
  return PutTogether(type, parts);
}

enum class Clock : uint8_t { kTransaction, kStatement, kRealtime };

// The one argument is a time zone.
template <Type type, Clock clock>
Value Now(EvalContext& ctx, std::span<Value> a) {
  Zone zone;
  const Value* name = a.empty() ? nullptr : &a[0];
  if (name != nullptr && name->is_map()) name = name->Find("timezone");
  if (name != nullptr) {
    const auto parsed = name->is_string() ? ParseZone(name->as_string()) : std::nullopt;
    if (!parsed) return ctx.ArgumentError("InvalidArgumentValue", "there is no such time zone");
    zone = *parsed;
  }
  const int64_t nanos = clock == Clock::kRealtime      ? ctx.wall_nanos()
                        : clock == Clock::kTransaction ? ctx.transaction_nanos
                                                       : ctx.statement_nanos;
  return At(type, nanos, zone);
}

template <Type type>
Value Make(EvalContext& ctx, std::span<Value> a) {
  if (a.empty()) return Now<type, Clock::kStatement>(ctx, a);
  std::string error;
  const Value& v = a[0];
  if (v.is_string()) return Checked(ParseTemporal(type, v.as_string(), &error), error, ctx);
  if (v.is_map()) {
    const bool only_zone = v.as_map().size() == 1 && v.Find("timezone") != nullptr;
    if (only_zone) return Now<type, Clock::kStatement>(ctx, a);
    return Checked(TemporalFromMap(type, v.as_map(), &error), error, ctx);
  }
  if (v.is_temporal()) return Checked(ConvertTemporal(type, v, &error), error, ctx);
  return ctx.TypeError(Concat("a ", TypeName(v.type()), " is no ", TypeName(type)));
}

template <Type type>
Value Truncate(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_null() || (a.size() > 1 && a[1].is_null())) return {};
  static const Value* const kEmpty = new Value(Value::Map({}));
  const Value now = a.size() > 1 ? a[1] : Now<type, Clock::kStatement>(ctx, {});
  const Value& map = a.size() > 2 && !a[2].is_null() ? a[2] : *kEmpty;
  if (!a[0].is_string() || !now.is_temporal() || !map.is_map()) {
    return ctx.TypeError("truncate() takes a unit, a temporal value and a map");
  }
  std::string error;
  return Checked(TruncateTemporal(type, a[0].as_string(), now, map.as_map(), &error), error, ctx);
}

Value FromEpoch(EvalContext& ctx, std::span<Value> a) {
  if (!a[0].is_int() || !a[1].is_int())
    return ctx.TypeError("datetime.fromepoch() takes seconds and nanoseconds");
  DateTime d;
  const int64_t more = FloorDiv(a[1].as_int(), kNanosPerSecond);
  if (!IsSecond(a[0].as_int()) || !IsSecond(a[0].as_int() + more))
    return ctx.ArgumentError("NumberOutOfRange", "this is beyond all years");
  d.seconds = a[0].as_int() + more;
  d.nanos = static_cast<int32_t>(FloorMod(a[1].as_int(), kNanosPerSecond));
  return Value::MakeDateTime(std::move(d));
}
Value FromEpochMillis(EvalContext& ctx, std::span<Value> a) {
  if (!a[0].is_int()) return ctx.TypeError("datetime.fromepochmillis() takes milliseconds");
  DateTime d;
  d.seconds = FloorDiv(a[0].as_int(), 1000);
  d.nanos = static_cast<int32_t>(FloorMod(a[0].as_int(), 1000) * 1'000'000);
  return Value::MakeDateTime(std::move(d));
}

Value MakeDurationValue(EvalContext& ctx, std::span<Value> a) {
  std::string error;
  if (a[0].is_duration()) return a[0];
  if (a[0].is_string())
    return Checked(ParseTemporal(Type::kDuration, a[0].as_string(), &error), error, ctx);
  if (a[0].is_map()) return Checked(DurationFromMap(a[0].as_map(), &error), error, ctx);
  return ctx.TypeError(Concat("a ", TypeName(a[0].type()), " is no DURATION"));
}

template <DurationUnit unit>
Value Between(EvalContext& ctx, std::span<Value> a) {
  if (!a[0].is_temporal() || !a[1].is_temporal())
    return ctx.TypeError("a duration lies between two temporal values");
  return DurationBetween(a[0], a[1], unit);
}

template <Type type>
void AddType(std::string_view name, const std::array<std::string_view, 4>& variants,
             std::vector<Function>* out) {
  constexpr uint32_t kArgument =
      kTemporalTypes | Bit(Type::kString) | Bit(Type::kMap) | Bit(Type::kNull);
  out->push_back({name, 0, 1, Make<type>, Bit(type), {kArgument}});
  out->push_back({variants[0], 0, 1, Now<type, Clock::kTransaction>, Bit(type), {kAnyType}});
  out->push_back({variants[1], 0, 1, Now<type, Clock::kStatement>, Bit(type), {kAnyType}});
  out->push_back({variants[2],
                  0,
                  1,
                  Now<type, Clock::kRealtime>,
                  Bit(type),
                  {kAnyType},
                  true,
                  Aggregate::kNone,
                  false});
  out->push_back(
      {variants[3], 1, 3, Truncate<type>, Bit(type), {kAnyType, kAnyType, kAnyType}, false});
}

}  // namespace

void AddTemporalFunctions(std::vector<Function>* out) {
  AddType<Type::kDate>(
      "date", {"date.transaction", "date.statement", "date.realtime", "date.truncate"}, out);
  AddType<Type::kLocalTime>(
      "localtime",
      {"localtime.transaction", "localtime.statement", "localtime.realtime", "localtime.truncate"},
      out);
  AddType<Type::kTime>(
      "time", {"time.transaction", "time.statement", "time.realtime", "time.truncate"}, out);
  AddType<Type::kLocalDateTime>("localdatetime",
                                {"localdatetime.transaction", "localdatetime.statement",
                                 "localdatetime.realtime", "localdatetime.truncate"},
                                out);
  AddType<Type::kDateTime>(
      "datetime",
      {"datetime.transaction", "datetime.statement", "datetime.realtime", "datetime.truncate"},
      out);
  constexpr uint32_t kDuration = Bit(Type::kDuration),
                     kTemporal = kTemporalTypes | Bit(Type::kNull);
  out->push_back({"datetime.fromepoch",
                  2,
                  2,
                  FromEpoch,
                  Bit(Type::kDateTime),
                  {kAnyType, kAnyType, kAnyType}});
  out->push_back(
      {"datetime.fromepochmillis", 1, 1, FromEpochMillis, Bit(Type::kDateTime), {kAnyType}});
  out->push_back({"duration",
                  1,
                  1,
                  MakeDurationValue,
                  kDuration,
                  {kDuration | Bit(Type::kString) | Bit(Type::kMap) | Bit(Type::kNull)}});
  out->push_back({"duration.between",
                  2,
                  2,
                  Between<DurationUnit::kAll>,
                  kDuration,
                  {kTemporal, kTemporal, kAnyType}});
  out->push_back({"duration.inMonths",
                  2,
                  2,
                  Between<DurationUnit::kMonths>,
                  kDuration,
                  {kTemporal, kTemporal, kAnyType}});
  out->push_back({"duration.inDays",
                  2,
                  2,
                  Between<DurationUnit::kDays>,
                  kDuration,
                  {kTemporal, kTemporal, kAnyType}});
  out->push_back({"duration.inSeconds",
                  2,
                  2,
                  Between<DurationUnit::kSeconds>,
                  kDuration,
                  {kTemporal, kTemporal, kAnyType}});
}

}  // namespace pulse::cypher
