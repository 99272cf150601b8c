// How a statement is ended while it is read and planned, before there is an execution to end.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace pulse::cypher {

// Asked now and then by the thread that works; true: end it. May read a clock.
using StopHook = std::function<bool()>;

// Asks at one of kSteps calls. Null: never. Used by one thread.
class StopCheck {
 public:
  explicit StopCheck(const StopHook* stop) : stop_(stop) {}
  bool Asks() { return stop_ != nullptr && ++steps_ % kSteps == 0 && (*stop_)(); }
  static absl::Status Ended() { return absl::CancelledError("ended while it was planned"); }

 private:
  static constexpr uint32_t kSteps = 256;
  const StopHook* const stop_;
  uint32_t steps_ = 0;
};

}  // namespace pulse::cypher
