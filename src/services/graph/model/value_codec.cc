#include "services/graph/model/value_codec.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "services/graph/model/point.h"

namespace pulse::cypher {
namespace {

// The first byte of a value. From kFirstSmall on, it is an integer from 0 on.
enum Tag : uint8_t {
  kTagNull = 0,
  kTagFalse = 1,
  kTagTrue = 2,
  kTagInt = 3,
  kTagFloat = 4,
  kTagString = 5,
  kTagList = 6,
  kTagMap = 7,
  kTagDate = 8,
  kTagLocalTime = 9,
  kTagTime = 10,
  kTagLocalDateTime = 11,
  kTagDateTime = 12,
  kTagDuration = 13,
  kTagBytes = 14,
  kTagPoint = 15,
  kFirstSmall = 48,
};
static_assert(kTagPoint < kFirstForeignTag && kLastForeignTag < kFirstSmall);
constexpr int64_t kSmallInts = 256 - kFirstSmall;

constexpr int64_t kNanosOfSecond = 1'000'000'000;
constexpr int64_t kNanosOfDay = 86'400 * kNanosOfSecond;

void AppendSigned(int64_t value, std::string* out) { AppendVarint(ZigZag(value), out); }

bool ReadSigned(std::string_view* in, int64_t* value) {
  uint64_t bits;
  if (!ReadVarint(in, &bits)) return false;
  *value = UnZigZag(bits);
  return true;
}

bool ReadSmall(std::string_view* in, int64_t low, int64_t high, int32_t* value) {
  int64_t wide;
  if (!ReadSigned(in, &wide) || wide < low || wide > high) return false;
  *value = static_cast<int32_t>(wide);
  return true;
}
bool ReadNanos(std::string_view* in, int32_t* nanos) {
  return ReadSmall(in, 0, kNanosOfSecond - 1, nanos);
}
bool ReadOffset(std::string_view* in, int32_t* offset) {
  return ReadSmall(in, -86'400, 86'400, offset);
}

bool ReadText(std::string_view* in, std::string_view* text) {
  uint64_t length;
  return ReadVarint(in, &length) && ReadBytes(in, length, text);
}

bool ReadTag(std::string_view* in, uint8_t* tag) {
  if (in->empty()) return false;
  *tag = static_cast<uint8_t>(in->front());
  in->remove_prefix(1);
  return true;
}

bool ReadAny(std::string_view* in, int depth, Value* value);

bool ReadList(std::string_view* in, int depth, Value* value) {
  uint64_t count;
  // Each element takes a byte at least.
  if (depth >= kMaxValueDepth || !ReadVarint(in, &count) || count > in->size()) return false;
  ValueList list(count);
  for (Value& v : list) {
    if (!ReadAny(in, depth + 1, &v)) return false;
  }
  *value = Value::List(std::move(list));
  return true;
}

bool ReadMap(std::string_view* in, int depth, Value* value) {
  uint64_t count;
  if (depth >= kMaxValueDepth || !ReadVarint(in, &count) || count > in->size()) return false;
  ValueMap map(count);
  for (auto& [key, v] : map) {
    std::string_view text;
    if (!ReadText(in, &text) || !ReadAny(in, depth + 1, &v)) return false;
    key = text;
  }
  *value = Value::Map(std::move(map));
  return true;
}

bool ReadDateTime(std::string_view* in, Value* value) {
  DateTime t;
  std::string_view zone;
  if (!ReadSigned(in, &t.seconds) || !ReadNanos(in, &t.nanos) || !ReadOffset(in, &t.offset) ||
      !ReadText(in, &zone)) {
    return false;
  }
  t.zone = zone;
  *value = Value::MakeDateTime(std::move(t));
  return true;
}

// The number of the system, and the coordinates that it has.
bool ReadPointBytes(std::string_view* in, Crs* crs, std::string_view* coordinates) {
  uint8_t number;
  if (!ReadTag(in, &number) || number > static_cast<uint8_t>(Crs::kWgs84In3d)) return false;
  *crs = static_cast<Crs>(number);
  return ReadBytes(in, DimensionsOf(*crs) * sizeof(double), coordinates);
}

bool ReadPoint(std::string_view* in, Value* value) {
  Point point;
  std::string_view bytes;
  if (!ReadPointBytes(in, &point.crs, &bytes)) return false;
  double coordinates[3] = {};
  std::memcpy(coordinates, bytes.data(), bytes.size());
  point.x = coordinates[0];
  point.y = coordinates[1];
  point.z = coordinates[2];
  return IsSound(point) && (*value = Value::MakePoint(point), true);
}

bool ReadAny(std::string_view* in, int depth, Value* value) {
  uint8_t tag;
  if (!ReadTag(in, &tag)) return false;
  if (tag >= kFirstSmall) return *value = Value::Int(tag - kFirstSmall), true;
  int64_t number;
  int32_t small;
  switch (tag) {
    case kTagNull:
      return *value = Value(), true;
    case kTagFalse:
    case kTagTrue:
      return *value = Value::Bool(tag == kTagTrue), true;
    case kTagInt:
      return ReadSigned(in, &number) && (*value = Value::Int(number), true);
    case kTagFloat: {
      std::string_view bytes;
      double d;
      if (!ReadBytes(in, sizeof(d), &bytes)) return false;
      std::memcpy(&d, bytes.data(), sizeof(d));
      return *value = Value::Float(d), true;
    }
    case kTagString: {
      std::string_view text;
      return ReadText(in, &text) && (*value = Value::String(text), true);
    }
    case kTagBytes: {
      std::string_view bytes;
      return ReadText(in, &bytes) && (*value = Value::MakeBytes(bytes), true);
    }
    case kTagPoint:
      return ReadPoint(in, value);
    case kTagList:
      return ReadList(in, depth, value);
    case kTagMap:
      return ReadMap(in, depth, value);
    case kTagDate:
      return ReadSigned(in, &number) && (*value = Value::Date(number), true);
    case kTagLocalTime:
      return ReadSigned(in, &number) && number >= 0 && number < kNanosOfDay &&
             (*value = Value::LocalTime(number), true);
    case kTagTime:
      return ReadSigned(in, &number) && number >= 0 && number < kNanosOfDay &&
             ReadOffset(in, &small) && (*value = Value::Time(number, small), true);
    case kTagLocalDateTime:
      return ReadSigned(in, &number) && ReadNanos(in, &small) &&
             (*value = Value::LocalDateTime(number, small), true);
    case kTagDateTime:
      return ReadDateTime(in, value);
    case kTagDuration: {
      Duration d;
      return ReadSigned(in, &d.months) && ReadSigned(in, &d.days) && ReadSigned(in, &d.seconds) &&
             ReadNanos(in, &d.nanos) && (*value = Value::MakeDuration(d), true);
    }
    default:
      return false;
  }
}

bool SkipVarints(std::string_view* in, int count) {
  uint64_t ignored;
  for (int i = 0; i < count; ++i) {
    if (!ReadVarint(in, &ignored)) return false;
  }
  return true;
}

bool SkipAny(std::string_view* in, int depth) {
  uint8_t tag;
  if (!ReadTag(in, &tag)) return false;
  if (tag >= kFirstSmall) return true;
  std::string_view bytes;
  uint64_t count;
  switch (tag) {
    case kTagNull:
    case kTagFalse:
    case kTagTrue:
      return true;
    case kTagInt:
    case kTagDate:
    case kTagLocalTime:
      return SkipVarints(in, 1);
    case kTagFloat:
      return ReadBytes(in, sizeof(double), &bytes);
    case kTagString:
    case kTagBytes:
      return ReadText(in, &bytes);
    case kTagPoint: {
      Crs crs;
      return ReadPointBytes(in, &crs, &bytes);
    }
    case kTagTime:
    case kTagLocalDateTime:
      return SkipVarints(in, 2);
    case kTagDateTime:
      return SkipVarints(in, 3) && ReadText(in, &bytes);
    case kTagDuration:
      return SkipVarints(in, 4);
    case kTagList:
    case kTagMap:
      if (depth >= kMaxValueDepth || !ReadVarint(in, &count) || count > in->size()) return false;
      for (uint64_t i = 0; i < count; ++i) {
        if (tag == kTagMap && !ReadText(in, &bytes)) return false;
        if (!SkipAny(in, depth + 1)) return false;
      }
      return true;
    default:
      return false;
  }
}

void AppendTag(Tag tag, std::string* out) { out->push_back(static_cast<char>(tag)); }

void AppendText(std::string_view text, std::string* out) {
  AppendVarint(text.size(), out);
  *out += text;
}

}  // namespace

void AppendVarint(uint64_t value, std::string* out) {
  char bytes[10];
  size_t n = 0;
  while (value >= 0x80) {
    bytes[n++] = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  bytes[n++] = static_cast<char>(value);
  out->append(bytes, n);
}

bool ReadVarint(std::string_view* in, uint64_t* value) {
  if (!in->empty() && (in->front() & 0x80) == 0) {
    *value = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    return true;
  }
  uint64_t result = 0;
  const size_t most = std::min<size_t>(in->size(), 10);
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint8_t>((*in)[i]);
    if (i == 9 && byte > 1) return false;
    result |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
    if ((byte & 0x80) == 0) {
      in->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}

bool ReadBytes(std::string_view* in, uint64_t length, std::string_view* bytes) {
  if (length > in->size()) return false;
  *bytes = in->substr(0, length);
  in->remove_prefix(length);
  return true;
}

bool IsStorable(const Value& value) {
  if (value.is_node() || value.is_edge() || value.is_path()) return false;
  if (value.is_list()) {
    return std::all_of(value.as_list().begin(), value.as_list().end(), IsStorable);
  }
  if (value.is_map()) {
    return std::all_of(value.as_map().begin(), value.as_map().end(),
                       [](const auto& entry) { return IsStorable(entry.second); });
  }
  return true;
}

void AppendValue(const Value& value, std::string* out) {
  switch (value.type()) {
    case Type::kNull:
      return AppendTag(kTagNull, out);
    case Type::kBool:
      return AppendTag(value.as_bool() ? kTagTrue : kTagFalse, out);
    case Type::kInt:
      if (value.as_int() >= 0 && value.as_int() < kSmallInts) {
        out->push_back(static_cast<char>(kFirstSmall + value.as_int()));
        return;
      }
      AppendTag(kTagInt, out);
      return AppendSigned(value.as_int(), out);
    case Type::kFloat: {
      AppendTag(kTagFloat, out);
      const double d = value.as_float();
      char bytes[sizeof(d)];
      std::memcpy(bytes, &d, sizeof(d));
      out->append(bytes, sizeof(d));
      return;
    }
    case Type::kString:
      AppendTag(kTagString, out);
      return AppendText(value.as_string(), out);
    case Type::kBytes:
      AppendTag(kTagBytes, out);
      return AppendText(value.as_bytes(), out);
    case Type::kPoint: {
      const Point& p = value.as_point();
      AppendTag(kTagPoint, out);
      out->push_back(static_cast<char>(p.crs));
      const double coordinates[3] = {p.x, p.y, p.z};
      char bytes[sizeof(coordinates)];
      std::memcpy(bytes, coordinates, sizeof(coordinates));
      out->append(bytes, DimensionsOf(p.crs) * sizeof(double));
      return;
    }
    case Type::kList:
      AppendTag(kTagList, out);
      AppendVarint(value.as_list().size(), out);
      for (const Value& v : value.as_list()) AppendValue(v, out);
      return;
    case Type::kMap:
      AppendTag(kTagMap, out);
      AppendVarint(value.as_map().size(), out);
      for (const auto& [key, v] : value.as_map()) {
        AppendText(key, out);
        AppendValue(v, out);
      }
      return;
    case Type::kDate:
      AppendTag(kTagDate, out);
      return AppendSigned(value.as_days(), out);
    case Type::kLocalTime:
      AppendTag(kTagLocalTime, out);
      return AppendSigned(value.as_nanos_of_day(), out);
    case Type::kTime:
      AppendTag(kTagTime, out);
      AppendSigned(value.as_nanos_of_day(), out);
      return AppendSigned(value.as_offset_or_nanos(), out);
    case Type::kLocalDateTime:
      AppendTag(kTagLocalDateTime, out);
      AppendSigned(value.as_local_seconds(), out);
      return AppendSigned(value.as_offset_or_nanos(), out);
    case Type::kDateTime: {
      const DateTime& t = value.as_datetime();
      AppendTag(kTagDateTime, out);
      AppendSigned(t.seconds, out);
      AppendSigned(t.nanos, out);
      AppendSigned(t.offset, out);
      return AppendText(t.zone, out);
    }
    case Type::kDuration: {
      const Duration& d = value.as_duration();
      AppendTag(kTagDuration, out);
      AppendSigned(d.months, out);
      AppendSigned(d.days, out);
      AppendSigned(d.seconds, out);
      return AppendSigned(d.nanos, out);
    }
    case Type::kNode:
    case Type::kEdge:
    case Type::kPath:
      break;
  }
  PULSE_CHECK(false, "a value that is no property");
}

bool ReadValue(std::string_view* in, Value* value) { return ReadAny(in, 0, value); }

bool SkipValue(std::string_view* in) { return SkipAny(in, 0); }

std::string_view FindKey(std::string_view entries, uint64_t key) {
  const char* at = entries.data();
  const char* const end = at + entries.size();
  const auto rest = [&] { return std::string_view(at, static_cast<size_t>(end - at)); };
  // What is short and frequent is read here, the rest by the functions above.
  const auto varint = [&](uint64_t* value) {
    if (at < end && (*at & 0x80) == 0) {
      *value = static_cast<uint8_t>(*at++);
      return true;
    }
    std::string_view in = rest();
    if (!ReadVarint(&in, value)) return false;
    at = in.data();
    return true;
  };
  const auto skip_varint = [&] {
    while (at < end && (*at & 0x80) != 0) ++at;
    if (at == end) return false;
    ++at;
    return true;
  };
  while (at < end) {
    uint64_t found, length;
    if (!varint(&found) || found > key) return {};
    if (found == key) return rest();
    if (at == end) return {};
    const auto tag = static_cast<uint8_t>(*at);
    if (tag >= kFirstSmall || tag <= kTagTrue) {
      ++at;
      continue;
    }
    bool skipped = true;
    switch (tag) {
      case kTagInt:
      case kTagDate:
      case kTagLocalTime:
        ++at;
        skipped = skip_varint();
        break;
      case kTagTime:
      case kTagLocalDateTime:
        ++at;
        skipped = skip_varint() && skip_varint();
        break;
      case kTagFloat:
        skipped = static_cast<size_t>(end - at) > sizeof(double);
        at += skipped ? 1 + sizeof(double) : 0;
        break;
      case kTagString:
      case kTagBytes:
        ++at;
        skipped = varint(&length) && length <= static_cast<size_t>(end - at);
        at += skipped ? length : 0;
        break;
      default: {
        std::string_view in = rest();
        skipped = SkipAny(&in, 0);
        at = in.data();
      }
    }
    if (!skipped) return {};
  }
  return {};
}

bool ReadInt(std::string_view* in, int64_t* value) {
  if (in->empty()) return false;
  const auto tag = static_cast<uint8_t>(in->front());
  if (tag >= kFirstSmall) {
    in->remove_prefix(1);
    *value = tag - kFirstSmall;
    return true;
  }
  if (tag != kTagInt) return false;
  std::string_view rest = in->substr(1);
  if (!ReadSigned(&rest, value)) return false;
  *in = rest;
  return true;
}

}  // namespace pulse::cypher
