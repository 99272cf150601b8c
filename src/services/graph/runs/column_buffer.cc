#include "services/graph/runs/run_writer.h"

namespace pulse::graph {

using cypher::Type;
using cypher::Value;

void ColumnBuffer::AppendValid(std::span<const uint8_t> valid, size_t n) {
  if (valid.empty()) {
    valid_.resize(valid_.size() + n, 1);
    return;
  }
  for (const uint8_t v : valid) nulls_ = nulls_ || v == 0;
  valid_.insert(valid_.end(), valid.begin(), valid.end());
}

void ColumnBuffer::BecomeInts() {
  if (mode_ != Mode::kNulls) return;
  mode_ = Mode::kInts;
  ints_.assign(size_, 0);
}

void ColumnBuffer::BecomeFloats() {
  if (mode_ != Mode::kNulls) return;
  mode_ = Mode::kFloats;
  floats_.assign(size_, 0);
}

void ColumnBuffer::BecomeValues() {
  if (mode_ == Mode::kValues) return;
  values_.clear();
  values_.resize(size_);
  for (size_t i = 0; i < size_; ++i) {
    if (valid_[i] == 0) continue;
    values_[i] = mode_ == Mode::kInts ? Value::Int(ints_[i]) : Value::Float(floats_[i]);
  }
  mode_ = Mode::kValues;
  ints_.clear();
  floats_.clear();
}

void ColumnBuffer::AppendInts(std::span<const int64_t> values, std::span<const uint8_t> valid) {
  BecomeInts();
  if (mode_ == Mode::kInts) {
    ints_.insert(ints_.end(), values.begin(), values.end());
  } else {
    BecomeValues();
    for (size_t i = 0; i < values.size(); ++i) {
      values_.push_back(valid.empty() || valid[i] != 0 ? Value::Int(values[i]) : Value());
    }
  }
  AppendValid(valid, values.size());
  size_ += values.size();
}

void ColumnBuffer::AppendFloats(std::span<const double> values, std::span<const uint8_t> valid) {
  BecomeFloats();
  if (mode_ == Mode::kFloats) {
    floats_.insert(floats_.end(), values.begin(), values.end());
  } else {
    BecomeValues();
    for (size_t i = 0; i < values.size(); ++i) {
      values_.push_back(valid.empty() || valid[i] != 0 ? Value::Float(values[i]) : Value());
    }
  }
  AppendValid(valid, values.size());
  size_ += values.size();
}

void ColumnBuffer::AppendValue(const Value& value) {
  if (value.is_null()) return AppendNulls(1);
  if (value.is_int() && mode_ != Mode::kValues && mode_ != Mode::kFloats) {
    const int64_t number = value.as_int();
    return AppendInts({&number, 1}, {});
  }
  if (value.is_float() && mode_ != Mode::kValues && mode_ != Mode::kInts) {
    const double number = value.as_float();
    return AppendFloats({&number, 1}, {});
  }
  BecomeValues();
  values_.push_back(value);
  valid_.push_back(1);
  ++size_;
}

void ColumnBuffer::AppendNulls(size_t n) {
  if (n == 0) return;
  size_ += n;
  nulls_ = true;
  valid_.resize(size_, 0);
  if (mode_ == Mode::kInts) ints_.resize(size_, 0);
  if (mode_ == Mode::kFloats) floats_.resize(size_, 0);
  if (mode_ == Mode::kValues) values_.resize(size_);
}

absl::StatusOr<ColumnZone> ColumnBuffer::Encode(std::string* out) {
  const std::span<const uint8_t> valid =
      nulls_ ? std::span<const uint8_t>(valid_) : std::span<const uint8_t>();
  absl::StatusOr<ColumnZone> zone = ColumnZone{};
  switch (mode_) {
    case Mode::kNulls:
      zone->count = static_cast<uint32_t>(size_);
      zone->nulls = zone->count;
      break;
    case Mode::kInts:
      zone = EncodeInts(ints_, valid, out);
      break;
    case Mode::kFloats:
      zone = EncodeFloats(floats_, valid, out);
      break;
    case Mode::kValues:
      zone = EncodeValues(values_, out);
      break;
  }
  mode_ = Mode::kNulls;
  size_ = 0;
  nulls_ = false;
  valid_.clear();
  ints_.clear();
  floats_.clear();
  values_.clear();
  return zone;
}

}  // namespace pulse::graph
