// VirtualEngine: an accelerator that is not there. Results were computed before, outside of what is
// timed; the engine replays them at the price of one that a profile of the virtual DPU describes:
// a rate, a latency, contexts that are made once and reconfigured when the size of buffers changes,
// and a largest buffer. Whoever reports what it did says that it replayed.
//
// It is one pipeline: tasks follow each other at its rate, each late by the latency. Its lanes are
// the tasks in flight, and sleep. Implements the engines of Table 3 of the co-processing paper, by
// the breakdown of its section 5.4 and the two settings of section 5.2.
//
// Output that exceeds the largest buffer: of a chunk whose input fits, pieces of it are tried until
// their output fits, each a task (kSplit); or the chunk is refused, for another engine (kRefuse).
//
// Thread-safe as every Engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "absl/status/status.h"
#include "services/ops/engine.h"

namespace pulse::ops {

class VirtualEngine : public Engine {
 public:
  // Static: one context with buffers of the largest size serves every task. Reconfigured: a context
  // has buffers of the task's size, and the next size costs a reconfiguration.
  // Kept: a context serves all tasks that fit its buffers, and is reconfigured for larger ones
  // only, to the next power of two.
  enum class Setting : uint8_t { kStatic, kReconfigured, kKept };
  enum class TooLarge : uint8_t { kSplit, kRefuse };

  struct Price {
    double bytes_per_second = 1e9;  // of the larger of input and output
    int64_t latency_nanos = 0;
    int64_t setup_nanos = 0;  // before the first task
    int64_t reconfigure_nanos = 0;
    uint64_t largest_buffer = uint64_t{128} << 20;
    Setting setting = Setting::kStatic;
    TooLarge too_large = TooLarge::kSplit;
  };
  // Writes what was computed for this chunk.
  using Replay = std::function<absl::Status(const Chunk&, Result&)>;

  // What the engine did, beside EngineStats.
  struct Counters {
    uint64_t tasks = 0;
    uint64_t split = 0;    // chunks that became several tasks
    uint64_t retried = 0;  // tasks whose output did not fit
    uint64_t refused = 0;
    uint64_t reconfigured = 0;
    int64_t setup_nanos = 0;  // of contexts, made and reconfigured
    int64_t work_nanos = 0;   // of bytes
  };

  // `traits.pipeline` is set.
  VirtualEngine(EngineTraits traits, const Price& price, Replay replay);

  absl::Status Process(int lane, const Chunk& chunk, Result& result) override;
  // Several queues may use it, one after the other; its context stays.
  void Begin() override;
  void Interrupt() override;
  int64_t NanosBefore(uint64_t bytes) const override;

  Counters counters() const;

 private:
  // What the tasks of one chunk cost. 0 tasks: refused.
  struct Tasks {
    uint64_t count = 0;
    uint64_t retried = 0;
    uint64_t bytes = 0;  // moved by all of them
    uint64_t size = 0;   // of a buffer
  };
  Tasks TasksFor(uint64_t input, uint64_t output) const;
  int64_t ContextNanos(uint64_t size) const;

  const Price price_;
  const Replay replay_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool interrupted_ = false;
  bool made_ = false;     // the context
  uint64_t context_ = 0;  // the size of its buffers
  int64_t ready_at_ = 0;  // when the last context that was asked for is there
  int64_t free_at_ = 0;   // when the pipeline takes the next task
  Counters counters_;
};

}  // namespace pulse::ops
