// Texts of ISO 8601 to temporal values and durations.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

// Takes digits and separators from the front of a text.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  size_t DigitCount() const {
    size_t n = 0;
    while (Peek(n) >= '0' && Peek(n) <= '9') ++n;
    return n;
  }
  // How many are to be taken of a part that has two, or one where separators are beside it.
  size_t OneOrTwo(bool separated) const {
    return separated ? std::clamp<size_t>(DigitCount(), 1, 2) : 2;
  }
  bool Digits(size_t count, int64_t* out) {
    if (count == 0 || DigitCount() < count) return false;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + count, *out);
    at_ += count;
    return error == std::errc();
  }
  // A number with or without a fraction and sign.
  bool Number(long double* out) {
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(),
                                              value, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(value)) return false;
    // The same text again, with all its digits.
    const std::string digits(text_.data() + at_, end);
    *out = std::strtold(digits.c_str(), nullptr);
    at_ = static_cast<size_t>(end - text_.data());
    return true;
  }
  std::string_view Rest() const { return text_.substr(at_); }
  void Skip(size_t n) { at_ += n; }

 private:
  const std::string_view text_;
  size_t at_ = 0;
};

bool ReadDate(Reader* in, int64_t* days) {
  int64_t year = 0, month = 1, day = 1;
  const bool negative = in->Peek() == '-';
  const bool is_signed = in->Take('-') || in->Take('+');
  size_t digits = in->DigitCount();
  if (!is_signed && digits > 4) digits = digits == 8 || digits == 7 || digits == 6 ? 4 : digits;
  if (digits < 4 || digits > 9 || !in->Digits(is_signed ? digits : 4, &year)) return false;
  if (negative) year = -year;
  if (year > kMaxYear) return false;
  const bool separated = in->Take('-');
  if (in->Take('W')) {
    int64_t week = 0, week_day = 1;
    if (!in->Digits(in->OneOrTwo(separated), &week) || week < 1 || week > WeeksInYear(year))
      return false;
    if (separated ? in->Take('-') : in->DigitCount() > 0) {
      if (!in->Digits(1, &week_day) || week_day < 1 || week_day > 7) return false;
    }
    *days = DaysFromIsoWeek(year, week, week_day);
    return true;
  }
  if (in->Take('Q')) {
    int64_t quarter = 0, of_quarter = 1;
    if (!in->Digits(1, &quarter) || quarter < 1 || quarter > 4) return false;
    if (separated ? in->Take('-') : in->DigitCount() > 0) {
      if (!in->Digits(in->OneOrTwo(separated), &of_quarter)) return false;
    }
    if (of_quarter < 1 || of_quarter > DaysInQuarter(year, static_cast<int>(quarter))) return false;
    *days = DaysFromCivil(year, static_cast<int>(quarter) * 3 - 2, 1) + of_quarter - 1;
    return true;
  }
  const size_t count = in->DigitCount();
  if (count == 3) {
    int64_t ordinal = 0;
    const int64_t first = DaysFromCivil(year, 1, 1);
    if (!in->Digits(3, &ordinal) || ordinal < 1 ||
        ordinal > DaysFromCivil(year + 1, 1, 1) - first) {
      return false;
    }
    *days = first + ordinal - 1;
    return true;
  }
  if (count > 0) {
    if (!in->Digits(in->OneOrTwo(separated), &month) || month < 1 || month > 12) return false;
    if (separated ? in->Take('-') : count == 4) {
      if (!in->Digits(in->OneOrTwo(separated), &day)) return false;
    }
  } else if (separated) {
    return false;
  }
  if (day < 1 || day > DaysInMonth(year, static_cast<int>(month))) return false;
  *days = DaysFromCivil(year, static_cast<int>(month), static_cast<int>(day));
  return true;
}

bool ReadTime(Reader* in, int64_t* nanos) {
  int64_t hour = 0, minute = 0, second = 0, fraction = 0;
  const bool separated = in->Peek(in->DigitCount()) == ':';
  if (!in->Digits(in->OneOrTwo(separated), &hour)) return false;
  if (separated ? in->Take(':') : in->DigitCount() >= 2) {
    if (!in->Digits(in->OneOrTwo(separated), &minute)) return false;
    if (separated ? in->Take(':') : in->DigitCount() >= 2) {
      if (!in->Digits(in->OneOrTwo(separated), &second)) return false;
      if (in->Take('.') || in->Take(',')) {
        const size_t digits = in->DigitCount();
        if (digits < 1 || digits > 9 || !in->Digits(digits, &fraction)) return false;
        for (size_t i = digits; i < 9; ++i) fraction *= 10;
      }
    }
  }
  if (hour > 23 || minute > 59 || second > 59) return false;
  *nanos = ((hour * 60 + minute) * 60 + second) * kNanosPerSecond + fraction;
  return true;
}

// "+01:00", "Z", "[Europe/Stockholm]", or an offset and a name. True where there is none.
bool ReadZone(Reader* in, TemporalParts* parts) {
  const std::string_view rest = in->Rest();
  if (rest.empty()) return true;
  const size_t bracket = rest.find('[');
  const std::string_view offset = rest.substr(0, bracket);
  if (!offset.empty()) {
    if (offset[0] != 'Z' && offset[0] != 'z' && offset[0] != '+' && offset[0] != '-') return false;
    const auto zone = ParseZone(offset);
    if (!zone) return false;
    parts->zone = *zone;
  }
  if (bracket != std::string_view::npos) {
    if (rest.back() != ']') return false;
    const auto zone = ParseZone(rest.substr(bracket + 1, rest.size() - bracket - 2));
    if (!zone || zone->name.empty()) return false;
    parts->zone.name = zone->name;
    parts->zone.offset_known = !offset.empty();
  }
  parts->has_zone = true;
  in->Skip(rest.size());
  return true;
}

// PnYnMnWnDTnHnMnS, or PYYYY-MM-DDThh:mm:ss.
std::optional<Value> ReadDuration(std::string_view text, std::string* error) {
  Reader in(text);
  const bool negative = in.Take('-');
  if (!negative) in.Take('+');
  if (!in.Take('P') || in.done()) return std::nullopt;
  long double months = 0, days = 0, seconds = 0, nanos = 0;
  // Fractions apart: beside many hours a long double has no place for nanoseconds.
  const auto add_seconds = [&](long double n) {
    seconds += std::trunc(n);
    nanos += (n - std::trunc(n)) * kNanosPerSecond;
  };
  const std::string_view rest = in.Rest();
  // P-6DT-7H-12M has its signs in the same places.
  if (rest.size() >= 10 && rest[4] == '-' && rest[7] == '-' &&
      rest.find_first_not_of("0123456789") == 4) {
    int64_t year = 0, month = 0, day = 0, time = 0;
    if (!in.Digits(4, &year) || !in.Take('-') || !in.Digits(2, &month) || !in.Take('-') ||
        !in.Digits(2, &day)) {
      return std::nullopt;
    }
    if (in.Take('T') && !ReadTime(&in, &time)) return std::nullopt;
    if (!in.done()) return std::nullopt;
    months = static_cast<long double>(year * 12 + month);
    days = static_cast<long double>(day);
    return MakeDuration(negative ? -months : months, negative ? -days : days, 0,
                        static_cast<long double>(negative ? -time : time), error);
  }
  bool time = false;
  while (!in.done()) {
    if (!time && in.Take('T')) {
      time = true;
      if (in.done()) return std::nullopt;
    }
    long double n = 0;
    if (!in.Number(&n)) return std::nullopt;
    if (negative) n = -n;
    if (!time && in.Take('Y'))
      months += n * 12;
    else if (!time && in.Take('M'))
      months += n;
    else if (!time && in.Take('W'))
      days += n * 7;
    else if (!time && in.Take('D'))
      days += n;
    else if (time && in.Take('H'))
      add_seconds(n * 3600);
    else if (time && in.Take('M'))
      add_seconds(n * 60);
    else if (time && in.Take('S'))
      add_seconds(n);
    else
      return std::nullopt;
  }
  return MakeDuration(months, days, seconds, nanos, error);
}

}  // namespace

std::optional<Value> ParseTemporal(Type type, std::string_view text, std::string* error) {
  if (type == Type::kDuration) {
    // Letters in any case, and a comma for a point.
    std::string plain = absl::AsciiStrToUpper(Absl(text));
    std::replace(plain.begin(), plain.end(), ',', '.');
    auto value = ReadDuration(plain, error);
    if (!value) *error = Concat("\"", text, "\" is no duration");
    return value;
  }
  Reader in(text);
  TemporalParts parts;
  const bool needs_date = type != Type::kTime && type != Type::kLocalTime;
  bool ok = true;
  if (needs_date) ok = ReadDate(&in, &parts.days);
  if (ok && type != Type::kDate) {
    // A date-time may leave out its time, and a time the T before it.
    const bool marked = in.Take('T') || in.Take('t');
    if (marked || !needs_date) ok = ReadTime(&in, &parts.nanos);
  }
  if (ok && (type == Type::kTime || type == Type::kDateTime)) ok = ReadZone(&in, &parts);
  if (!ok || !in.done()) {
    *error = Concat("\"", text, "\" is no ", TypeName(type));
    return std::nullopt;
  }
  if (parts.zone.offset_known && type == Type::kTime) parts.zone.name.clear();
  // Both tell which of two instants with the same local time it is.
  if (parts.zone.offset_known && !parts.zone.name.empty() &&
      OffsetAt(parts.LocalSeconds() - parts.zone.offset, parts.zone) != parts.zone.offset) {
    *error = Concat("\"", text, "\": ", parts.zone.name, " has another offset at that time");
    return std::nullopt;
  }
  return PutTogether(type, parts);
}

}  // namespace pulse::cypher
