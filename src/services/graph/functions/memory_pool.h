// The memory that all executions of a server may take together. Each takes its part in steps, and
// gives it back at its end at the latest.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace pulse::cypher {

class MemoryPool {
 public:
  // In bytes; 0: no limit.
  explicit MemoryPool(uint64_t limit) : limit_(static_cast<int64_t>(limit)) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // False, and nothing is taken: it would be more than the limit.
  bool Take(int64_t bytes) {
    int64_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (limit_ != 0 && taken + bytes > limit_) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    return true;
  }
  void Give(int64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }
  // What may be taken until half of the limit is: from there on who can do with less is to.
  int64_t RoomToHalf() const { return limit_ == 0 ? INT64_MAX / 2 : limit_ / 2 - taken(); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> taken_{0};
};

}  // namespace pulse::cypher
