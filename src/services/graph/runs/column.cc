#include "services/graph/runs/column.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "services/graph/runs/bits.h"
#include "services/graph/runs/value_codec.h"

namespace pulse::graph {
namespace {

using cypher::Type;
using cypher::Value;

constexpr uint32_t kMaxCount = uint32_t{1} << 20;

int64_t BitsOf(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

bool IsValid(std::span<const uint8_t> valid, size_t i) { return valid.empty() || valid[i] != 0; }

// Count and nulls; kNulls where there is nothing else, and then there are no bytes.
ColumnZone StartZone(ColumnKind kind, size_t count, std::span<const uint8_t> valid) {
  ColumnZone zone;
  zone.count = static_cast<uint32_t>(count);
  zone.nulls = static_cast<uint32_t>(std::count(valid.begin(), valid.end(), uint8_t{0}));
  zone.kind = zone.nulls == zone.count ? ColumnKind::kNulls : kind;
  return zone;
}

void AppendNulls(const ColumnZone& zone, std::span<const uint8_t> valid, std::string* out) {
  if (zone.nulls == 0) return;
  const size_t begin = out->size();
  out->resize(begin + (valid.size() + 7) / 8);
  for (size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == 0) {
      char& byte = (*out)[begin + i / 8];
      byte = static_cast<char>(byte | 1 << (i % 8));
    }
  }
}

absl::StatusOr<ColumnZone> EncodeHeap(std::span<const Value> values, std::span<const uint8_t> valid,
                                      ColumnKind kind, std::string* out) {
  const ColumnZone zone = StartZone(kind, values.size(), valid);
  std::string heap;
  std::vector<uint64_t> ends;
  ends.reserve(values.size());
  for (const Value& value : values) {
    if (value.is_null()) continue;
    if (kind == ColumnKind::kStrings) {
      heap += value.as_string();
    } else if (absl::Status st = EncodeValue(value, &heap); !st.ok()) {
      return st;
    }
    ends.push_back(heap.size());
  }
  const int width = BitsFor(heap.size());
  out->push_back(static_cast<char>(width));
  AppendNulls(zone, valid, out);
  PackBits(
      ends.size(), width, [&](size_t i) { return ends[i]; }, out);
  out->append(heap);
  return zone;
}

}  // namespace

ColumnZone EncodeInts(std::span<const int64_t> values, std::span<const uint8_t> valid,
                      std::string* out) {
  ColumnZone zone = StartZone(ColumnKind::kInts, values.size(), valid);
  if (zone.kind == ColumnKind::kNulls) return zone;
  zone.min = std::numeric_limits<int64_t>::max();
  zone.max = std::numeric_limits<int64_t>::min();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsValid(valid, i)) continue;
    zone.min = std::min(zone.min, values[i]);
    zone.max = std::max(zone.max, values[i]);
  }
  const auto base = static_cast<uint64_t>(zone.min);
  const int width = BitsFor(static_cast<uint64_t>(zone.max) - base);
  out->push_back(static_cast<char>(width));
  out->append(reinterpret_cast<const char*>(&zone.min), sizeof(zone.min));
  AppendNulls(zone, valid, out);
  if (zone.nulls == 0) {
    PackBits(
        values.size(), width, [&](size_t i) { return static_cast<uint64_t>(values[i]) - base; },
        out);
    return zone;
  }
  std::vector<uint64_t> there;
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsValid(valid, i)) there.push_back(static_cast<uint64_t>(values[i]) - base);
  }
  PackBits(
      there.size(), width, [&](size_t i) { return there[i]; }, out);
  return zone;
}

ColumnZone EncodeFloats(std::span<const double> values, std::span<const uint8_t> valid,
                        std::string* out) {
  ColumnZone zone = StartZone(ColumnKind::kFloats, values.size(), valid);
  if (zone.kind == ColumnKind::kNulls) return zone;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsValid(valid, i) || std::isnan(values[i])) continue;
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
  }
  zone.min = BitsOf(least);
  zone.max = BitsOf(most);
  AppendNulls(zone, valid, out);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsValid(valid, i)) continue;
    out->append(reinterpret_cast<const char*>(&values[i]), sizeof(double));
  }
  return zone;
}

absl::StatusOr<ColumnZone> EncodeValues(std::span<const Value> values, std::string* out) {
  std::vector<uint8_t> valid(values.size());
  Type type = Type::kNull;
  bool mixed = false;
  for (size_t i = 0; i < values.size(); ++i) {
    valid[i] = values[i].is_null() ? 0 : 1;
    if (valid[i] == 0) continue;
    mixed = mixed || (type != Type::kNull && type != values[i].type());
    type = values[i].type();
  }
  if (type == Type::kNull) return StartZone(ColumnKind::kNulls, values.size(), valid);
  if (!mixed && type == Type::kInt) {
    std::vector<int64_t> ints(values.size());
    for (size_t i = 0; i < ints.size(); ++i) ints[i] = valid[i] != 0 ? values[i].as_int() : 0;
    return EncodeInts(ints, valid, out);
  }
  if (!mixed && type == Type::kFloat) {
    std::vector<double> floats(values.size());
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = valid[i] != 0 ? values[i].as_float() : 0;
    return EncodeFloats(floats, valid, out);
  }
  const bool strings = !mixed && type == Type::kString;
  return EncodeHeap(values, valid, strings ? ColumnKind::kStrings : ColumnKind::kValues, out);
}

absl::StatusOr<ColumnSegment> ColumnSegment::Parse(absl::string_view bytes, const ColumnZone& zone,
                                                   bool checked) {
  const auto bad = [] { return absl::DataLossError("a column's segment has a form that is none"); };
  if (zone.count > kMaxCount || zone.nulls > zone.count) return bad();
  ColumnSegment segment;
  segment.kind_ = zone.kind;
  segment.count_ = zone.count;
  if (zone.kind == ColumnKind::kNulls) {
    if (!bytes.empty() || zone.nulls != zone.count) return bad();
    return segment;
  }
  const auto take = [&bytes](size_t n) -> const char* {
    if (bytes.size() < n) return nullptr;
    const char* at = bytes.data();
    bytes.remove_prefix(n);
    return at;
  };
  const bool has_width = zone.kind != ColumnKind::kFloats;
  if (has_width) {
    const char* at = take(1);
    if (at == nullptr) return bad();
    segment.width_ = static_cast<uint8_t>(*at);
    if (segment.width_ > 64 || (segment.width_ > 56 && segment.width_ < 64)) return bad();
  }
  if (zone.kind == ColumnKind::kInts) {
    const char* at = take(sizeof(int64_t));
    if (at == nullptr) return bad();
    std::memcpy(&segment.base_, at, sizeof(int64_t));
  }
  if (zone.nulls > 0) {
    segment.nulls_ = take((zone.count + 7) / 8);
    if (segment.nulls_ == nullptr) return bad();
    if (!checked && zone.count - segment.Rank(zone.count) != zone.nulls) return bad();
  }
  // Values that are there.
  const uint32_t values = zone.count - zone.nulls;
  switch (zone.kind) {
    case ColumnKind::kInts:
      segment.packed_ = take(PackedBytes(values, segment.width_));
      break;
    case ColumnKind::kFloats:
      segment.packed_ = take(uint64_t{values} * sizeof(double));
      break;
    case ColumnKind::kStrings:
    case ColumnKind::kValues: {
      segment.packed_ = take(PackedBytes(values, segment.width_));
      if (segment.packed_ == nullptr) return bad();
      segment.heap_ = bytes;
      if (checked) return segment;
      uint64_t before = 0;
      for (uint32_t i = 0; i < values; ++i) {
        const uint64_t end = BitsAt(segment.packed_, segment.width_, i);
        if (end < before) return bad();
        before = end;
      }
      if (before != bytes.size()) return bad();
      return segment;
    }
    default:
      return bad();
  }
  if (segment.packed_ == nullptr || !bytes.empty()) return bad();
  return segment;
}

uint32_t ColumnSegment::Rank(uint32_t i) const {
  if (nulls_ == nullptr) return i;
  uint32_t nulls = 0, at = 0;
  for (; at + 64 <= i; at += 64) {
    nulls += static_cast<uint32_t>(__builtin_popcountll(LoadWord(nulls_ + at / 8)));
  }
  if (at < i) {
    const uint64_t word = LoadWord(nulls_ + at / 8) & LowBits(static_cast<int>(i - at));
    nulls += static_cast<uint32_t>(__builtin_popcountll(word));
  }
  return i - nulls;
}

int64_t ColumnSegment::Int(uint32_t i) const {
  return static_cast<int64_t>(static_cast<uint64_t>(base_) + BitsAt(packed_, width_, Rank(i)));
}

double ColumnSegment::Float(uint32_t i) const {
  double value;
  std::memcpy(&value, packed_ + uint64_t{Rank(i)} * sizeof(value), sizeof(value));
  return value;
}

// The first `values` of `n` are there, in their order: each goes to its place.
template <typename T>
void ColumnSegment::Spread(uint32_t first, uint32_t n, uint32_t values, T* out) const {
  for (uint32_t i = n; values < i;) {
    --i;
    out[i] = IsNull(first + i) ? T{} : out[--values];
  }
}

void ColumnSegment::ReadInts(uint32_t first, uint32_t n, int64_t* out) const {
  const uint32_t from = Rank(first), values = Rank(first + n) - from;
  UnpackBits(packed_, width_, from, values, static_cast<uint64_t>(base_),
             reinterpret_cast<uint64_t*>(out));
  Spread(first, n, values, out);
}

void ColumnSegment::ReadFloats(uint32_t first, uint32_t n, double* out) const {
  const uint32_t from = Rank(first), values = Rank(first + n) - from;
  std::memcpy(out, packed_ + uint64_t{from} * sizeof(double), values * sizeof(double));
  Spread(first, n, values, out);
}

void ColumnSegment::ReadValid(uint32_t first, uint32_t n, uint8_t* out) const {
  if (kind_ == ColumnKind::kNulls || nulls_ == nullptr) {
    std::memset(out, kind_ == ColumnKind::kNulls ? 0 : 1, n);
    return;
  }
  for (uint32_t i = 0; i < n; ++i) out[i] = IsNull(first + i) ? 0 : 1;
}

absl::Status ColumnSegment::ReadValue(uint32_t i, Value* out) const {
  if (IsNull(i)) {
    *out = Value();
    return absl::OkStatus();
  }
  if (kind_ == ColumnKind::kInts) {
    *out = Value::Int(Int(i));
    return absl::OkStatus();
  }
  if (kind_ == ColumnKind::kFloats) {
    *out = Value::Float(Float(i));
    return absl::OkStatus();
  }
  const uint32_t at = Rank(i);
  const uint64_t begin = at == 0 ? 0 : BitsAt(packed_, width_, at - 1);
  absl::string_view bytes = heap_.substr(begin, BitsAt(packed_, width_, at) - begin);
  if (kind_ == ColumnKind::kStrings) {
    *out = Value::String({bytes.data(), bytes.size()});
    return absl::OkStatus();
  }
  absl::Status status = DecodeValue(&bytes, out);
  if (status.ok() && !bytes.empty()) return absl::DataLossError("bytes behind a value");
  return status;
}

}  // namespace pulse::graph
