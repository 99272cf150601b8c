// EventQueue: the clock of a discrete-event model. Events run in the order of their times, and
// those of one time in the order in which they were added, so that a model with a seed repeats
// itself.
//
// Times are nanoseconds of the model. Thread-compatible; nothing blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"

namespace pulse::kvmodel {

class EventQueue {
 public:
  using Action = std::function<void()>;

  double now() const { return now_; }

  // `time` is not in the past.
  void At(double time, Action action) {
    PULSE_CHECK(time >= now_);
    heap_.push_back({time, next_++, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  // Runs what is due until `end`, also what these events add.
  void RunUntil(double end) {
    while (!heap_.empty() && heap_.front().time <= end) {
      std::pop_heap(heap_.begin(), heap_.end(), Later);
      Event event = std::move(heap_.back());
      heap_.pop_back();
      now_ = event.time;
      event.action();
    }
    now_ = std::max(now_, end);
  }

 private:
  struct Event {
    double time;
    uint64_t order;
    Action action;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }

  double now_ = 0;
  uint64_t next_ = 0;
  std::vector<Event> heap_;
};

}  // namespace pulse::kvmodel
