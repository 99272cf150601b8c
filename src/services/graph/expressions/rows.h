// Rows of a query: arrays of slots. Operators push them in batches, and expressions are evaluated
// on them, one or many at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "services/graph/model/value.h"
#include "services/graph/syntax/ast.h"

namespace pulse::cypher {

// Batches of rows that caches hold; and of what is asked of the graph at once.
inline constexpr size_t kBatchRows = 256;
inline constexpr size_t kGraphBatch = 1024;

// Rows of one width, one after the other. Cleared rows keep their memory.
class Rows {
 public:
  explicit Rows(int width) : width_(static_cast<size_t>(width)) {}
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ >= kBatchRows; }
  Value* Row(size_t i) { return slots_.data() + i * width_; }
  const Value* data() const { return slots_.data(); }
  size_t width() const { return width_; }
  // A copy of `base` at the end. `base` is no row of this.
  Value* Add(const Value* base) {
    if ((count_ + 1) * width_ > slots_.size())
      slots_.resize(std::max<size_t>((count_ + 1) * 2, 4) * width_);
    Value* row = Row(count_++);
    for (size_t i = 0; i < width_; ++i) row[i] = base[i];
    return row;
  }
  // The same of some slots alone: in the others is what was there before.
  Value* Add(const Value* base, const std::vector<Slot>& slots) {
    if ((count_ + 1) * width_ > slots_.size())
      slots_.resize(std::max<size_t>((count_ + 1) * 2, 4) * width_);
    Value* row = Row(count_++);
    for (const Slot slot : slots) row[slot] = base[slot];
    return row;
  }
  // Moves row `from` to place `to`.
  void Move(size_t from, size_t to) {
    if (from == to) return;
    for (size_t i = 0; i < width_; ++i) Row(to)[i] = std::move(Row(from)[i]);
  }
  void Move(size_t from, size_t to, const std::vector<Slot>& slots) {
    if (from == to) return;
    for (const Slot slot : slots) Row(to)[slot] = std::move(Row(from)[slot]);
  }
  void Resize(size_t count) { count_ = count; }
  void clear() { count_ = 0; }
  // What it takes, cleared or not; without what the values refer to.
  size_t Held() const { return slots_.size() * sizeof(Value); }

 private:
  size_t width_;
  size_t count_ = 0;
  std::vector<Value> slots_;
};

}  // namespace pulse::cypher
