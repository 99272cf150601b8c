// Temporal values from maps of components, from each other, and cut to a unit.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

// Reads the components of one map, and remembers the first that is wrong.
class Components {
 public:
  Components(const ValueMap& map, std::string* error) : map_(map), error_(error) {}

  bool Has(std::string_view key) const { return Get(key) != nullptr; }
  const Value* Get(std::string_view key) const {
    for (const auto& [name, value] : map_) {
      if (name == key && !value.is_null()) return &value;
    }
    return nullptr;
  }
  int64_t Int(std::string_view key, int64_t otherwise, int64_t low, int64_t high) {
    const Value* v = Get(key);
    if (v == nullptr) return otherwise;
    if (!v->is_int() || v->as_int() < low || v->as_int() > high) {
      Fail(Concat(key, " must be an integer from ", low, " to ", high));
      return otherwise;
    }
    return v->as_int();
  }
  void Fail(std::string message) {
    if (ok_) *error_ = std::move(message);
    ok_ = false;
  }
  bool ok() const { return ok_; }

 private:
  const ValueMap& map_;
  std::string* const error_;
  bool ok_ = true;
};

constexpr std::string_view kDateKeys[] = {"year",         "month",      "day",
                                          "week",         "dayOfWeek",  "quarter",
                                          "dayOfQuarter", "ordinalDay", "weekYear"};
constexpr std::string_view kTimeKeys[] = {"hour",        "minute",      "second",
                                          "millisecond", "microsecond", "nanosecond"};
constexpr std::string_view kOtherKeys[] = {"date", "time", "datetime", "timezone"};

template <size_t n>
bool Contains(const std::string_view (&keys)[n], std::string_view key) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

// Only the last ones may be left out.
void CheckOrder(std::initializer_list<std::string_view> keys, Components* c) {
  std::string_view missing;
  for (const std::string_view key : keys) {
    if (!c->Has(key)) {
      if (missing.empty()) missing = key;
    } else if (!missing.empty()) {
      return c->Fail(Concat(key, " needs ", missing));
    }
  }
}

// A day is one of a month, a week, a quarter or a year.
void CheckDateComponents(bool has_base, Components* c) {
  std::string_view found;
  for (const auto& [part, day] :
       {std::pair{"month", "day"}, std::pair{"week", "dayOfWeek"},
        std::pair{"quarter", "dayOfQuarter"}, std::pair{"ordinalDay", "ordinalDay"}}) {
    const std::string_view given = c->Has(day) ? day : c->Has(part) ? part : "";
    if (given.empty()) continue;
    if (!found.empty()) return c->Fail(Concat(given, " does not go with ", found));
    if (!has_base) CheckOrder({part, day}, c);
    found = given;
  }
}

// The date that the map says, where `base` says what it leaves out.
int64_t BuildDate(Components* c, bool has_base, int64_t base) {
  const Civil civil = CivilFromDays(base);
  CheckDateComponents(has_base, c);
  if (c->Has("week") || (c->Has("dayOfWeek") && has_base)) {
    int64_t week_year = 0;
    int week = 1;
    IsoWeek(base, &week_year, &week);
    const int64_t year =
        c->Int("year", c->Int("weekYear", week_year, -kMaxYear, kMaxYear), -kMaxYear, kMaxYear);
    const int64_t weeks = WeeksInYear(year);
    const int64_t w = c->Int("week", has_base ? std::min<int64_t>(week, weeks) : 1, 1, weeks);
    const int64_t day = c->Int("dayOfWeek", has_base ? WeekDay(base) : 1, 1, 7);
    return DaysFromIsoWeek(year, w, day);
  }
  const int64_t year = c->Int("year", civil.year, -kMaxYear, kMaxYear);
  if (c->Has("ordinalDay")) {
    const int64_t first = DaysFromCivil(year, 1, 1);
    return first + c->Int("ordinalDay", 1, 1, DaysFromCivil(year + 1, 1, 1) - first) - 1;
  }
  if (c->Has("quarter") || c->Has("dayOfQuarter")) {
    const int quarter = static_cast<int>(c->Int("quarter", (civil.month + 2) / 3, 1, 4));
    const int first_month = quarter * 3 - 2;
    if (c->Has("dayOfQuarter") || !has_base) {
      return DaysFromCivil(year, first_month, 1) - 1 +
             c->Int("dayOfQuarter", 1, 1, DaysInQuarter(year, quarter));
    }
    const int month = first_month + (civil.month - 1) % 3;
    return DaysFromCivil(year, month, std::min(civil.day, DaysInMonth(year, month)));
  }
  const int month = static_cast<int>(c->Int("month", has_base ? civil.month : 1, 1, 12));
  const int last = DaysInMonth(year, month);
  const int64_t day = c->Int("day", has_base ? std::min(civil.day, last) : 1, 1, 31);
  if (day > last) {
    c->Fail("the month has no such day");
    return 0;
  }
  return DaysFromCivil(year, month, static_cast<int>(day));
}

int64_t BuildTime(Components* c, bool has_base, int64_t base) {
  const int64_t seconds = base / kNanosPerSecond;
  const int64_t hour = c->Int("hour", seconds / 3600, 0, 23);
  const int64_t minute = c->Int("minute", seconds / 60 % 60, 0, 59);
  const int64_t second = c->Int("second", seconds % 60, 0, 59);
  // A finer component holds what the coarser ones that are given leave.
  int64_t rest = base % kNanosPerSecond;
  const bool milli = c->Has("millisecond"), micro = c->Has("microsecond"),
             nano = c->Has("nanosecond");
  if (!has_base) CheckOrder({"hour", "minute", "second"}, c);
  if (milli)
    rest = c->Int("millisecond", 0, 0, 999) * 1'000'000 + (has_base ? rest % 1'000'000 : 0);
  if (micro) {
    const int64_t value = c->Int("microsecond", 0, 0, milli ? 999 : 999'999);
    const bool keeps = milli || (has_base && value < 1000);
    rest = (keeps ? rest / 1'000'000 * 1'000'000 : 0) + value * 1000 + rest % 1000;
  }
  if (nano) {
    const int64_t value = c->Int("nanosecond", 0, 0, micro ? 999 : milli ? 999'999 : 999'999'999);
    const bool keeps = micro || milli || has_base;
    rest = value + (!keeps || value >= 1'000'000                      ? 0
                    : value >= 1000 || (milli && !micro && !has_base) ? rest / 1'000'000 * 1'000'000
                                                                      : rest / 1000 * 1000);
  }
  return ((hour * 60 + minute) * 60 + second) * kNanosPerSecond + rest;
}

bool Has(Type type, char what) {
  switch (type) {
    case Type::kDate:
      return what == 'd';
    case Type::kLocalTime:
      return what == 't';
    case Type::kTime:
      return what == 't' || what == 'z';
    case Type::kLocalDateTime:
      return what == 'd' || what == 't';
    default:
      return true;
  }
}

// What the entries date, time and datetime say to start from.
bool ReadBase(Components* c, TemporalParts* base) {
  for (const std::string_view key : {"datetime", "date", "time"}) {
    const Value* v = c->Get(key);
    if (v == nullptr) continue;
    if (!v->is_temporal()) {
      c->Fail(Concat(key, " must be a temporal value"));
      return false;
    }
    const TemporalParts parts = TakeApart(*v);
    const bool date = key != "time", time = key != "date";
    if ((date && !parts.has_date) || (time && !parts.has_time)) {
      c->Fail(Concat("a ", TypeName(v->type()), " has no ", key));
      return false;
    }
    if (date) {
      base->has_date = true;
      base->days = parts.days;
    }
    if (time) {
      base->has_time = true;
      base->nanos = parts.nanos;
    }
    // The zone of a date alone says nothing of a time that comes from elsewhere.
    if (parts.has_zone && time) {
      base->has_zone = true;
      base->zone = parts.zone;
    }
  }
  return true;
}

std::optional<Value> Build(Type type, Components* c, const ValueMap& map, TemporalParts base,
                           bool convert) {
  for (const auto& [key, value] : map) {
    const bool known = (Contains(kDateKeys, key) && Has(type, 'd')) ||
                       (Contains(kTimeKeys, key) && Has(type, 't')) || Contains(kOtherKeys, key);
    if (!known) c->Fail(Concat("a ", TypeName(type), " has no component ", key));
  }
  // The date first: it decides which offset a zone has.
  if (Has(type, 'd')) {
    if (!base.has_date && !c->Has("year") && c->ok()) c->Fail("the year is missing");
    base.days = BuildDate(c, base.has_date, base.days);
  }
  if (const Value* name = c->Get("timezone")) {
    const auto zone = name->is_string() ? ParseZone(name->as_string()) : std::nullopt;
    if (!zone) {
      c->Fail("there is no such time zone");
      return std::nullopt;
    }
    if (convert && base.has_zone && base.has_time) {
      const int64_t days = base.days;
      base.MoveTo(*zone);
      // A time without a date stays within its day.
      if (!base.has_date) base.days = days;
    } else {
      base.zone = *zone;
    }
    base.has_zone = true;
  }
  if (Has(type, 't')) base.nanos = BuildTime(c, base.has_time, base.nanos);
  if (!c->ok()) return std::nullopt;
  return PutTogether(type, base);
}

// datetime({epochSeconds: 1, nanosecond: 5, timezone: 'Europe/Paris'}), or epochMillis.
std::optional<Value> FromEpoch(Components* c, const ValueMap& map, std::string* error) {
  ValueMap rest;
  for (const auto& [key, value] : map) {
    const bool epoch = key == "epochSeconds" || key == "epochMillis";
    if (key == "timezone") {
      rest.emplace_back(key, value);
    } else if (!epoch && key != "nanosecond") {
      c->Fail(Concat("beside epochSeconds or epochMillis there is no component ", key));
    }
  }
  if (c->Has("epochSeconds") && c->Has("epochMillis")) {
    c->Fail("only one of epochSeconds and epochMillis says when");
  }
  constexpr int64_t kMost = kMaxYear * 365 * kSecondsPerDay;
  const int64_t millis = c->Int("epochMillis", 0, -kMost, kMost);
  DateTime d;
  d.seconds = c->Int("epochSeconds", 0, -kMost, kMost) + FloorDiv(millis, 1000);
  d.nanos = static_cast<int32_t>(FloorMod(millis, 1000) * 1'000'000 +
                                 c->Int("nanosecond", 0, 0, millis != 0 ? 999'999 : 999'999'999));
  if (!c->ok()) return std::nullopt;
  TemporalParts parts = TakeApart(Value::MakeDateTime(std::move(d)));
  Components zone(rest, error);
  return Build(Type::kDateTime, &zone, rest, parts, true);
}

// The last boundary of `unit` on or before the value; false: there is no such unit.
bool Truncate(std::string_view unit, TemporalParts* p) {
  static constexpr std::pair<std::string_view, int64_t> kTimes[] = {
      {"day", kNanosPerDay},
      {"hour", 3600 * kNanosPerSecond},
      {"minute", 60 * kNanosPerSecond},
      {"second", kNanosPerSecond},
      {"millisecond", 1'000'000},
      {"microsecond", 1000}};
  for (const auto& [name, nanos] : kTimes) {
    if (unit == name) {
      p->nanos -= p->nanos % nanos;
      return true;
    }
  }
  const Civil c = CivilFromDays(p->days);
  int64_t week_year = 0;
  int week = 0;
  IsoWeek(p->days, &week_year, &week);
  if (unit == "millennium")
    p->days = DaysFromCivil(FloorDiv(c.year, 1000) * 1000, 1, 1);
  else if (unit == "century")
    p->days = DaysFromCivil(FloorDiv(c.year, 100) * 100, 1, 1);
  else if (unit == "decade")
    p->days = DaysFromCivil(FloorDiv(c.year, 10) * 10, 1, 1);
  else if (unit == "year")
    p->days = DaysFromCivil(c.year, 1, 1);
  else if (unit == "weekYear")
    p->days = DaysFromIsoWeek(week_year, 1, 1);
  else if (unit == "quarter")
    p->days = DaysFromCivil(c.year, (c.month + 2) / 3 * 3 - 2, 1);
  else if (unit == "month")
    p->days = DaysFromCivil(c.year, c.month, 1);
  else if (unit == "week")
    p->days = p->days - WeekDay(p->days) + 1;
  else
    return false;
  p->nanos = 0;
  return true;
}

}  // namespace

std::optional<Value> TemporalFromMap(Type type, const ValueMap& map, std::string* error) {
  Components c(map, error);
  if (type == Type::kDateTime && (c.Has("epochSeconds") || c.Has("epochMillis"))) {
    return FromEpoch(&c, map, error);
  }
  TemporalParts base;
  if (!ReadBase(&c, &base)) return std::nullopt;
  return Build(type, &c, map, base, true);
}

std::optional<Value> ConvertTemporal(Type type, const Value& from, std::string* error) {
  const TemporalParts parts = TakeApart(from);
  if ((Has(type, 'd') && !parts.has_date) ||
      (Has(type, 't') && !Has(type, 'd') && !parts.has_time)) {
    *error = Concat("a ", TypeName(from.type()), " is no ", TypeName(type));
    return std::nullopt;
  }
  return PutTogether(type, parts);
}

std::optional<Value> TruncateTemporal(Type type, std::string_view unit, const Value& from,
                                      const ValueMap& map, std::string* error) {
  TemporalParts parts = TakeApart(from);
  Components c(map, error);
  if ((Has(type, 'd') && !parts.has_date) || (type == Type::kDate && !parts.has_date)) {
    *error = Concat("a ", TypeName(from.type()), " cannot be cut to a ", TypeName(type));
    return std::nullopt;
  }
  static constexpr std::string_view kDateUnits[] = {"millennium", "century", "decade", "year",
                                                    "weekYear",   "quarter", "month",  "week"};
  static constexpr std::string_view kTimeUnits[] = {"hour", "minute", "second", "millisecond",
                                                    "microsecond"};
  if ((!Has(type, 'd') && Contains(kDateUnits, unit)) ||
      (!Has(type, 't') && Contains(kTimeUnits, unit))) {
    *error = Concat("a ", TypeName(type), " has no ", unit);
    return std::nullopt;
  }
  if (!Truncate(unit, &parts)) {
    *error = Concat("there is no unit ", unit);
    return std::nullopt;
  }
  parts.has_time = true;
  return Build(type, &c, map, parts, false);
}

}  // namespace pulse::cypher
