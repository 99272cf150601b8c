// The session's counters. Relaxed: they are read for people.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pulse::lsm {

struct AtomicCounters {
  std::atomic<uint64_t> files_persisted{0};
  std::atomic<uint64_t> bytes_persisted{0};
  std::atomic<uint64_t> backpressure_waits{0};
  std::atomic<uint64_t> backpressure_nanos{0};
  std::atomic<uint64_t> barrier_waits{0};
  std::atomic<uint64_t> barrier_nanos{0};
  std::atomic<uint64_t> bytes_fetched{0};
  std::atomic<uint64_t> fetch_waits{0};
  std::atomic<uint64_t> fetch_wait_nanos{0};
  std::atomic<uint64_t> fetch_misses{0};
  std::atomic<uint64_t> failovers{0};
  std::atomic<uint64_t> bytes_inline{0};
  std::atomic<uint64_t> reconnects{0};
  std::atomic<uint64_t> whole_compactions{0};
  std::atomic<uint64_t> whole_returned{0};
  std::atomic<uint64_t> agent_flushes{0};
  std::atomic<uint64_t> agent_flush_nanos{0};
  std::atomic<uint64_t> agent_compaction_nanos{0};
  std::atomic<uint64_t> agent_compression_nanos{0};
  std::atomic<uint64_t> agentless_nanos{0};  // of the gaps that have ended
};

// How long outputs took to be synced and closed, of the last few thousand. Guarded by
// HostSession::mu().
class SyncTimes {
 public:
  void Add(int64_t nanos) {
    if (times_.size() < kKept) {
      times_.push_back(nanos);
    } else {
      times_[count_ % kKept] = nanos;
    }
    ++count_;
    nanos_ += static_cast<uint64_t>(nanos);
  }
  uint64_t count() const { return count_; }
  uint64_t nanos() const { return nanos_; }
  int64_t Median() const {
    if (times_.empty()) return 0;
    std::vector<int64_t> sorted = times_;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  static constexpr size_t kKept = 4096;
  std::vector<int64_t> times_;
  uint64_t count_ = 0;
  uint64_t nanos_ = 0;
};

// How many outputs are open for writing, and for how long they were, summed over them: less their
// waits, that is how many threads merge. Guarded by HostSession::mu().
class OpenOutputs {
 public:
  void Begin(int64_t at) {
    ++now_;
    offset_ -= at;
  }
  void End(int64_t at) {
    --now_;
    offset_ += at;
  }
  uint64_t now() const { return now_; }
  uint64_t Nanos(int64_t at) const {
    return static_cast<uint64_t>(offset_ + static_cast<int64_t>(now_) * at);
  }

 private:
  uint64_t now_ = 0;
  int64_t offset_ = 0;
};

inline void Add(std::atomic<uint64_t>* counter, uint64_t n) {
  counter->fetch_add(n, std::memory_order_relaxed);
}

}  // namespace pulse::lsm
