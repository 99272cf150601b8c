#include "services/graph/bolt/packstream.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::bolt {
namespace {

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(cypher::Concat("PackStream: ", what));
}

class Reader {
 public:
  Reader(std::string_view bytes, const ReadLimits& limits) : bytes_(bytes), limits_(limits) {}

  absl::StatusOr<Message> Read() {
    Message message;
    uint8_t marker = 0, tag = 0;
    if (!Byte(&marker) || (marker & 0xF0) != 0xB0 || !Byte(&tag)) {
      return Malformed("a message is a structure");
    }
    message.tag = tag;
    for (int i = 0; i < (marker & 15); ++i) {
      if (!Field(&message.fields, 0)) return status_;
    }
    if (at_ != bytes_.size()) return Malformed("there is more behind the message's end");
    return message;
  }

 private:
  bool Fail(std::string_view what) {
    if (status_.ok()) status_ = Malformed(what);
    return false;
  }
  // The message is sound, but for a value that there is no type for.
  bool Unsupported(std::string_view what) {
    if (status_.ok()) status_ = absl::UnimplementedError(cypher::Absl(what));
    return false;
  }
  bool Short() { return Fail("the message ends within a value"); }
  bool Byte(uint8_t* out) {
    if (at_ == bytes_.size()) return false;
    *out = static_cast<uint8_t>(bytes_[at_++]);
    return true;
  }
  bool Number(int size, uint64_t* out) {
    if (bytes_.size() - at_ < static_cast<size_t>(size)) return Short();
    *out = 0;
    for (int i = 0; i < size; ++i) *out = *out << 8 | static_cast<uint8_t>(bytes_[at_++]);
    return true;
  }
  bool Signed(int size, Value* out) {
    uint64_t number = 0;
    if (!Number(size, &number)) return false;
    const int unused = 64 - 8 * size;
    *out = Value::Int(static_cast<int64_t>(number << unused) >> unused);
    return true;
  }
  bool Take(uint64_t size, std::string_view* out) {
    if (bytes_.size() - at_ < size) return Short();
    *out = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }
  bool Field(ValueList* list, int depth) {
    Value value;
    if (!ReadValue(depth, &value)) return false;
    list->push_back(std::move(value));
    return true;
  }

  bool ReadValue(int depth, Value* out) {
    uint8_t marker = 0;
    if (!Byte(&marker)) return Short();
    if (++values_ > limits_.values) return Fail("the message has too many values");
    if (marker < 0x80 || marker >= 0xF0) {
      *out = Value::Int(static_cast<int8_t>(marker));
      return true;
    }
    if (marker < 0x90) return String(marker & 15, out);
    if (marker < 0xA0) return List(marker & 15, depth, out);
    if (marker < 0xB0) return Map(marker & 15, depth, out);
    if (marker < 0xC0) return Structure(marker & 15, depth, out);
    return Sized(marker, depth, out);
  }

  bool Sized(uint8_t marker, int depth, Value* out) {
    uint64_t size = 0;
    switch (marker) {
      case 0xC0:
        *out = Value();
        return true;
      case 0xC1:
        if (!Number(8, &size)) return false;
        *out = Value::Float(std::bit_cast<double>(size));
        return true;
      case 0xC2:
      case 0xC3:
        *out = Value::Bool(marker == 0xC3);
        return true;
      case 0xC8:
      case 0xC9:
      case 0xCA:
      case 0xCB:
        return Signed(1 << (marker - 0xC8), out);
      case 0xCC:
      case 0xCD:
      case 0xCE:
        return Number(1 << (marker - 0xCC), &size) && ByteArray(size, out);
      case 0xD0:
      case 0xD1:
      case 0xD2:
        return Number(1 << (marker - 0xD0), &size) && String(size, out);
      case 0xD4:
      case 0xD5:
      case 0xD6:
        return Number(1 << (marker - 0xD4), &size) && List(size, depth, out);
      case 0xD8:
      case 0xD9:
      case 0xDA:
        return Number(1 << (marker - 0xD8), &size) && Map(size, depth, out);
      default:
        return Fail("an unknown marker");
    }
  }

  bool String(uint64_t size, Value* out) {
    std::string_view text;
    if (!Take(size, &text)) return false;
    if (!cypher::IsUtf8(text)) return Fail("a string is not UTF-8");
    *out = Value::String(text);
    return true;
  }

  bool ByteArray(uint64_t size, Value* out) {
    std::string_view bytes;
    if (!Take(size, &bytes)) return false;
    *out = Value::MakeBytes(bytes);
    return true;
  }

  // Whether there may be as many values as are said, before anything is set aside for them.
  bool Enter(uint64_t size, size_t least_bytes, int depth) {
    if (depth >= limits_.depth) return Fail("values nest too deeply");
    return size <= (bytes_.size() - at_) / least_bytes || Short();
  }

  bool List(uint64_t size, int depth, Value* out) {
    if (!Enter(size, 1, depth)) return false;
    ValueList list;
    for (uint64_t i = 0; i < size; ++i) {
      if (!Field(&list, depth + 1)) return false;
    }
    *out = Value::List(std::move(list));
    return true;
  }

  bool Map(uint64_t size, int depth, Value* out) {
    if (!Enter(size, 2, depth)) return false;
    ValueMap map;
    for (uint64_t i = 0; i < size; ++i) {
      Value key, value;
      if (!ReadValue(depth + 1, &key)) return false;
      if (!key.is_string()) return Fail("the key of a map is no string");
      if (!ReadValue(depth + 1, &value)) return false;
      map.emplace_back(key.as_string(), std::move(value));
    }
    *out = Value::Map(std::move(map));
    return true;
  }

  bool Structure(int size, int depth, Value* out) {
    uint8_t tag = 0;
    if (!Byte(&tag)) return Short();
    if (depth >= limits_.depth) return Fail("values nest too deeply");
    ValueList fields;
    for (int i = 0; i < size; ++i) {
      if (!Field(&fields, depth + 1)) return false;
    }
    return Build(static_cast<Tag>(tag), fields, out);
  }

  bool Build(Tag tag, const ValueList& fields, Value* out);
  static bool Duration(const ValueList& fields, Value* out);
  bool PointOf(const ValueList& fields, size_t dimensions, Value* out);
  // Whether these fields are integers, with an optional string behind them.
  static bool AreInts(const ValueList& fields, size_t ints, bool text) {
    if (fields.size() != ints + (text ? 1 : 0)) return false;
    for (size_t i = 0; i < ints; ++i) {
      if (!fields[i].is_int()) return false;
    }
    return !text || fields[ints].is_string();
  }

  const std::string_view bytes_;
  const ReadLimits limits_;
  size_t at_ = 0;
  size_t values_ = 0;
  absl::Status status_;
};

constexpr int64_t kMostOffset = 18 * 3600;

bool Within(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

bool Reader::Build(Tag tag, const ValueList& fields, Value* out) {
  const auto at = [&fields](size_t i) { return fields[i].as_int(); };
  const auto nanos_ok = [&](size_t i) { return Within(at(i), 0, cypher::kNanosPerSecond - 1); };
  const auto bad = [&] { return Unsupported("a date, time or duration that is out of range"); };
  switch (tag) {
    case Tag::kDate:
      if (!AreInts(fields, 1, false) || !cypher::IsDay(at(0))) return bad();
      *out = Value::Date(at(0));
      return true;
    case Tag::kTime:
      if (!AreInts(fields, 2, false) || !Within(at(0), 0, cypher::kNanosPerDay - 1) ||
          !Within(at(1), -kMostOffset, kMostOffset)) {
        return bad();
      }
      *out = Value::Time(at(0), static_cast<int32_t>(at(1)));
      return true;
    case Tag::kLocalTime:
      if (!AreInts(fields, 1, false) || !Within(at(0), 0, cypher::kNanosPerDay - 1)) return bad();
      *out = Value::LocalTime(at(0));
      return true;
    case Tag::kLocalDateTime:
      if (!AreInts(fields, 2, false) || !cypher::IsSecond(at(0)) || !nanos_ok(1)) {
        return bad();
      }
      *out = Value::LocalDateTime(at(0), static_cast<int32_t>(at(1)));
      return true;
    case Tag::kDateTime:
    case Tag::kDateTimeZoneId: {
      const bool named = tag == Tag::kDateTimeZoneId;
      if (!AreInts(fields, named ? 2 : 3, named) || !nanos_ok(1) ||
          (!named && !Within(at(2), -kMostOffset, kMostOffset)) ||
          !cypher::IsSecond(at(0), named ? 0 : at(2))) {
        return bad();
      }
      cypher::DateTime value;
      value.seconds = at(0);
      value.nanos = static_cast<int32_t>(at(1));
      if (named) {
        const auto zone = cypher::ParseZone(fields[2].as_string());
        if (!zone) return Unsupported("a time zone that is not known here");
        value.zone = zone->name;
        value.offset = cypher::OffsetAt(value.seconds, *zone);
      } else {
        value.offset = static_cast<int32_t>(at(2));
      }
      *out = Value::MakeDateTime(std::move(value));
      return true;
    }
    case Tag::kDuration:
      return Duration(fields, out) || bad();
    case Tag::kPoint2d:
      return PointOf(fields, 2, out);
    case Tag::kPoint3d:
      return PointOf(fields, 3, out);
    default:
      return Fail("a structure that cannot be a parameter");
  }
}

// The number of the system, and the coordinates.
bool Reader::PointOf(const ValueList& fields, size_t dimensions, Value* out) {
  const bool sound =
      fields.size() == dimensions + 1 && fields[0].is_int() &&
      std::all_of(fields.begin() + 1, fields.end(), [](const Value& v) { return v.is_number(); });
  if (!sound) return Unsupported("a point without a system or coordinates");
  double coordinates[3] = {};
  for (size_t i = 0; i < dimensions; ++i) coordinates[i] = fields[i + 1].as_number();
  std::string error;
  const auto crs = cypher::CrsOfSrid(fields[0].as_int(), &error);
  auto point = crs ? cypher::PointOf(*crs, {coordinates, dimensions}, &error) : std::nullopt;
  if (!point) return Unsupported(error);
  *out = *std::move(point);
  return true;
}

// Drivers give nanoseconds of either sign.
bool Reader::Duration(const ValueList& fields, Value* out) {
  if (!AreInts(fields, 4, false)) return false;
  const int64_t nanos = fields[3].as_int();
  int64_t seconds = 0;
  if (__builtin_add_overflow(fields[2].as_int(), cypher::FloorDiv(nanos, cypher::kNanosPerSecond),
                             &seconds)) {
    return false;
  }
  for (const int64_t part : {fields[0].as_int(), fields[1].as_int(), seconds}) {
    if (part > cypher::kMostOfDuration || part < -cypher::kMostOfDuration) return false;
  }
  *out =
      Value::MakeDuration({fields[0].as_int(), fields[1].as_int(), seconds,
                           static_cast<int32_t>(cypher::FloorMod(nanos, cypher::kNanosPerSecond))});
  return true;
}

}  // namespace

void PackWriter::Bytes(uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out_ += static_cast<char>(value >> shift);
  }
}

void PackWriter::Int(int64_t value) {
  if (value >= -16 && value < 128) {
    out_ += static_cast<char>(value);
    return;
  }
  int log = 0;  // of the bytes
  while (log < 3) {
    const int bits = 8 << log;
    if (value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1)) break;
    ++log;
  }
  out_ += static_cast<char>(0xC8 + log);
  Bytes(static_cast<uint64_t>(value), 1 << log);
}

void PackWriter::Float(double value) {
  out_ += '\xC1';
  Bytes(std::bit_cast<uint64_t>(value), 8);
}

void PackWriter::String(std::string_view text) {
  Header(text.size(), 0x80, 0xD0, 0xD1, 0xD2);
  out_ += text;
}

void PackWriter::ByteArray(std::string_view bytes) {
  const int log = bytes.size() < 0x100 ? 0 : bytes.size() < 0x10000 ? 1 : 2;
  out_ += static_cast<char>(0xCC + log);
  Bytes(bytes.size(), 1 << log);
  out_ += bytes;
}

void PackWriter::StructHeader(uint8_t tag, size_t fields) {
  out_ += static_cast<char>(0xB0 + fields);
  out_ += static_cast<char>(tag);
}

void PackWriter::Header(size_t size, int tiny, int small, int medium, int large) {
  if (size < 16) {
    out_ += static_cast<char>(tiny + static_cast<int>(size));
  } else if (size < 0x100) {
    out_ += static_cast<char>(small);
    Bytes(size, 1);
  } else if (size < 0x10000) {
    out_ += static_cast<char>(medium);
    Bytes(size, 2);
  } else {
    out_ += static_cast<char>(large);
    Bytes(size, 4);
  }
}

absl::StatusOr<Message> ReadMessage(std::string_view bytes, const ReadLimits& limits) {
  return Reader(bytes, limits).Read();
}

}  // namespace pulse::bolt
