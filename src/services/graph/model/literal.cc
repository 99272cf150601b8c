#include "services/graph/model/literal.h"

#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

struct Constructor {
  std::string_view name;
  Type type;
};
constexpr Constructor kConstructors[] = {
    {"date", Type::kDate},         {"localtime", Type::kLocalTime},
    {"time", Type::kTime},         {"localdatetime", Type::kLocalDateTime},
    {"datetime", Type::kDateTime}, {"duration", Type::kDuration},
};

bool SameTemporal(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::kDate:
      return a.as_days() == b.as_days();
    case Type::kLocalTime:
      return a.as_nanos_of_day() == b.as_nanos_of_day();
    case Type::kTime:
      return a.as_nanos_of_day() == b.as_nanos_of_day() &&
             a.as_offset_or_nanos() == b.as_offset_or_nanos();
    case Type::kLocalDateTime:
      return a.as_local_seconds() == b.as_local_seconds() &&
             a.as_offset_or_nanos() == b.as_offset_or_nanos();
    case Type::kDateTime: {
      const DateTime &x = a.as_datetime(), &y = b.as_datetime();
      return x.seconds == y.seconds && x.nanos == y.nanos && x.offset == y.offset &&
             x.zone == y.zone;
    }
    default:
      return a.as_duration() == b.as_duration();
  }
}

// A date-time at an offset that its zone has not then, or of two times the second: the instant, the
// offset in seconds, the zone.
bool AppendInstant(const Value& value, std::string* out) {
  if (value.type() != Type::kDateTime) return false;
  const DateTime& whole = value.as_datetime();
  const auto text = ExactTemporalText(Value::MakeDateTime({whole.seconds, whole.nanos, 0, ""}));
  if (!text) return false;
  *out += Concat("datetime('", *text, "', ", whole.offset, ", ", QuotedText(whole.zone), ")");
  return true;
}

bool AppendLiteral(const Value& value, std::string* out) {
  switch (value.type()) {
    case Type::kNull:
      *out += "null";
      return true;
    case Type::kBool:
      *out += value.as_bool() ? "true" : "false";
      return true;
    case Type::kInt:
      *out += std::to_string(value.as_int());
      return true;
    case Type::kFloat:
      *out += FloatText(value.as_float());
      return true;
    case Type::kString:
      *out += QuotedText(value.as_string());
      return true;
    case Type::kBytes:
      *out += BytesText(value.as_bytes());
      return true;
    case Type::kPoint:
      *out += PointText(value.as_point());
      return true;
    case Type::kList: {
      *out += '[';
      bool first = true;
      for (const Value& item : value.as_list()) {
        if (!std::exchange(first, false)) *out += ", ";
        if (!AppendLiteral(item, out)) return false;
      }
      *out += ']';
      return true;
    }
    case Type::kMap: {
      *out += '{';
      bool first = true;
      for (const auto& [key, item] : value.as_map()) {
        if (!std::exchange(first, false)) *out += ", ";
        *out += NameText(key) + ": ";
        if (!AppendLiteral(item, out)) return false;
      }
      *out += '}';
      return true;
    }
    case Type::kNode:
    case Type::kEdge:
    case Type::kPath:
      return false;
    default:
      break;
  }
  const auto text = ExactTemporalText(value);
  if (!text) return AppendInstant(value, out);
  for (const Constructor& one : kConstructors) {
    if (one.type == value.type()) *out += Concat(one.name, "('", *text, "')");
  }
  return true;
}

class LiteralReader {
 public:
  LiteralReader(std::string_view text, std::string* error) : text_(text), error_(error) {}

  std::optional<Value> ReadAll() {
    auto value = Read(0);
    if (!value) return value;
    SkipSpace();
    if (at_ < text_.size()) return Fail("nothing may follow the value");
    return value;
  }

 private:
  std::nullopt_t Fail(std::string_view what) {
    if (error_->empty()) *error_ = Concat("at byte ", at_ + 1, ": ", what);
    return std::nullopt;
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view Word() {
    const size_t begin = at_;
    while (at_ < text_.size()) {
      size_t next = at_;
      if (!IsNamePart(NextCodePoint(text_, &next))) break;
      at_ = next;
    }
    return text_.substr(begin, at_ - begin);
  }

  std::optional<Value> Read(int depth) {
    if (depth >= kMaxValueDepth) return Fail("the value nests too deeply");
    SkipSpace();
    switch (Peek()) {
      case '\'':
      case '"': {
        std::string text;
        if (!ReadString(&text)) return std::nullopt;
        return Value::String(text);
      }
      case '[':
        return ReadList(depth);
      case '{':
        return ReadMap(depth);
      default:
        return ReadWordOrNumber(depth);
    }
  }

  bool ReadString(std::string* text) {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\') {
        if (at_ >= text_.size()) break;
        c = text_[at_++];
        c = c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
      }
      *text += c;
    }
    if (at_ >= text_.size()) {
      Fail("nothing closes the quote");
      return false;
    }
    ++at_;
    return true;
  }

  std::optional<Value> ReadList(int depth) {
    ++at_;
    ValueList list;
    if (Take(']')) return Value::List(std::move(list));
    do {
      auto item = Read(depth + 1);
      if (!item) return std::nullopt;
      list.push_back(*std::move(item));
    } while (Take(','));
    if (!Take(']')) return Fail("expected , or ]");
    return Value::List(std::move(list));
  }

  bool ReadKey(std::string* key) {
    SkipSpace();
    if (Peek() != '`') {
      *key = std::string(Word());
      if (key->empty()) Fail("expected a key");
      return !key->empty();
    }
    ++at_;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '`') {
        ++at_;
        if (Peek() != '`' || at_ >= text_.size()) return true;
      }
      *key += text_[at_];
    }
    Fail("nothing closes the quote");
    return false;
  }

  std::optional<Value> ReadMap(int depth) {
    ++at_;
    ValueMap map;
    if (Take('}')) return Value::Map(std::move(map));
    do {
      std::string key;
      if (!ReadKey(&key)) return std::nullopt;
      if (!Take(':')) return Fail("expected :");
      auto item = Read(depth + 1);
      if (!item) return std::nullopt;
      map.emplace_back(std::move(key), *std::move(item));
    } while (Take(','));
    if (!Take('}')) return Fail("expected , or }");
    return Value::Map(std::move(map));
  }

  std::optional<Value> ReadWordOrNumber(int depth) {
    const char c = Peek();
    if (c == '-' || (c >= '0' && c <= '9')) return ReadNumber();
    const size_t begin = at_;
    const std::string_view word = Word();
    if (word == "null") return Value();
    if (word == "true" || word == "false") return Value::Bool(word == "true");
    if (word == "NaN") return Value::Float(std::numeric_limits<double>::quiet_NaN());
    if (word == "Infinity") return Value::Float(std::numeric_limits<double>::infinity());
    if (word == "bytes") return ReadByteArray();
    if (word == "point") return ReadPoint(depth);
    for (const Constructor& one : kConstructors) {
      if (word != one.name) continue;
      std::string text, why;
      if (!ReadArgument(&text)) return std::nullopt;
      auto value = ParseTemporal(one.type, text, &why);
      if (!value) return Fail(why);
      if (one.type == Type::kDateTime && Take(',')) return ReadInstant(value->as_datetime());
      return Take(')') ? value : Fail("expected )");
    }
    at_ = begin;
    return Fail("expected a value");
  }

  // The text in quotes behind a bracket.
  bool ReadArgument(std::string* text) {
    const bool open = Take('(');
    SkipSpace();
    if (open && (Peek() == '\'' || Peek() == '"')) return ReadString(text);
    Fail(open ? "expected a text in quotes" : "expected (");
    return false;
  }

  std::optional<Value> ReadByteArray() {
    std::string text, bytes;
    if (!ReadArgument(&text)) return std::nullopt;
    if (!absl::Base64Unescape(text, &bytes)) return Fail("not base64");
    if (!Take(')')) return Fail("expected )");
    return Value::MakeBytes(bytes);
  }

  std::optional<Value> ReadPoint(int depth) {
    const bool open = Take('(');
    SkipSpace();
    if (!open || Peek() != '{') return Fail("expected ({");
    const auto map = ReadMap(depth);
    if (!map) return std::nullopt;
    std::string why;
    auto point = PointFromMap(map->as_map(), &why);
    if (!point) return Fail(why);
    if (point->is_null()) return Fail("a coordinate is null");
    return Take(')') ? point : Fail("expected )");
  }

  // Behind the first comma of AppendInstant's text.
  std::optional<Value> ReadInstant(DateTime whole) {
    constexpr int64_t kMostOffset = 18 * 3600;
    SkipSpace();
    const auto offset = ReadNumber();
    if (!offset) return std::nullopt;
    if (!offset->is_int() || offset->as_int() < -kMostOffset || offset->as_int() > kMostOffset) {
      return Fail("not an offset in seconds");
    }
    whole.offset = static_cast<int32_t>(offset->as_int());
    if (!Take(',')) return Fail("expected ,");
    SkipSpace();
    if (Peek() != '\'' && Peek() != '"') return Fail("expected a zone in quotes");
    whole.zone.clear();
    if (!ReadString(&whole.zone)) return std::nullopt;
    if (!whole.zone.empty() && !ParseZone(whole.zone)) return Fail("there is no such zone");
    if (!Take(')')) return Fail("expected )");
    return Value::MakeDateTime(std::move(whole));
  }

  std::optional<Value> ReadNumber() {
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    if (text_.substr(at_, 9) == "-Infinity") {
      at_ += 9;
      return Value::Float(-std::numeric_limits<double>::infinity());
    }
    size_t length = 1;
    while (at_ + length < text_.size() &&
           std::string_view("0123456789.eE+-").find(text_[at_ + length]) !=
               std::string_view::npos) {
      ++length;
    }
    const char* const stop = begin + length;
    int64_t number = 0;
    double real = 0;
    if (const auto [to, code] = std::from_chars(begin, end, number);
        code == std::errc() && to == stop) {
      at_ += length;
      return Value::Int(number);
    }
    if (text_.substr(at_, length).find_first_of(".eE") == std::string_view::npos) {
      return Fail("not an integer of 64 bits");
    }
    if (const auto [to, code] = std::from_chars(begin, end, real);
        code == std::errc() && to == stop) {
      at_ += length;
      return Value::Float(real);
    }
    return Fail("not a number");
  }

  const std::string_view text_;
  std::string* const error_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string> ExactTemporalText(const Value& value) {
  std::string text = TemporalText(value), ignored;
  const auto again = ParseTemporal(value.type(), text, &ignored);
  if (!again || !SameTemporal(value, *again)) return std::nullopt;
  return text;
}

std::optional<std::string> LiteralText(const Value& value) {
  std::string text;
  if (!AppendLiteral(value, &text)) return std::nullopt;
  return text;
}

std::optional<Value> ParseLiteral(std::string_view text, std::string* error) {
  error->clear();
  return LiteralReader(text, error).ReadAll();
}

}  // namespace pulse::cypher
