// Column segments: some thousand values of one property as bytes, of their own frame. Integers are
// packed to the bits that they need above their minimum, floats are eight bytes, strings have
// packed lengths, everything else is encoded value by value; nulls are a bitmap. Edge properties in
// runs are made of them, and a store's nodes may be.
//
// A segment is self-contained: compaction copies it as it is. Pure; any thread; input is untrusted.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/graph/model/value.h"

namespace pulse::graph {

enum class ColumnKind : uint8_t { kNulls, kInts, kFloats, kStrings, kValues };

// What is known of a segment without reading it. min and max are of the values that are not null:
// for kInts the numbers, for kFloats the bits of doubles (NaN is left out; min > max: nothing but
// NaN); for others 0.
struct ColumnZone {
  ColumnKind kind = ColumnKind::kNulls;
  uint32_t count = 0;
  uint32_t nulls = 0;
  int64_t min = 0;
  int64_t max = 0;
};

// Append the segment's bytes to *out. `valid` is empty (all are) or has a byte for each value. At
// most 2^20 values. InvalidArgument for what is no stored value (value_codec.h).
ColumnZone EncodeInts(std::span<const int64_t> values, std::span<const uint8_t> valid,
                      std::string* out);
ColumnZone EncodeFloats(std::span<const double> values, std::span<const uint8_t> valid,
                        std::string* out);
absl::StatusOr<ColumnZone> EncodeValues(std::span<const cypher::Value> values, std::string* out);

class ColumnSegment {
 public:
  // `bytes` are those of one segment and outlive this; up to 8 bytes behind them can be read.
  // DataLoss where they are no segment of this zone's kind and count. `checked`: they were parsed
  // before, and what takes time by the values is not looked at again.
  static absl::StatusOr<ColumnSegment> Parse(absl::string_view bytes, const ColumnZone& zone,
                                             bool checked = false);

  ColumnKind kind() const { return kind_; }
  uint32_t count() const { return count_; }
  bool has_nulls() const { return nulls_ != nullptr; }
  bool IsNull(uint32_t i) const {
    return kind_ == ColumnKind::kNulls ||
           (nulls_ != nullptr && (static_cast<uint8_t>(nulls_[i / 8]) >> (i % 8) & 1) != 0);
  }
  // Of kInts and kFloats; of a null, what there is is not defined.
  int64_t Int(uint32_t i) const;
  double Float(uint32_t i) const;
  // The values [first, first + n).
  void ReadInts(uint32_t first, uint32_t n, int64_t* out) const;
  void ReadFloats(uint32_t first, uint32_t n, double* out) const;
  // 1: not null.
  void ReadValid(uint32_t first, uint32_t n, uint8_t* out) const;
  // Of any kind. DataLoss where bytes of kValues are no value.
  absl::Status ReadValue(uint32_t i, cypher::Value* out) const;

 private:
  // How many of the values before `i` are not null: their bytes are all that is stored.
  uint32_t Rank(uint32_t i) const;
  template <typename T>
  void Spread(uint32_t first, uint32_t n, uint32_t values, T* out) const;

  ColumnKind kind_ = ColumnKind::kNulls;
  uint32_t count_ = 0;
  int width_ = 0;  // bits of packed integers, or of ends of strings
  int64_t base_ = 0;
  const char* nulls_ = nullptr;  // 1: null
  const char* packed_ = nullptr;
  absl::string_view heap_;  // of strings and values
};

}  // namespace pulse::graph
