// PlacementNumbers: what queues reported of their placement (placement_report.h), summed up by
// task, as numbers for those who watch: an agent's Prometheus endpoint, a program of
// pulse/ops.h. What was never reported of has no numbers; their number is bounded by the tasks.
//
// Thread-safe; blocks for no longer than a few copies.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/numbers.h"
#include "services/ops/placement_report.h"
#include "services/ops/tasks.h"

namespace pulse::ops {

class PlacementNumbers {
 public:
  void Add(size_t task, const PlacementReport& report);

  std::vector<Number> Take() const;

 private:
  struct Task {
    bool any = false;
    PlacementReport sum;   // counts of all reports; rates of the last one that knew them
    PlacementReport both;  // the last report that knew the rates of both sides and the whole
  };
  static constexpr size_t kPlacements = 5;

  mutable std::mutex mutex_;
  std::array<Task, kTasks> tasks_;
  std::array<uint64_t, kPlacements> runs_{};  // operations that have ended, by placement
};

// The numbers in Prometheus's text format, each family once, in the order of their first number.
std::string MetricsText(const std::vector<Number>& numbers);

}  // namespace pulse::ops
