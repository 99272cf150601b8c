// LoadMemory: what a load has in memory, by estimate, and the limit of it. Any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "services/graph/model/graph.h"
#include "services/graph/model/text.h"

namespace pulse::graph {

class LoadMemory {
 public:
  explicit LoadMemory(uint64_t limit, std::string hint = {})
      : limit_(limit), hint_(std::move(hint)) {}

  // ResourceExhausted beyond the limit.
  absl::Status Take(uint64_t bytes) {
    const uint64_t used = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    uint64_t most = most_.load(std::memory_order_relaxed);
    while (used > most && !most_.compare_exchange_weak(most, used, std::memory_order_relaxed)) {
    }
    if (limit_ == 0 || used <= limit_) return absl::OkStatus();
    return absl::ResourceExhaustedError(cypher::Concat("the load needs more than its limit of ",
                                                       limit_, " bytes of memory", hint_));
  }
  void Give(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t most() const { return most_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_;
  const std::string hint_;
  std::atomic<uint64_t> used_{0}, most_{0};
};

// A value and what it points to.
inline uint64_t MemoryOf(const cypher::Value& value) {
  constexpr uint64_t kBlock = 32;  // of the allocator, and a count of references
  uint64_t bytes = 0;
  if (value.is_string()) bytes = kBlock + value.as_string().size();
  if (value.is_bytes()) bytes = kBlock + value.as_bytes().size();
  if (value.is_list()) {
    bytes = kBlock;
    for (const cypher::Value& item : value.as_list()) bytes += MemoryOf(item);
  }
  return sizeof(cypher::Value) + bytes;
}

inline uint64_t MemoryOf(const cypher::Column& column) {
  uint64_t bytes = column.ints.capacity() * sizeof(int64_t) +
                   column.floats.capacity() * sizeof(double) + column.valid.capacity() +
                   (column.values.capacity() - column.values.size()) * sizeof(cypher::Value);
  for (const cypher::Value& value : column.values) bytes += MemoryOf(value);
  return bytes;
}

}  // namespace pulse::graph
