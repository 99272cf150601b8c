// What took longer than a limit: the last commands of that kind, for SLOWLOG.
//
// A command's time is what it took to be carried out, without what it waited for its turn. Of
// commands that are carried out together each has an equal part.
//
// Threads: any. IsSlow costs a comparison; the lock is taken for slow commands, and by SLOWLOG.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/cycle_rate.h"

namespace pulse::redis {

class SlowLog {
 public:
  struct Entry {
    int64_t id = 0;
    int64_t seconds = 0;  // since 1970, when it was done
    int64_t micros = 0;   // that it took
    std::vector<std::string> arguments;
    std::string peer;
    std::string name;  // of the client

    size_t Bytes() const;
  };

  static constexpr int64_t kDefaultMicros = 10'000;
  static constexpr int64_t kDefaultLength = 128;
  // Old entries go beyond it, however many may be kept: of 32 arguments an entry takes some 6 KiB.
  static constexpr size_t kMostBytes = size_t{4} << 20;

  SlowLog() { SetLimit(kDefaultMicros); }

  // Whether so many cycles (base/clock.h) are at least the limit.
  bool IsSlow(uint64_t cycles) const {
    return cycles >= limit_cycles_.load(std::memory_order_relaxed);
  }
  // Long arguments, and what is behind the 31st, are cut, as Redis does it.
  void Add(const std::vector<std::string_view>& arguments, uint64_t cycles, std::string_view peer,
           std::string_view name);

  // The newest first.
  std::vector<Entry> Newest(size_t count) const;
  size_t size() const;
  void Clear();

  // Microseconds; 0 logs all, and a negative limit nothing.
  void SetLimit(int64_t micros);
  int64_t limit() const { return limit_micros_.load(std::memory_order_relaxed); }
  void SetLength(int64_t entries);
  int64_t length() const { return length_.load(std::memory_order_relaxed); }

 private:
  void DropOld();

  CycleRate rate_;
  std::atomic<uint64_t> limit_cycles_{~uint64_t{0}};
  std::atomic<int64_t> limit_micros_{-1};
  std::atomic<int64_t> length_{kDefaultLength};
  mutable std::mutex mutex_;
  int64_t next_id_ = 0;
  std::deque<Entry> entries_;  // the newest at the front
  size_t bytes_ = 0;           // of them
};

}  // namespace pulse::redis
