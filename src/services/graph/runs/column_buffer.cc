#include <algorithm>

#include "services/graph/runs/run_writer.h"

namespace pulse::graph {

using cypher::Type;
using cypher::Value;

namespace {

// As in a segment, about.
size_t SizeOf(const Value& value) {
  size_t bytes = 0;
  switch (value.type()) {
    case Type::kString:
      return value.as_string().size();
    case Type::kBytes:
      return value.as_bytes().size();
    case Type::kList:
      for (const Value& item : value.as_list()) bytes += 2 + SizeOf(item);
      return bytes;
    case Type::kMap:
      for (const auto& [key, item] : value.as_map()) bytes += key.size() + 2 + SizeOf(item);
      return bytes;
    default:
      return 8;
  }
}

template <typename T>
void DropFirst(size_t n, std::vector<T>* from) {
  from->erase(from->begin(),
              from->begin() + static_cast<std::ptrdiff_t>(std::min(n, from->size())));
}

}  // namespace

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
  bytes_ += SizeOf(value);
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

absl::StatusOr<ColumnZone> ColumnBuffer::Encode(size_t n, std::string* out) {
  const std::span<const uint8_t> valid =
      nulls_ ? std::span<const uint8_t>(valid_).first(n) : std::span<const uint8_t>();
  absl::StatusOr<ColumnZone> zone = ColumnZone{};
  switch (mode_) {
    case Mode::kNulls:
      zone->count = static_cast<uint32_t>(n);
      zone->nulls = zone->count;
      break;
    case Mode::kInts:
      zone = EncodeInts(std::span(ints_).first(n), valid, out);
      break;
    case Mode::kFloats:
      zone = EncodeFloats(std::span(floats_).first(n), valid, out);
      break;
    case Mode::kValues:
      zone = EncodeValues(std::span(values_).first(n), out);
      break;
  }
  DropFirst(n, &valid_);
  DropFirst(n, &ints_);
  DropFirst(n, &floats_);
  DropFirst(n, &values_);
  size_ -= n;
  nulls_ = std::find(valid_.begin(), valid_.end(), 0) != valid_.end();
  bytes_ = 0;
  for (const Value& value : values_) bytes_ += SizeOf(value);
  // What is left begins anew only where it is nothing.
  if (size_ == 0) mode_ = Mode::kNulls;
  return zone;
}

}  // namespace pulse::graph
