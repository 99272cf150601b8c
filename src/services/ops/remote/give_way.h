// GiveWay: how much of the operators' work an agent begins while it also serves remote clients. The
// decisions alone: pure, told what the front has done and what time it is. Section 5.10 of the
// co-processing paper: tasks that load memory slow a front down, and others do not.
//
// The measure is the CPU time that the front's threads take for a request, which rises where
// operators take caches and memory bandwidth from them. (Of CPUs, operators get only what nobody
// else wants: their threads have the policy SCHED_IDLE.) It is compared with what a request takes
// while no operator runs: in windows in which there is none, and from time to time in one for which
// operators wait. Where requests are slower, the rule goes one level up: first operators that load
// memory wait, then all. After a while it tries the level below again, less often each time that
// this was wrong. A front with few requests holds nobody up.
//
// Not thread-safe. Times are nanoseconds of any steady clock.
#pragma once

#include <cstdint>

namespace pulse::ops::remote {

class GiveWay {
 public:
  enum class Level : uint8_t { kAll, kLight, kNone };

  struct Options {
    // Times the baseline: from here on the rule goes up.
    double slower = 1.10;
    // A window is as long, and longer until it has so many requests.
    int64_t window_nanos = 50'000'000;
    uint64_t least_requests = 200;
    // With fewer after so long, the front is idle.
    int64_t idle_nanos = 1'000'000'000;
    // Windows with operators that are compared at once; each counts a part.
    int compared = 3;
    // Between two windows for which operators wait.
    int64_t baseline_every = 2'000'000'000;
    // They wait no longer than this for chunks that are being processed.
    int64_t drain_nanos = 500'000'000;
    int64_t first_retry = 1'000'000'000;
    int64_t last_retry = 32'000'000'000;
  };
  // Of the front, since it began.
  struct Numbers {
    uint64_t requests = 0;
    uint64_t cpu_nanos = 0;
  };

  GiveWay() : GiveWay(Options()) {}
  explicit GiveWay(const Options& options) : options_(options) {}

  // Every few milliseconds. `ran`: a chunk was processed at some time since the last call.
  void Tick(int64_t now, const Numbers& front, bool ran);

  // Whether a chunk may begin.
  bool MayBegin(bool loads_memory) const {
    return !pausing_ && (level_ == Level::kAll || (level_ == Level::kLight && !loads_memory));
  }

  Level level() const { return level_; }
  // A request's CPU time without operators, and with those that may run; 0: not known.
  double alone_nanos() const { return alone_; }
  double beside_nanos() const { return beside_; }
  // Times that the rule went up.
  uint64_t raised() const { return raised_; }

 private:
  void Begin(int64_t now, const Numbers& front);
  void OnWindow(int64_t now, double cost);
  void GoTo(Level level, int64_t now);

  const Options options_;
  Level level_ = Level::kAll;
  bool started_ = false;
  bool pausing_ = false;  // operators wait for a window without them
  int64_t pause_began_ = 0;
  int64_t window_began_ = 0;
  Numbers at_begin_;
  bool ran_ = false;     // in this window
  bool missed_ = false;  // some of this window was without operators
  double alone_ = 0;
  double beside_ = 0;
  int windows_ = 0;  // in beside_
  int64_t last_alone_ = 0;
  int64_t retry_at_ = 0;
  int64_t retry_ = 0;
  int64_t all_since_ = 0;  // when it last went down to kAll
  uint64_t raised_ = 0;
};

}  // namespace pulse::ops::remote
