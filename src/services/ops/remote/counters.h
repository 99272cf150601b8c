// What the operators of one agent have done, by engine, for those who watch (pulse top,
// Prometheus). Section 5.11 of the co-processing paper asks for such counters.
//
// Added to by any thread, read by any thread; nothing blocks. Times in nanoseconds.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/numbers.h"
#include "services/ops/placement_numbers.h"
#include "services/ops/tasks.h"

namespace pulse::ops::remote {

struct OpsCounters {
  struct Task {
    std::atomic<uint64_t> chunks{0};
    std::atomic<uint64_t> failed{0};  // answered with an error
    std::atomic<uint64_t> bytes_in{0};
    std::atomic<uint64_t> bytes_out{0};
    std::atomic<uint64_t> busy_nanos{0};
  };
  std::array<Task, kTasks> tasks;
  std::atomic<uint64_t> threads{0};
  std::atomic<uint64_t> waiting{0};  // chunks that were taken and not begun
  std::atomic<uint64_t> running{0};
  std::atomic<uint64_t> undelivered{0};  // results for which their host has no room
  std::atomic<uint64_t> operators{0};
  std::atomic<uint64_t> rules{0};  // compiled, ever
  PlacementNumbers placement;      // as hosts report it
};

NumberGroup OpsNumbers(const OpsCounters& counters);

}  // namespace pulse::ops::remote
