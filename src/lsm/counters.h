// The session's counters. Relaxed: they are read for people.
#pragma once

#include <atomic>
#include <cstdint>

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
  std::atomic<uint64_t> agentless_nanos{0};  // of the gaps that have ended
};

inline void Add(std::atomic<uint64_t>* counter, uint64_t n) {
  counter->fetch_add(n, std::memory_order_relaxed);
}

}  // namespace pulse::lsm
