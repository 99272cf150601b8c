// ThreadWaits: counts, per thread of the host, waits and bytes, so that job_listener.cc can tell
// what a job of RocksDB's has waited for. Updated together with the session's counters: after a
// wait or when data is handed to the agent, never for a single block.
//
// A thread adds to its own counters only; any thread may read them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace pulse::lsm {

enum class Waited : size_t {
  kBackpressureWaits,
  kBackpressureNanos,
  kBarrierWaits,
  kBarrierNanos,
  kFetchWaits,
  kFetchNanos,
  kBytesPersisted,
  kBytesInline,
  kBytesFetched,
  kCount,
};
using WaitTotals = std::array<uint64_t, static_cast<size_t>(Waited::kCount)>;

class ThreadWaits {
 public:
  // The calling thread's. Its holder may read it after the thread has ended.
  static const std::shared_ptr<ThreadWaits>& Mine() {
    thread_local const std::shared_ptr<ThreadWaits> mine = std::make_shared<ThreadWaits>();
    return mine;
  }
  static void Add(Waited what, uint64_t n) {
    std::atomic<uint64_t>& total = Mine()->totals_[static_cast<size_t>(what)];
    total.store(total.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  WaitTotals Totals() const {
    WaitTotals out;
    for (size_t i = 0; i < out.size(); ++i) out[i] = totals_[i].load(std::memory_order_relaxed);
    return out;
  }

 private:
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Waited::kCount)> totals_{};
};

}  // namespace pulse::lsm
