#include "services/graph/runs/value_codec.h"

#include <cstring>

#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::DateTime;
using cypher::Duration;
using cypher::Type;
using cypher::Value;
using cypher::ValueList;
using cypher::ValueMap;

constexpr int64_t kNanos = 1'000'000'000;
constexpr int64_t kDayNanos = 86400 * kNanos;
constexpr int64_t kDaySeconds = 86400;

void AppendSigned(int64_t value, std::string* out) {
  AppendVarint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63), out);
}
bool ReadSigned(absl::string_view* in, int64_t* value) {
  uint64_t u = 0;
  if (!ReadVarint(in, &u)) return false;
  *value = static_cast<int64_t>(u >> 1 ^ (~(u & 1) + 1));
  return true;
}
// One in [least, most].
bool ReadWithin(absl::string_view* in, int64_t least, int64_t most, int64_t* value) {
  return ReadSigned(in, value) && *value >= least && *value <= most;
}

void AppendText(std::string_view text, std::string* out) {
  AppendVarint(text.size(), out);
  out->append(text);
}
bool ReadText(absl::string_view* in, std::string* text) {
  uint64_t size = 0;
  if (!ReadVarint(in, &size) || size > in->size()) return false;
  text->assign(in->data(), size);
  in->remove_prefix(size);
  return true;
}

bool Decode(absl::string_view* in, int depth, Value* value);

bool DecodeList(absl::string_view* in, int depth, Value* value) {
  uint64_t n = 0;
  if (!ReadVarint(in, &n) || n > in->size()) return false;
  ValueList list(n);
  for (Value& element : list) {
    if (!Decode(in, depth + 1, &element)) return false;
  }
  *value = Value::List(std::move(list));
  return true;
}

bool DecodeMap(absl::string_view* in, int depth, Value* value) {
  uint64_t n = 0;
  if (!ReadVarint(in, &n) || n > in->size() / 2) return false;
  ValueMap map(n);
  for (auto& [key, element] : map) {
    if (!ReadText(in, &key) || !Decode(in, depth + 1, &element)) return false;
  }
  *value = Value::Map(std::move(map));
  return true;
}

bool DecodeTemporal(Type type, absl::string_view* in, Value* value) {
  int64_t a = 0, b = 0, c = 0, d = 0;
  switch (type) {
    case Type::kDate:
      if (!ReadSigned(in, &a)) return false;
      *value = Value::Date(a);
      return true;
    case Type::kLocalTime:
      if (!ReadWithin(in, 0, kDayNanos - 1, &a)) return false;
      *value = Value::LocalTime(a);
      return true;
    case Type::kTime:
      if (!ReadWithin(in, 0, kDayNanos - 1, &a) || !ReadWithin(in, -kDaySeconds, kDaySeconds, &b)) {
        return false;
      }
      *value = Value::Time(a, static_cast<int32_t>(b));
      return true;
    case Type::kLocalDateTime:
      if (!ReadSigned(in, &a) || !ReadWithin(in, 0, kNanos - 1, &b)) return false;
      *value = Value::LocalDateTime(a, static_cast<int32_t>(b));
      return true;
    case Type::kDateTime: {
      DateTime time;
      if (!ReadSigned(in, &time.seconds) || !ReadWithin(in, 0, kNanos - 1, &a) ||
          !ReadWithin(in, -kDaySeconds, kDaySeconds, &b) || !ReadText(in, &time.zone)) {
        return false;
      }
      time.nanos = static_cast<int32_t>(a);
      time.offset = static_cast<int32_t>(b);
      *value = Value::MakeDateTime(std::move(time));
      return true;
    }
    default:  // kDuration
      if (!ReadSigned(in, &a) || !ReadSigned(in, &b) || !ReadSigned(in, &c) ||
          !ReadWithin(in, 0, kNanos - 1, &d)) {
        return false;
      }
      *value = Value::MakeDuration({a, b, c, static_cast<int32_t>(d)});
      return true;
  }
}

bool Decode(absl::string_view* in, int depth, Value* value) {
  if (in->empty() || depth > cypher::kMaxValueDepth) return false;
  const auto type = static_cast<Type>(static_cast<uint8_t>(in->front()));
  in->remove_prefix(1);
  switch (type) {
    case Type::kNull:
      *value = Value();
      return true;
    case Type::kBool: {
      if (in->empty() || static_cast<uint8_t>(in->front()) > 1) return false;
      *value = Value::Bool(in->front() != 0);
      in->remove_prefix(1);
      return true;
    }
    case Type::kInt: {
      int64_t number = 0;
      if (!ReadSigned(in, &number)) return false;
      *value = Value::Int(number);
      return true;
    }
    case Type::kFloat: {
      double number = 0;
      if (in->size() < sizeof(number)) return false;
      std::memcpy(&number, in->data(), sizeof(number));
      in->remove_prefix(sizeof(number));
      *value = Value::Float(number);
      return true;
    }
    case Type::kString: {
      uint64_t size = 0;
      if (!ReadVarint(in, &size) || size > in->size()) return false;
      *value = Value::String({in->data(), size});
      in->remove_prefix(size);
      return true;
    }
    case Type::kList:
      return DecodeList(in, depth, value);
    case Type::kMap:
      return DecodeMap(in, depth, value);
    case Type::kDate:
    case Type::kLocalTime:
    case Type::kTime:
    case Type::kLocalDateTime:
    case Type::kDateTime:
    case Type::kDuration:
      return DecodeTemporal(type, in, value);
    default:
      return false;
  }
}

}  // namespace

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 128; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}

bool ReadVarint(absl::string_view* in, uint64_t* value) {
  uint64_t result = 0;
  for (size_t i = 0; i < 10 && i < in->size(); ++i) {
    const auto byte = static_cast<uint8_t>((*in)[i]);
    if (i == 9 && byte > 1) return false;
    result |= uint64_t{byte & 127u} << (7 * i);
    if (byte < 128) {
      in->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}

absl::Status EncodeValue(const Value& value, std::string* out) {
  out->push_back(static_cast<char>(value.type()));
  switch (value.type()) {
    case Type::kNull:
      break;
    case Type::kBool:
      out->push_back(value.as_bool() ? 1 : 0);
      break;
    case Type::kInt:
      AppendSigned(value.as_int(), out);
      break;
    case Type::kFloat: {
      const double number = value.as_float();
      out->append(reinterpret_cast<const char*>(&number), sizeof(number));
      break;
    }
    case Type::kString:
      AppendText(value.as_string(), out);
      break;
    case Type::kList:
      AppendVarint(value.as_list().size(), out);
      for (const Value& element : value.as_list()) {
        if (absl::Status st = EncodeValue(element, out); !st.ok()) return st;
      }
      break;
    case Type::kMap:
      AppendVarint(value.as_map().size(), out);
      for (const auto& [key, element] : value.as_map()) {
        AppendText(key, out);
        if (absl::Status st = EncodeValue(element, out); !st.ok()) return st;
      }
      break;
    case Type::kDate:
      AppendSigned(value.as_days(), out);
      break;
    case Type::kLocalTime:
      AppendSigned(value.as_nanos_of_day(), out);
      break;
    case Type::kTime:
      AppendSigned(value.as_nanos_of_day(), out);
      AppendSigned(value.as_offset_or_nanos(), out);
      break;
    case Type::kLocalDateTime:
      AppendSigned(value.as_local_seconds(), out);
      AppendSigned(value.as_offset_or_nanos(), out);
      break;
    case Type::kDateTime: {
      const DateTime& time = value.as_datetime();
      AppendSigned(time.seconds, out);
      AppendSigned(time.nanos, out);
      AppendSigned(time.offset, out);
      AppendText(time.zone, out);
      break;
    }
    case Type::kDuration: {
      const Duration& d = value.as_duration();
      AppendSigned(d.months, out);
      AppendSigned(d.days, out);
      AppendSigned(d.seconds, out);
      AppendSigned(d.nanos, out);
      break;
    }
    default:
      return absl::InvalidArgumentError(cypher::Concat(
          "a value of type ", cypher::TypeName(value.type()), " cannot be stored as a property"));
  }
  return absl::OkStatus();
}

absl::Status DecodeValue(absl::string_view* in, Value* value) {
  absl::string_view rest = *in;
  if (!Decode(&rest, 0, value)) return absl::DataLossError("bytes that are no value");
  *in = rest;
  return absl::OkStatus();
}

}  // namespace pulse::graph
