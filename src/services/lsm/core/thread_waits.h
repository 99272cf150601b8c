// What a thread of the host has waited for and moved, so that a job of RocksDB's can be told what
// it cost (job_listener.cc). Counted beside the session's counters, where a thread has waited or
// handed over a piece: never for a single block.
//
// A thread adds to its own alone; any thread may read.
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
  // The calling thread's; whoever holds it may read it when the thread has ended.
  static const std::shared_ptr<ThreadWaits>& Mine();
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
