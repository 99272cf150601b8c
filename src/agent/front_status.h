// FrontStatus: what an agent's network front does, as numbers for people and machines that watch
// it; and FrontRegistry, which knows the front that there is. DDS sections 5 and 6.
//
// The agent knows no front: whoever runs one says how its numbers are taken. Nothing here is called
// by a front's own threads, so that watching costs them nothing.
//
// Threads: FrontRegistry is thread-safe. Its lock is held while numbers are taken, so that Set()
// waits for who is at it, and the front may go afterwards. Times in nanoseconds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/connection_counts.h"
#include "base/cpu_profile.h"
#include "base/numbers.h"

namespace pulse {

// The counts are the director's.
struct FrontStatus : ConnectionCounts {
  std::string service;
  uint64_t cpu_nanos = 0;  // of its loops
  // By CpuComponent: the same, estimated from a sample of the loops' turns.
  std::array<uint64_t, kCpuComponentNames.size()> component_nanos{};
  // Requests that the agent has answered, and those that the host got instead, by reason. A name
  // of a reason is a constant.
  uint64_t answered = 0;
  std::vector<std::pair<const char*, uint64_t>> to_host;

  // What the service behind the front counts besides.
  std::vector<Number> numbers;
};

class FrontRegistry {
 public:
  // How numbers are taken; null: there is no front any more.
  void Set(std::function<FrontStatus()> take) {
    const std::lock_guard<std::mutex> lock(mu_);
    take_ = std::move(take);
    most_.clear();
  }

  std::optional<FrontStatus> Take() const {
    const std::lock_guard<std::mutex> lock(mu_);
    if (take_ == nullptr) return std::nullopt;
    FrontStatus status = take_();
    // A reason may be what is left of others, which are read one after the other: what was shown
    // does not go back.
    for (auto& [reason, count] : status.to_host) {
      uint64_t& most = most_[reason];
      count = most = std::max(most, count);
    }
    return status;
  }

 private:
  mutable std::mutex mu_;
  std::function<FrontStatus()> take_;
  mutable std::map<std::string, uint64_t> most_;
};

}  // namespace pulse
