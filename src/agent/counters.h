// What a session has done, counted by its worker for those who watch (pulse top, Prometheus).
//
// Written by the session's worker thread alone: each word is loaded and stored, so that counting
// costs no locked instruction. Read by any thread at any time; words that belong together may be of
// slightly different moments. Nothing blocks.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/nanos_clock.h"

namespace pulse {

// Kinds of requests that a service may tell apart; ServiceSpec names them.
inline constexpr size_t kMaxRequestKinds = 16;

class RelaxedWord {
 public:
  void Add(uint64_t n) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void Set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  uint64_t Get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// For how long a stage has had at least one request under way. One word, so that a reader always
// finds it whole: while the stage is idle its busy time so far, while it is busy that less the time
// at which it began, which is negative as no busy time exceeds the clock.
class BusyTime {
 public:
  BusyTime() : BusyTime(NowNanos) {}
  explicit BusyTime(NanosClock clock) : clock_(clock) {}
  void Begin() {
    in_flight_.Add(1);
    if (in_flight_.Get() == 1) word_.store(Word() - clock_(), std::memory_order_relaxed);
  }
  void End() {
    in_flight_.Add(~uint64_t{0});
    if (in_flight_.Get() == 0) word_.store(Word() + clock_(), std::memory_order_relaxed);
  }
  uint64_t in_flight() const { return in_flight_.Get(); }
  uint64_t Nanos() const {
    // The clock is read between two equal words. It may still be a little later than the one that
    // the worker has just read at the stage's end, and is about to store: AgentStatus sees to it
    // that nobody is shown less than before.
    for (int i = 0;; ++i) {
      const int64_t word = Word();
      if (word >= 0) return static_cast<uint64_t>(word);
      const int64_t now = clock_();
      if (word == Word() || i == 100) return static_cast<uint64_t>(word + now);
    }
  }

 private:
  int64_t Word() const { return word_.load(std::memory_order_relaxed); }

  const NanosClock clock_;
  RelaxedWord in_flight_;
  std::atomic<int64_t> word_{0};
};

// Latencies in powers of two: bucket i counts those below 2^i microseconds that are in no bucket
// before; the last has the rest.
class LatencyCounts {
 public:
  static constexpr size_t kBuckets = 26;  // the last but one: below 17 s

  void Record(int64_t nanos) {
    const uint64_t n = nanos < 0 ? 0 : static_cast<uint64_t>(nanos);
    const size_t i = static_cast<size_t>(std::bit_width(n / 1000));
    buckets_[i < kBuckets ? i : kBuckets - 1].Add(1);
    nanos_.Add(n);
  }
  uint64_t bucket(size_t i) const { return buckets_[i].Get(); }
  uint64_t nanos() const { return nanos_.Get(); }

 private:
  std::array<RelaxedWord, kBuckets> buckets_;
  RelaxedWord nanos_;
};

struct SessionCounters {
  std::array<RelaxedWord, kMaxRequestKinds> requests;  // taken, by the service's kinds
  RelaxedWord failed;                                  // answered with an error
  RelaxedWord bytes_read;
  RelaxedWord bytes_written;
  BusyTime fetch;       // reads
  BusyTime persist;     // everything else
  LatencyCounts syncs;  // of kSync and kSyncClose, from taken to done
  RelaxedWord queues;
  RelaxedWord memory;  // of its queues and poll groups
  RelaxedWord files;   // that it has passed or opened

  template <typename Kind>
  void Take(Kind kind) {
    requests[static_cast<size_t>(kind)].Add(1);
  }
};

}  // namespace pulse
