#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "services/graph/library/arrow.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::graph {
namespace {

using cypher::Column;
using cypher::Concat;
using cypher::Value;

// Released at the end, unless it was before.
template <typename T>
struct Held {
  T value = {};
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (value.release != nullptr) value.release(&value);
  }
};

// Offset and zone of a date-time that Arrow has by its instant.
Value MakeInstant(int64_t seconds, int32_t nanos, const cypher::Zone& zone) {
  return Value::MakeDateTime({seconds, nanos, cypher::OffsetAt(seconds, zone), zone.name});
}

// The name of a type that no property has, for messages.
std::string TypeName(const std::string& format) {
  int precision = 0, scale = 0, bits = 128;
  if (std::sscanf(format.c_str(), "d:%d,%d,%d", &precision, &scale, &bits) >= 2) {
    return Concat("decimal", bits, "(", precision, ", ", scale, ")");
  }
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"+s", "struct"},          {"+m", "map"},
      {"+vl", "list_view"},      {"+vL", "large_list_view"},
      {"+r", "run_end_encoded"}, {"+ud", "dense_union"},
      {"+us", "sparse_union"}};
  for (const auto& [code, name] : kNames) {
    if (format.substr(0, format.find(':')) == code) return std::string(name);
  }
  return Concat("\"", format, "\"");
}

// The row that is read, and what was wrong first.
struct Place {
  std::string column;
  uint64_t row = 0;
  absl::Status status;
  std::string At() const { return Concat("column ", column, ", row ", row, ": "); }
};

// What a format says, once for a column.
class Reader {
 public:
  Reader(Place* place, const ArrowSchema& schema) : place_(place), format_(schema.format) {
    if (schema.dictionary != nullptr) {
      dictionary_ = std::make_unique<Reader>(place, *schema.dictionary);
      return;
    }
    const bool fixed = std::sscanf(format_.c_str(), "+w:%d", &fixed_) == 1;
    if ((format_ == "+l" || format_ == "+L" || fixed) && schema.n_children == 1) {
      child_ = std::make_unique<Reader>(place, *schema.children[0]);
      return;
    }
    if (format_ == "+s" && TakePoints(schema)) return;
    if (format_.size() >= 4 && format_.substr(0, 2) == "ts") {
      const std::string zone = format_.substr(4);
      if (!zone.empty()) {
        zone_ = cypher::ParseZone(zone == "UTC" || zone == "utc" ? "Z" : zone);
        if (!zone_) Refuse(Concat("the zone ", zone, " is not known here"));
      }
      return;
    }
    int precision = 0, scale = 0, bits = 128;
    if (std::sscanf(format_.c_str(), "d:%d,%d,%d", &precision, &scale, &bits) >= 2 && scale == 0 &&
        bits <= 128) {
      decimal_bits_ = bits;
      return;
    }
    if (std::sscanf(format_.c_str(), "w:%d", &width_) == 1 && width_ >= 0) return;
    static constexpr std::string_view kKnown[] = {
        "n",   "b",   "c",   "C",   "s",   "S",   "i",   "I",   "l",   "L",   "e",
        "f",   "g",   "u",   "U",   "vu",  "z",   "Z",   "vz",  "tdD", "tdm", "tts",
        "ttm", "ttu", "ttn", "tDs", "tDm", "tDu", "tDn", "tiM", "tiD", "tin"};
    if (std::find(std::begin(kKnown), std::end(kKnown), format_) != std::end(kKnown)) return;
    Refuse(Concat("no property can have the Arrow type ", TypeName(format_), "; cast it"));
  }

  Column::Kind kind() const {
    if (decimal_bits_ != 0) return Column::Kind::kInts;
    if (dictionary_ != nullptr || format_.size() != 1) return Column::Kind::kValues;
    if (std::strchr("cCsSiIlL", format_[0]) != nullptr) return Column::Kind::kInts;
    return std::strchr("efg", format_[0]) != nullptr ? Column::Kind::kFloats
                                                     : Column::Kind::kValues;
  }

  void Append(const ArrowArray& array, Column* out) {
    for (int64_t i = 0; i < array.length; ++i, ++place_->row) {
      const bool valid = IsValid(array, i);
      switch (out->kind) {
        case Column::Kind::kInts:
          out->ints.push_back(valid ? Int(array, i) : 0);
          out->valid.push_back(valid ? 1 : 0);
          break;
        case Column::Kind::kFloats:
          out->floats.push_back(valid ? Float(array, i) : 0);
          out->valid.push_back(valid ? 1 : 0);
          break;
        default:
          out->values.push_back(valid ? At(array, i) : Value());
      }
    }
  }

 private:
  // Whether a struct is one of points, as they are exported: srid, x, y, and z where some have it.
  bool TakePoints(const ArrowSchema& schema) {
    static constexpr std::string_view kNames[] = {"srid", "x", "y", "z"};
    for (int64_t i = 0; i < schema.n_children; ++i) {
      const ArrowSchema& child = *schema.children[i];
      const auto name = std::find(std::begin(kNames), std::end(kNames),
                                  std::string_view(child.name == nullptr ? "" : child.name));
      if (name == std::end(kNames)) return false;
      Part& part = parts_[name - std::begin(kNames)];
      part.place = i;
      part.reader = std::make_unique<Reader>(place_, child);
      if (part.reader->kind() == Column::Kind::kValues) return false;
    }
    return IsOfPoints();
  }
  bool IsOfPoints() const {
    return parts_[0].reader != nullptr && parts_[1].reader != nullptr &&
           parts_[2].reader != nullptr;
  }

  void Refuse(std::string_view why) {
    place_->status.Update(absl::InvalidArgumentError(Concat("column ", place_->column, ": ", why)));
  }

  bool IsValid(const ArrowArray& array, int64_t i) const {
    if (format_ == "n") return false;
    const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
    const int64_t at = i + array.offset;
    return array.null_count == 0 || bits == nullptr || ((bits[at / 8] >> (at % 8)) & 1) != 0;
  }

  template <typename T>
  static T At(const ArrowArray& array, int64_t i, int buffer = 1) {
    T value;
    std::memcpy(&value,
                static_cast<const char*>(array.buffers[buffer]) +
                    static_cast<size_t>(i + array.offset) * sizeof(T),
                sizeof(T));
    return value;
  }

  int64_t Int(const ArrowArray& array, int64_t i) {
    switch (format_[0]) {
      case 'c':
        return At<int8_t>(array, i);
      case 'C':
        return At<uint8_t>(array, i);
      case 's':
        return At<int16_t>(array, i);
      case 'S':
        return At<uint16_t>(array, i);
      case 'i':
        return At<int32_t>(array, i);
      case 'I':
        return At<uint32_t>(array, i);
      case 'L': {
        const auto value = At<uint64_t>(array, i);
        if (value > INT64_MAX) TooWide(std::to_string(value));
        return static_cast<int64_t>(value);
      }
      case 'd': {
        if (decimal_bits_ == 32) return At<int32_t>(array, i);
        if (decimal_bits_ == 64) return At<int64_t>(array, i);
        const auto value = At<__int128>(array, i);
        if (value != static_cast<int64_t>(value)) TooWide("a decimal");
        return static_cast<int64_t>(value);
      }
      default:
        return At<int64_t>(array, i);
    }
  }

  void TooWide(std::string_view what) {
    place_->status.Update(
        absl::OutOfRangeError(Concat(place_->At(), what, " is beyond 64 bits with a sign")));
  }

  double Float(const ArrowArray& array, int64_t i) const {
    if (format_ == "f") return At<float>(array, i);
    if (format_ == "g") return At<double>(array, i);
    const auto half = At<uint16_t>(array, i);
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(fraction + 1024, exponent - 25);
    return (half & 0x8000) != 0 ? -size : size;
  }

  Value At(const ArrowArray& array, int64_t i) {
    if (!IsValid(array, i)) return {};
    if (dictionary_ != nullptr) return dictionary_->At(*array.dictionary, Int(array, i));
    if (child_ != nullptr) return List(array, i);
    if (IsOfPoints()) return PointAt(array, i);
    switch (format_[0]) {
      case 'b': {
        const int64_t at = i + array.offset;
        return Value::Bool(
            ((static_cast<const uint8_t*>(array.buffers[1])[at / 8] >> (at % 8)) & 1) != 0);
      }
      case 'u':
      case 'z':
        return Text(array, At<int32_t>(array, i), At<int32_t>(array, i + 1));
      case 'U':
      case 'Z':
        return Text(array, At<int64_t>(array, i), At<int64_t>(array, i + 1));
      case 'v':
        return View(array, i);
      case 'w': {
        const auto size = static_cast<size_t>(width_);
        return Text(static_cast<const char*>(array.buffers[1]) +
                        static_cast<size_t>(i + array.offset) * size,
                    size);
      }
      case 'e':
      case 'f':
      case 'g':
        return Value::Float(Float(array, i));
      case 't':
        return Temporal(array, i);
      default:
        return Value::Int(Int(array, i));
    }
  }

  Value Text(const ArrowArray& array, int64_t begin, int64_t end) {
    return Text(static_cast<const char*>(array.buffers[2]) + begin,
                static_cast<size_t>(end - begin));
  }
  // Or bytes. An Arrow array may hold any of these as text.
  Value Text(const char* data, size_t size) {
    const std::string_view text(data, size);
    if (format_ != "u" && format_ != "U" && format_ != "vu") return Value::MakeBytes(text);
    if (cypher::IsUtf8(text)) return Value::String(text);
    place_->status.Update(cypher::RuntimeError(
        "ArgumentError", "InvalidUnicodeCharacter",
        Concat(place_->At(), "byte ", cypher::Utf8Length(text) + 1, " of the text is not UTF-8")));
    return {};
  }

  // 16 bytes: the length, and up to 12 bytes, or the first four, a buffer and an offset.
  Value View(const ArrowArray& array, int64_t i) {
    struct Cell {
      int32_t size;
      char text[4];
      int32_t buffer, offset;
    };
    const auto cell = At<Cell>(array, i);
    const auto size = static_cast<size_t>(cell.size);
    if (cell.size <= 12) {
      const char* at = static_cast<const char*>(array.buffers[1]) +
                       static_cast<size_t>(i + array.offset) * sizeof(Cell) + sizeof cell.size;
      return Text(at, size);
    }
    return Text(static_cast<const char*>(array.buffers[2 + cell.buffer]) + cell.offset, size);
  }

  Value List(const ArrowArray& array, int64_t i) {
    const auto bound = [&](int64_t at) -> int64_t {
      if (fixed_ >= 0) return (at + array.offset) * fixed_;
      return format_ == "+l" ? At<int32_t>(array, at) : At<int64_t>(array, at);
    };
    const int64_t begin = bound(i), end = bound(i + 1);
    cypher::ValueList list;
    for (int64_t at = begin; at < end; ++at) list.push_back(child_->At(*array.children[0], at));
    return Value::List(std::move(list));
  }

  Value PointAt(const ArrowArray& array, int64_t i) {
    const auto part = [&](const Part& p) {
      return p.reader == nullptr ? Value()
                                 : p.reader->At(*array.children[p.place], i + array.offset);
    };
    double coordinates[3] = {};
    size_t count = 0;
    for (; count < 3; ++count) {
      const Value value = part(parts_[count + 1]);
      if (value.is_null()) break;
      coordinates[count] = value.as_number();
    }
    std::string error;
    const Value srid = part(parts_[0]);
    const auto crs = cypher::CrsOfSrid(srid.is_int() ? srid.as_int() : 0, &error);
    auto point = crs ? cypher::PointOf(*crs, {coordinates, count}, &error) : std::nullopt;
    if (point) return *std::move(point);
    place_->status.Update(cypher::RuntimeError(
        "ArgumentError", "InvalidArgumentValue",
        Concat(place_->At(), "a struct of srid, x and y is a point: ", error)));
    return {};
  }

  Value Temporal(const ArrowArray& array, int64_t i) {
    if (format_ == "tdD") return Value::Date(At<int32_t>(array, i));
    if (format_ == "tdm") return Value::Date(cypher::FloorDiv(At<int64_t>(array, i), 86'400'000));
    if (format_[1] == 'i') return Interval(array, i);
    const int64_t parts = format_[2] == 's'   ? 1
                          : format_[2] == 'm' ? 1000
                          : format_[2] == 'u' ? 1'000'000
                                              : cypher::kNanosPerSecond;
    const bool narrow = format_[1] == 't' && parts <= 1000;
    const int64_t value = narrow ? At<int32_t>(array, i) : At<int64_t>(array, i);
    const int64_t seconds = cypher::FloorDiv(value, parts);
    const auto nanos =
        static_cast<int32_t>(cypher::FloorMod(value, parts) * (cypher::kNanosPerSecond / parts));
    if (format_[1] == 'D') {
      if (seconds <= cypher::kMostOfDuration && seconds >= -cypher::kMostOfDuration) {
        return Value::MakeDuration({0, 0, seconds, nanos});
      }
      place_->status.Update(absl::OutOfRangeError(Concat(place_->At(), "a duration is too long")));
      return {};
    }
    if (format_[1] == 't') {
      if (seconds >= 0 && seconds < cypher::kSecondsPerDay) {
        return Value::LocalTime(seconds * cypher::kNanosPerSecond + nanos);
      }
      place_->status.Update(
          absl::OutOfRangeError(Concat(place_->At(), "a time is beyond its day")));
      return {};
    }
    if (!cypher::IsSecond(seconds)) {
      place_->status.Update(absl::OutOfRangeError(
          Concat(place_->At(), "a timestamp is beyond the year ", cypher::kMaxYear)));
      return {};
    }
    return zone_ ? MakeInstant(seconds, nanos, *zone_) : Value::LocalDateTime(seconds, nanos);
  }

  Value Interval(const ArrowArray& array, int64_t i) const {
    if (format_ == "tiM") return Value::MakeDuration({At<int32_t>(array, i), 0, 0, 0});
    struct DayTime {
      int32_t days, millis;
    };
    struct Cell {
      int32_t months, days;
      int64_t nanos;
    } cell = {};
    if (format_ == "tiD") {
      const auto [days, millis] = At<DayTime>(array, i);
      cell = {0, days, millis * int64_t{1'000'000}};
    } else {
      cell = At<Cell>(array, i);
    }
    return Value::MakeDuration(
        {cell.months, cell.days, cypher::FloorDiv(cell.nanos, cypher::kNanosPerSecond),
         static_cast<int32_t>(cypher::FloorMod(cell.nanos, cypher::kNanosPerSecond))});
  }

  Place* const place_;
  const std::string format_;
  std::unique_ptr<Reader> dictionary_, child_;
  struct Part {
    int64_t place = 0;
    std::unique_ptr<Reader> reader;
  };
  Part parts_[4];  // of points: srid, x, y, z
  std::optional<cypher::Zone> zone_;
  int decimal_bits_ = 0;  // 0: another type
  int fixed_ = -1;        // the length of each list
  int width_ = 0;         // of fixed_size_binary
};

}  // namespace

absl::StatusOr<NamedColumns> ImportArrow(ArrowArrayStream* stream, uint64_t* rows,
                                         const Interrupted* interrupted, const ArrowCheck& check) {
  if (stream->release == nullptr) {
    return absl::InvalidArgumentError(
        "this Arrow stream was read already: it gives its rows once, so make another");
  }
  const auto failed = [stream] {
    const char* why = stream->get_last_error(stream);
    return absl::InternalError(why == nullptr ? "the Arrow stream failed" : why);
  };
  Held<ArrowSchema> schema;
  if (stream->get_schema(stream, &schema.value) != 0) return failed();
  if (std::string_view(schema.value.format) != "+s") {
    return absl::InvalidArgumentError("this Arrow stream is no table: it has no columns");
  }
  NamedColumns columns;
  std::deque<Place> places;  // which stay where they are
  std::vector<std::unique_ptr<Reader>> readers;
  for (int64_t i = 0; i < schema.value.n_children; ++i) {
    const ArrowSchema& child = *schema.value.children[i];
    const std::string name = child.name == nullptr ? "" : child.name;
    places.push_back({name, 0, {}});
    readers.push_back(std::make_unique<Reader>(&places.back(), child));
    PULSE_RETURN_IF_ERROR(places.back().status);
    columns.emplace_back(name, Column());
    columns.back().second.kind = readers.back()->kind();
  }
  if (check) PULSE_RETURN_IF_ERROR(check(columns, false));
  *rows = 0;
  for (;;) {
    PULSE_RETURN_IF_ERROR(CheckInterrupted(interrupted));
    Held<ArrowArray> batch;
    if (stream->get_next(stream, &batch.value) != 0) return failed();
    if (batch.value.release == nullptr) return columns;
    if (batch.value.n_children != schema.value.n_children) {
      return absl::InternalError("a batch of the Arrow stream has other columns than its schema");
    }
    const bool first = *rows == 0 && batch.value.length > 0;
    if (first && check) PULSE_RETURN_IF_ERROR(check(columns, true));
    *rows += static_cast<uint64_t>(batch.value.length);
    for (size_t i = 0; i < columns.size(); ++i) {
      ArrowArray child = *batch.value.children[i];
      // A slice of a struct moves those of its fields, too.
      child.offset += batch.value.offset;
      child.length = batch.value.length;
      readers[i]->Append(child, &columns[i].second);
      PULSE_RETURN_IF_ERROR(places[i].status);
    }
  }
}

}  // namespace pulse::graph
