#include "services/graph/model/temporal.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {

// Days from civil: eras of 400 years that begin in March.
int64_t DaysFromCivil(int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = FloorDiv(year, 400);
  const int64_t in_era = year - era * 400;
  const int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

Civil CivilFromDays(int64_t days) {
  days += 719468;
  const int64_t era = FloorDiv(days, 146097);
  const int64_t in_era = days - era * 146097;
  const int64_t year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
  const int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
  const int64_t month = (5 * in_year + 2) / 153;
  Civil civil;
  civil.day = static_cast<int>(in_year - (153 * month + 2) / 5 + 1);
  civil.month = static_cast<int>(month < 10 ? month + 3 : month - 9);
  civil.year = year + era * 400 + (civil.month <= 2 ? 1 : 0);
  return civil;
}

int DaysInMonth(int64_t year, int month) {
  static constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return kDays[static_cast<size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
}

int WeekDay(int64_t days) { return static_cast<int>(FloorMod(days + 3, 7)) + 1; }

void IsoWeek(int64_t days, int64_t* week_year, int* week) {
  // The year of a week is that of its Thursday.
  const int64_t thursday = days - WeekDay(days) + 4;
  *week_year = CivilFromDays(thursday).year;
  *week = static_cast<int>((thursday - DaysFromCivil(*week_year, 1, 1)) / 7) + 1;
}

int64_t DaysFromIsoWeek(int64_t week_year, int64_t week, int64_t week_day) {
  const int64_t fourth = DaysFromCivil(week_year, 1, 4);
  return fourth - WeekDay(fourth) + 1 + (week - 1) * 7 + week_day - 1;
}

int WeeksInYear(int64_t week_year) {
  int week = 0;
  IsoWeek(DaysFromCivil(week_year, 12, 28), &week_year, &week);  // which is always in the last one
  return week;
}

int DaysInQuarter(int64_t year, int quarter) {
  int days = 0;
  for (int month = quarter * 3 - 2; month <= quarter * 3; ++month) days += DaysInMonth(year, month);
  return days;
}

namespace {

bool LoadZone(const std::string& name, absl::TimeZone* zone) {
  return absl::LoadTimeZone(name, zone);
}

absl::CivilSecond ToCivil(int64_t local_seconds) {
  const Civil c = CivilFromDays(FloorDiv(local_seconds, kSecondsPerDay));
  const int64_t s = FloorMod(local_seconds, kSecondsPerDay);
  return absl::CivilSecond(c.year, c.month, c.day, s / 3600, s / 60 % 60, s % 60);
}

std::string Padded(int64_t value, int width) {
  std::string text = std::to_string(value < 0 ? -value : value);
  if (static_cast<int>(text.size()) < width)
    text.insert(0, static_cast<size_t>(width) - text.size(), '0');
  return value < 0 ? "-" + text : text;
}

std::string Fraction(int64_t nanos) {
  if (nanos == 0) return {};
  std::string text = Padded(nanos, 9);
  text.erase(text.find_last_not_of('0') + 1);
  return "." + text;
}

std::string DateText(int64_t days) {
  const Civil c = CivilFromDays(days);
  return Concat(c.year > 9999 ? "+" : "", Padded(c.year, 4), "-", Padded(c.month, 2), "-",
                Padded(c.day, 2));
}

std::string TimeText(int64_t nanos, Seconds seconds) {
  const int64_t s = nanos / kNanosPerSecond, rest = nanos % kNanosPerSecond;
  std::string text = Padded(s / 3600, 2) + ":" + Padded(s / 60 % 60, 2);
  const bool written = seconds == Seconds::kAlways || s % 60 != 0 || rest != 0;
  if (written) text += ":" + Padded(s % 60, 2) + Fraction(rest);
  return text;
}

std::string OffsetText(int32_t offset) {
  if (offset == 0) return "Z";
  const int32_t a = offset < 0 ? -offset : offset;
  std::string text = (offset < 0 ? "-" : "+") + Padded(a / 3600, 2) + ":" + Padded(a / 60 % 60, 2);
  if (a % 60 != 0) text += ":" + Padded(a % 60, 2);
  return text;
}

std::string DurationText(const Duration& d) {
  std::string text = "P";
  const auto add = [&text](int64_t value, const char* unit) {
    if (value != 0) text += std::to_string(value) + unit;
  };
  add(d.months / 12, "Y");
  add(d.months % 12, "M");
  add(d.days, "D");
  int64_t seconds = d.seconds, nanos = d.nanos;
  if (seconds < 0 && nanos > 0) {
    ++seconds;
    nanos -= kNanosPerSecond;
  }
  if (seconds != 0 || nanos != 0) {
    text += "T";
    add(seconds / 3600, "H");
    add(seconds / 60 % 60, "M");
    const int64_t rest = seconds % 60;
    if (rest != 0 || nanos != 0) {
      const bool negative = rest < 0 || nanos < 0;
      text += Concat(negative ? "-" : "", rest < 0 ? -rest : rest,
                     Fraction(nanos < 0 ? -nanos : nanos), "S");
    }
  }
  return text == "P" ? "PT0S" : text;
}

}  // namespace

std::optional<Zone> ParseZone(std::string_view text) {
  Zone zone;
  if (text == "Z" || text == "z") return zone;
  if (text.empty()) return std::nullopt;
  if (text[0] != '+' && text[0] != '-') {
    absl::TimeZone loaded;
    zone.name = std::string(text);
    if (zone.name.find("..") != std::string::npos || zone.name[0] == '/' || zone.name[0] == ':' ||
        zone.name.size() > 64 || !LoadZone(zone.name, &loaded)) {
      return std::nullopt;
    }
    return zone;
  }
  std::string digits;
  for (const char c : text.substr(1)) {
    if (c >= '0' && c <= '9')
      digits += c;
    else if (c != ':')
      return std::nullopt;
  }
  if (digits.size() == 1) digits.insert(0, "0");
  if (digits.size() != 2 && digits.size() != 4 && digits.size() != 6) return std::nullopt;
  digits.resize(6, '0');
  const int hours = std::stoi(digits.substr(0, 2)), minutes = std::stoi(digits.substr(2, 2)),
            seconds = std::stoi(digits.substr(4, 2));
  zone.offset = hours * 3600 + minutes * 60 + seconds;
  if (minutes > 59 || seconds > 59 || zone.offset > 18 * 3600) return std::nullopt;
  if (text[0] == '-') zone.offset = -zone.offset;
  return zone;
}

int64_t ToUtc(int64_t local_seconds, const Zone& zone) {
  absl::TimeZone loaded;
  if (zone.name.empty() || !LoadZone(zone.name, &loaded)) return local_seconds - zone.offset;
  const absl::TimeZone::TimeInfo info = loaded.At(ToCivil(local_seconds));
  const int64_t first = absl::ToUnixSeconds(info.pre), second = absl::ToUnixSeconds(info.post);
  const bool is_second = info.kind == absl::TimeZone::TimeInfo::REPEATED && zone.offset_known &&
                         local_seconds - second == zone.offset;
  return is_second ? second : first;
}

int32_t OffsetAt(int64_t utc_seconds, const Zone& zone) {
  absl::TimeZone loaded;
  if (zone.name.empty() || !LoadZone(zone.name, &loaded)) return zone.offset;
  return loaded.At(absl::FromUnixSeconds(utc_seconds)).offset;
}

void TemporalParts::MoveTo(const Zone& to) {
  const int64_t utc = ToUtc(LocalSeconds(), zone);
  const int32_t offset = OffsetAt(utc, to);
  const int64_t local = utc + offset;
  nanos = FloorMod(local, kSecondsPerDay) * kNanosPerSecond + nanos % kNanosPerSecond;
  days = FloorDiv(local, kSecondsPerDay);
  zone = to;
  zone.offset = offset;
  zone.offset_known = true;
}

TemporalParts TakeApart(const Value& v) {
  TemporalParts p;
  int64_t local = 0;
  switch (v.type()) {
    case Type::kDate:
      p.has_date = true;
      p.days = v.as_days();
      return p;
    case Type::kTime:
      p.has_zone = true;
      p.zone.offset = v.as_offset_or_nanos();
      [[fallthrough]];
    case Type::kLocalTime:
      p.has_time = true;
      p.nanos = v.as_nanos_of_day();
      return p;
    case Type::kLocalDateTime:
      local = v.as_local_seconds();
      p.nanos = v.as_offset_or_nanos();
      break;
    case Type::kDateTime: {
      const DateTime& d = v.as_datetime();
      p.has_zone = true;
      p.zone.offset = d.offset;
      p.zone.name = d.zone;
      p.zone.offset_known = true;
      local = d.seconds + d.offset;
      p.nanos = d.nanos;
      break;
    }
    default:
      return p;
  }
  p.has_date = p.has_time = true;
  p.days = FloorDiv(local, kSecondsPerDay);
  p.nanos += FloorMod(local, kSecondsPerDay) * kNanosPerSecond;
  return p;
}

Value PutTogether(Type type, const TemporalParts& p) {
  const auto rest = static_cast<int32_t>(p.nanos % kNanosPerSecond);
  switch (type) {
    case Type::kDate:
      return Value::Date(p.days);
    case Type::kLocalTime:
      return Value::LocalTime(p.nanos);
    case Type::kTime: {
      // A time has no date, so that of a zone only today's offset could be meant.
      return Value::Time(p.nanos, p.zone.name.empty()
                                      ? p.zone.offset
                                      : OffsetAt(ToUtc(p.LocalSeconds(), p.zone), p.zone));
    }
    case Type::kLocalDateTime:
      return Value::LocalDateTime(p.LocalSeconds(), rest);
    default: {
      DateTime d;
      d.seconds = ToUtc(p.LocalSeconds(), p.zone);
      d.nanos = rest;
      d.offset = OffsetAt(d.seconds, p.zone);
      d.zone = p.zone.name;
      return Value::MakeDateTime(std::move(d));
    }
  }
}

std::string TemporalText(const Value& v, Seconds seconds) {
  if (v.is_duration()) return DurationText(v.as_duration());
  const TemporalParts p = TakeApart(v);
  switch (v.type()) {
    case Type::kDate:
      return DateText(p.days);
    case Type::kLocalTime:
      return TimeText(p.nanos, seconds);
    case Type::kTime:
      return TimeText(p.nanos, seconds) + OffsetText(p.zone.offset);
    case Type::kLocalDateTime:
      return DateText(p.days) + "T" + TimeText(p.nanos, seconds);
    default:
      break;
  }
  std::string text =
      DateText(p.days) + "T" + TimeText(p.nanos, seconds) + OffsetText(p.zone.offset);
  if (!p.zone.name.empty()) text += "[" + p.zone.name + "]";
  return text;
}

namespace {

// Of a component's name: in any case, as Neo4j has them.
bool IsNamed(std::string_view name, std::string_view component) {
  return absl::EqualsIgnoreCase(Absl(name), Absl(component));
}

std::optional<Value> DateComponent(int64_t days, std::string_view name) {
  const Civil c = CivilFromDays(days);
  int64_t week_year = 0;
  int week = 0;
  const int quarter = (c.month + 2) / 3;
  if (IsNamed(name, "year")) return Value::Int(c.year);
  if (IsNamed(name, "quarter")) return Value::Int(quarter);
  if (IsNamed(name, "month")) return Value::Int(c.month);
  if (IsNamed(name, "day")) return Value::Int(c.day);
  if (IsNamed(name, "ordinalDay")) return Value::Int(days - DaysFromCivil(c.year, 1, 1) + 1);
  if (IsNamed(name, "weekDay") || IsNamed(name, "dayOfWeek")) return Value::Int(WeekDay(days));
  if (IsNamed(name, "dayOfQuarter") || IsNamed(name, "quarterDay"))
    return Value::Int(days - DaysFromCivil(c.year, quarter * 3 - 2, 1) + 1);
  IsoWeek(days, &week_year, &week);
  if (IsNamed(name, "week")) return Value::Int(week);
  if (IsNamed(name, "weekYear")) return Value::Int(week_year);
  return std::nullopt;
}

std::optional<Value> TimeComponent(int64_t nanos, std::string_view name) {
  const int64_t s = nanos / kNanosPerSecond, rest = nanos % kNanosPerSecond;
  if (IsNamed(name, "hour")) return Value::Int(s / 3600);
  if (IsNamed(name, "minute")) return Value::Int(s / 60 % 60);
  if (IsNamed(name, "second")) return Value::Int(s % 60);
  if (IsNamed(name, "millisecond")) return Value::Int(rest / 1'000'000);
  if (IsNamed(name, "microsecond")) return Value::Int(rest / 1000);
  if (IsNamed(name, "nanosecond")) return Value::Int(rest);
  return std::nullopt;
}

std::optional<Value> DurationComponent(const Duration& d, std::string_view name) {
  const auto is = [name](std::string_view other) { return IsNamed(name, other); };
  if (is("years")) return Value::Int(d.months / 12);
  if (is("quarters")) return Value::Int(d.months / 3);
  if (is("months")) return Value::Int(d.months);
  if (is("weeks")) return Value::Int(d.days / 7);
  if (is("days")) return Value::Int(d.days);
  if (is("hours")) return Value::Int(d.seconds / 3600);
  if (is("minutes")) return Value::Int(d.seconds / 60);
  if (is("seconds")) return Value::Int(d.seconds);
  const __int128 nanos = static_cast<__int128>(d.seconds) * kNanosPerSecond + d.nanos;
  if (is("milliseconds")) return Value::Int(static_cast<int64_t>(nanos / 1'000'000));
  if (is("microseconds")) return Value::Int(static_cast<int64_t>(nanos / 1000));
  if (is("nanoseconds")) return Value::Int(static_cast<int64_t>(nanos));
  if (is("quartersOfYear")) return Value::Int(d.months / 3 % 4);
  if (is("monthsOfQuarter")) return Value::Int(d.months % 3);
  if (is("monthsOfYear")) return Value::Int(d.months % 12);
  if (is("daysOfWeek")) return Value::Int(d.days % 7);
  if (is("minutesOfHour")) return Value::Int(d.seconds / 60 % 60);
  if (is("secondsOfMinute")) return Value::Int(d.seconds % 60);
  if (is("millisecondsOfSecond")) return Value::Int(d.nanos / 1'000'000);
  if (is("microsecondsOfSecond")) return Value::Int(d.nanos / 1000);
  if (is("nanosecondsOfSecond")) return Value::Int(d.nanos);
  return std::nullopt;
}

}  // namespace

std::optional<Value> TemporalComponent(const Value& v, std::string_view name) {
  if (v.is_duration()) return DurationComponent(v.as_duration(), name);
  const TemporalParts p = TakeApart(v);
  if (p.has_date) {
    if (auto found = DateComponent(p.days, name)) return found;
  }
  if (p.has_time) {
    if (auto found = TimeComponent(p.nanos, name)) return found;
  }
  if (p.has_zone) {
    if (IsNamed(name, "timezone")) {
      return Value::String(p.zone.name.empty() ? OffsetText(p.zone.offset) : p.zone.name);
    }
    if (IsNamed(name, "offset")) return Value::String(OffsetText(p.zone.offset));
    if (IsNamed(name, "offsetMinutes")) return Value::Int(p.zone.offset / 60);
    if (IsNamed(name, "offsetSeconds")) return Value::Int(p.zone.offset);
  }
  if (v.type() == Type::kDateTime) {
    const DateTime& d = v.as_datetime();
    if (IsNamed(name, "epochSeconds")) return Value::Int(d.seconds);
    if (IsNamed(name, "epochMillis")) return Value::Int(d.seconds * 1000 + d.nanos / 1'000'000);
  }
  return std::nullopt;
}

}  // namespace pulse::cypher
