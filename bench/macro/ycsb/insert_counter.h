// Which records a key space has while several threads add to it (YCSB's acknowledged counter). A
// record may be read only once its insert, and those of all before it, have returned: who draws a
// number below acknowledged() finds the record there.
//
// Thread-safe. Take() and Acknowledge() hold a lock for a moment, acknowledged() never waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

namespace pulse::bench {

class InsertCounter {
 public:
  // Records [0, `present`) are there from the start.
  explicit InsertCounter(uint64_t present) : next_(present), acknowledged_(present) {}

  // The number of a new record, for the caller to insert.
  uint64_t Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    outstanding_.insert(outstanding_.end(), next_);
    return next_++;
  }

  // The insert of `number`, from Take(), has returned.
  void Acknowledge(uint64_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    outstanding_.erase(number);
    acknowledged_.store(outstanding_.empty() ? next_ : *outstanding_.begin(),
                        std::memory_order_release);
  }

  // Records [0, acknowledged()) can be read.
  uint64_t acknowledged() const { return acknowledged_.load(std::memory_order_acquire); }

 private:
  std::mutex mutex_;
  uint64_t next_;
  std::set<uint64_t> outstanding_;  // as many as there are threads at most
  std::atomic<uint64_t> acknowledged_;
};

}  // namespace pulse::bench
