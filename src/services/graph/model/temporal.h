// Dates, times and durations: the proleptic Gregorian calendar, zones of the system's database, ISO
// 8601 texts, and the constructors that Cypher's temporal functions are. Any thread; nothing blocks
// but the first use of a zone, which reads its file.
//
// Functions return nullopt, and say why in *error, where the input is no such value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "services/graph/model/value.h"

namespace pulse::cypher {

inline constexpr int64_t kNanosPerSecond = 1'000'000'000;
inline constexpr int64_t kSecondsPerDay = 86400;
inline constexpr int64_t kNanosPerDay = kSecondsPerDay * kNanosPerSecond;
inline constexpr int64_t kMaxYear = 999'999'999;
// Of these years, since 1970.
inline constexpr int64_t kFirstDay = -365'243'219'162, kLastDay = 365'241'780'471;
inline bool IsDay(int64_t days) { return days >= kFirstDay && days <= kLastDay; }
// Since 1970 as a clock shows them, which is so far ahead; by at most a day.
inline bool IsSecond(int64_t seconds, int64_t ahead = 0) {
  return seconds >= kFirstDay * kSecondsPerDay - ahead &&
         seconds < (kLastDay + 1) * kSecondsPerDay - ahead;
}
// The most months, days or seconds of a duration that every reader of its text takes.
inline constexpr int64_t kMostOfDuration = 9'200'000'000'000'000'000;

struct Civil {
  int64_t year = 1970;
  int month = 1, day = 1;
};
int64_t DaysFromCivil(int64_t year, int month, int day);
Civil CivilFromDays(int64_t days);
int DaysInMonth(int64_t year, int month);
// ISO weeks: days of week 1 to 7 from Monday.
int WeekDay(int64_t days);
void IsoWeek(int64_t days, int64_t* week_year, int* week);
int64_t DaysFromIsoWeek(int64_t week_year, int64_t week, int64_t week_day);
int WeeksInYear(int64_t week_year);
int DaysInQuarter(int64_t year, int quarter);
inline int64_t FloorDiv(int64_t a, int64_t b) {
  return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
}
inline int64_t FloorMod(int64_t a, int64_t b) { return a - FloorDiv(a, b) * b; }

// An offset, or a zone by name.
struct Zone {
  int32_t offset = 0;
  std::string name;  // empty: the offset
  // Of a zone by name: its offset is `offset` at the time that this is with.
  bool offset_known = false;
};
std::optional<Zone> ParseZone(std::string_view text);
// Seconds since 1970 UTC of a local time; what the zone skips moves forward, of what it has twice
// the first counts, unless the second has the zone's known offset.
int64_t ToUtc(int64_t local_seconds, const Zone& zone);
int32_t OffsetAt(int64_t utc_seconds, const Zone& zone);

// Any temporal value taken apart; what it lacks is zero and said so.
struct TemporalParts {
  bool has_date = false, has_time = false, has_zone = false;
  int64_t days = 0;
  int64_t nanos = 0;  // of the day, local
  Zone zone;
  int64_t LocalSeconds() const { return days * kSecondsPerDay + nanos / kNanosPerSecond; }
  // The same instant elsewhere.
  void MoveTo(const Zone& to);
};
TemporalParts TakeApart(const Value& temporal);
Value PutTogether(Type type, const TemporalParts& parts);

// Text as Cypher writes it, of temporal values and durations. Seconds that are 0: left out, or
// always written, as toString() does.
enum class Seconds : uint8_t { kUnlessZero, kAlways };
std::string TemporalText(const Value& value, Seconds seconds = Seconds::kUnlessZero);
std::optional<Value> ParseTemporal(Type type, std::string_view text, std::string* error);
// date({year: 2015, ...}); `zone` where neither the map nor what it is based on has one.
std::optional<Value> TemporalFromMap(Type type, const ValueMap& map, std::string* error);
// date(datetime) and the like.
std::optional<Value> ConvertTemporal(Type type, const Value& from, std::string* error);
std::optional<Value> TruncateTemporal(Type type, std::string_view unit, const Value& from,
                                      const ValueMap& map, std::string* error);
// date.year, duration.hours and so on; nullopt: there is no such component.
std::optional<Value> TemporalComponent(const Value& value, std::string_view name);

// Durations. Months, days and seconds may have fractions, which go to the next smaller unit.
std::optional<Value> MakeDuration(long double months, long double days, long double seconds,
                                  long double nanos, std::string* error);
std::optional<Value> DurationFromMap(const ValueMap& map, std::string* error);
enum class DurationUnit : uint8_t { kAll, kMonths, kDays, kSeconds };
Value DurationBetween(const Value& from, const Value& to, DurationUnit unit);
// sign 1 or -1.
std::optional<Value> AddDurations(const Duration& a, const Duration& b, int sign,
                                  std::string* error);
std::optional<Value> ScaleDuration(const Duration& a, double factor, bool divide,
                                   std::string* error);
std::optional<Value> AddToTemporal(const Value& temporal, const Duration& d, int sign,
                                   std::string* error);

}  // namespace pulse::cypher
