// Durations: made of components, differences of temporal values, and arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>

#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

constexpr long double kDaysPerMonth = 2629746.0L / 86400.0L;

bool Fits(long double value) { return std::fabs(value) <= kMostOfDuration; }

// The nanoseconds between two instants that TakeApart gave, in whole seconds and a rest.
struct Span {
  int64_t seconds;
  int64_t nanos;  // of the same sign
};

Value FromSpan(int64_t months, int64_t days, Span span) {
  Duration d;
  d.months = months;
  d.days = days;
  d.seconds = span.seconds + FloorDiv(span.nanos, kNanosPerSecond);
  d.nanos = static_cast<int32_t>(FloorMod(span.nanos, kNanosPerSecond));
  return Value::MakeDuration(d);
}

Span Between(const TemporalParts& a, const TemporalParts& b) {
  const int64_t seconds = ToUtc(b.LocalSeconds(), b.zone) - ToUtc(a.LocalSeconds(), a.zone);
  return {seconds, b.nanos % kNanosPerSecond - a.nanos % kNanosPerSecond};
}

int64_t AddMonths(int64_t days, int64_t months) {
  const Civil c = CivilFromDays(days);
  const int64_t total = c.year * 12 + c.month - 1 + months;
  const int64_t year = FloorDiv(total, 12);
  const int month = static_cast<int>(FloorMod(total, 12)) + 1;
  return DaysFromCivil(year, month, std::min(c.day, DaysInMonth(year, month)));
}

// Whole months from a to b, towards zero. By the day of the month, whatever the shorter month's
// last one is: from 31 January to 29 February there is none.
int64_t MonthsBetween(const TemporalParts& a, const TemporalParts& b) {
  int64_t end = b.days;
  if (end > a.days && b.nanos < a.nanos) --end;
  if (end < a.days && b.nanos > a.nanos) ++end;
  const Civil x = CivilFromDays(a.days), y = CivilFromDays(end);
  constexpr int64_t kDays = 32;
  return ((y.year * 12 + y.month - x.year * 12 - x.month) * kDays + y.day - x.day) / kDays;
}

int64_t DaysBetween(int64_t from, int64_t nanos, const TemporalParts& b) {
  int64_t days = b.days - from;
  if (days > 0 && b.nanos < nanos) --days;
  if (days < 0 && b.nanos > nanos) ++days;
  return days;
}

bool AddInt(int64_t a, int64_t b, int64_t* out) { return !__builtin_add_overflow(a, b, out); }

bool Combine(const Duration& a, const Duration& b, int sign, Duration* out) {
  const int64_t nanos = int64_t{a.nanos} + sign * int64_t{b.nanos};
  int64_t months = 0, days = 0, seconds = 0;
  if (__builtin_mul_overflow(b.months, int64_t{sign}, &months) ||
      __builtin_mul_overflow(b.days, int64_t{sign}, &days) ||
      __builtin_mul_overflow(b.seconds, int64_t{sign}, &seconds)) {
    return false;
  }
  out->nanos = static_cast<int32_t>(FloorMod(nanos, kNanosPerSecond));
  return AddInt(a.months, months, &out->months) && AddInt(a.days, days, &out->days) &&
         AddInt(a.seconds, seconds, &out->seconds) &&
         AddInt(out->seconds, FloorDiv(nanos, kNanosPerSecond), &out->seconds) &&
         Fits(out->months) && Fits(out->days) && Fits(out->seconds);
}

}  // namespace

std::optional<Value> MakeDuration(long double months, long double days, long double seconds,
                                  long double nanos, std::string* error) {
  Duration d;
  const long double whole_months = std::trunc(months);
  days += (months - whole_months) * kDaysPerMonth;
  const long double whole_days = std::trunc(days);
  seconds += (days - whole_days) * kSecondsPerDay;
  const long double whole_seconds = std::trunc(seconds);
  // Fractions of decimal numbers miss a nanosecond now and then; a thousandth of one is no miss.
  nanos += (seconds - whole_seconds) * kNanosPerSecond;
  const long double near = std::round(nanos);
  const long double whole_nanos = std::fabs(nanos - near) < 1e-3L ? near : std::trunc(nanos);
  if (!Fits(whole_months) || !Fits(whole_days) || !Fits(whole_seconds) || !Fits(whole_nanos)) {
    *error = "this duration is too long";
    return std::nullopt;
  }
  d.months = static_cast<int64_t>(whole_months);
  d.days = static_cast<int64_t>(whole_days);
  const auto n = static_cast<int64_t>(whole_nanos);
  if (!AddInt(static_cast<int64_t>(whole_seconds), FloorDiv(n, kNanosPerSecond), &d.seconds)) {
    *error = "this duration is too long";
    return std::nullopt;
  }
  d.nanos = static_cast<int32_t>(FloorMod(n, kNanosPerSecond));
  return Value::MakeDuration(d);
}

std::optional<Value> DurationFromMap(const ValueMap& map, std::string* error) {
  struct Unit {
    std::string_view name;
    int what;  // 0 months, 1 days, 2 seconds, 3 nanoseconds
    int64_t factor;
  };
  static constexpr Unit kUnits[] = {
      {"years", 0, 12},          {"quarters", 0, 3},   {"months", 0, 1},
      {"weeks", 1, 7},           {"days", 1, 1},       {"hours", 2, 3600},
      {"minutes", 2, 60},        {"seconds", 2, 1},    {"milliseconds", 3, 1'000'000},
      {"microseconds", 3, 1000}, {"nanoseconds", 3, 1}};
  long double sums[4] = {0, 0, 0, 0};
  for (const auto& [key, value] : map) {
    const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                    [&key = key](const Unit& u) { return u.name == key; });
    if (unit == std::end(kUnits)) {
      *error = Concat("a duration has no component ", key);
      return std::nullopt;
    }
    if (value.is_null()) continue;
    if (!value.is_number() || (value.is_float() && !std::isfinite(value.as_float()))) {
      *error = Concat(key, " must be a number");
      return std::nullopt;
    }
    const long double n = value.is_int() ? static_cast<long double>(value.as_int())
                                         : static_cast<long double>(value.as_float());
    sums[unit->what] += n * static_cast<long double>(unit->factor);
  }
  return MakeDuration(sums[0], sums[1], sums[2], sums[3], error);
}

Value DurationBetween(const Value& from, const Value& to, DurationUnit unit) {
  TemporalParts a = TakeApart(from), b = TakeApart(to);
  const bool dates = a.has_date && b.has_date;
  // What one side lacks it has of the other.
  if (!a.has_date) a.days = b.has_date ? b.days : 0;
  if (!b.has_date) b.days = a.days;
  if (a.has_zone && b.has_zone) {
    if (dates && unit != DurationUnit::kSeconds) b.MoveTo(a.zone);
  } else if (a.has_zone) {
    b.zone = a.zone;
    b.zone.offset_known = false;  // at b's time
  } else if (b.has_zone) {
    a.zone = b.zone;
    a.zone.offset_known = false;
  }
  if (unit == DurationUnit::kSeconds) return FromSpan(0, 0, Between(a, b));
  if (!dates) return FromSpan(0, 0, unit == DurationUnit::kAll ? Between(a, b) : Span{0, 0});
  if (unit == DurationUnit::kDays) return FromSpan(0, DaysBetween(a.days, a.nanos, b), {0, 0});
  const int64_t months = MonthsBetween(a, b);
  if (unit == DurationUnit::kMonths) return FromSpan(months, 0, {0, 0});
  a.days = AddMonths(a.days, months);
  const int64_t days = DaysBetween(a.days, a.nanos, b);
  a.days += days;
  return FromSpan(months, days, Between(a, b));
}

std::optional<Value> AddDurations(const Duration& a, const Duration& b, int sign,
                                  std::string* error) {
  Duration d;
  if (!Combine(a, b, sign, &d)) {
    *error = "this duration is too long";
    return std::nullopt;
  }
  return Value::MakeDuration(d);
}

std::optional<Value> ScaleDuration(const Duration& a, double factor, bool divide,
                                   std::string* error) {
  const auto scale = [&](int64_t n) {
    const auto x = static_cast<long double>(n);
    return divide ? x / static_cast<long double>(factor) : x * static_cast<long double>(factor);
  };
  if (!std::isfinite(factor) || (divide && factor == 0)) {
    *error = "a duration can only be scaled by a finite number, and not divided by 0";
    return std::nullopt;
  }
  return MakeDuration(scale(a.months), scale(a.days), scale(a.seconds), scale(a.nanos), error);
}

std::optional<Value> AddToTemporal(const Value& temporal, const Duration& d, int sign,
                                   std::string* error) {
  TemporalParts p = TakeApart(temporal);
  Duration signed_duration;
  if (!Combine(Duration{}, d, sign, &signed_duration)) {
    *error = "this duration is too long";
    return std::nullopt;
  }
  constexpr int64_t kMostDays = (kMaxYear + 1) * 366;
  const auto in_range = [&](int64_t days) {
    const int64_t year =
        days > kMostDays || days < -kMostDays ? kMaxYear + 1 : CivilFromDays(days).year;
    if (year <= kMaxYear && year >= -kMaxYear) return true;
    *error = "the result is outside the years that can be written";
    return false;
  };
  if (p.has_date) {
    int64_t days = signed_duration.days;
    if (signed_duration.months > kMaxYear * 24 || signed_duration.months < -kMaxYear * 24 ||
        days > 2 * kMostDays || days < -2 * kMostDays) {
      *error = "the result is outside the years that can be written";
      return std::nullopt;
    }
    p.days = AddMonths(p.days, signed_duration.months);
    // The days count from where the months end, also where that is a time that the zone skips.
    if (temporal.type() == Type::kDateTime && signed_duration.months != 0) {
      if (!in_range(p.days)) return std::nullopt;
      p.MoveTo(p.zone);
    }
    // Of a date's seconds whole days count.
    if (!p.has_time) {
      int64_t seconds = signed_duration.seconds;
      if (seconds < 0 && signed_duration.nanos > 0) ++seconds;
      days += seconds / kSecondsPerDay;
    }
    p.days += days;
    if (!in_range(p.days)) return std::nullopt;
  }
  if (!p.has_time) return PutTogether(temporal.type(), p);
  const int64_t nanos = p.nanos % kNanosPerSecond + signed_duration.nanos;
  int64_t seconds = 0;
  // On the line of UTC: an hour is an hour, also when the clocks change.
  const int64_t begin =
      temporal.type() == Type::kDateTime ? ToUtc(p.LocalSeconds(), p.zone) : p.LocalSeconds();
  if (!AddInt(begin, signed_duration.seconds, &seconds) ||
      !AddInt(seconds, FloorDiv(nanos, kNanosPerSecond), &seconds)) {
    *error = "the result is outside the years that can be written";
    return std::nullopt;
  }
  if (temporal.type() == Type::kDateTime) {
    if (!in_range(FloorDiv(seconds, kSecondsPerDay))) return std::nullopt;
    p.zone.offset = OffsetAt(seconds, p.zone);
    p.zone.offset_known = true;
    seconds += p.zone.offset;
  }
  p.days = FloorDiv(seconds, kSecondsPerDay);
  p.nanos = FloorMod(seconds, kSecondsPerDay) * kNanosPerSecond + FloorMod(nanos, kNanosPerSecond);
  if (p.has_date && !in_range(p.days)) return std::nullopt;
  if (!p.has_date) p.days = 0;
  return PutTogether(temporal.type(), p);
}

}  // namespace pulse::cypher
