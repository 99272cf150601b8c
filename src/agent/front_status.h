// FrontStatus: what an agent's network front does, as numbers for people and machines that watch
// it; and FrontTeller, which asks the front that there is. DDS sections 5 and 6.
//
// The agent knows no front: whoever runs one (a director, with an offload engine or the Redis
// reads behind it) says how its numbers are taken. Nothing here is called by a front's own threads,
// so that watching costs them nothing.
//
// Threads: FrontTeller is thread-safe. Its lock is held while numbers are taken, so that Set()
// waits for who is at it, and the front may go afterwards. Times in nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pulse {

struct FrontStatus {
  std::string service;  // "redis", or the offload program's name
  // The director's.
  uint64_t connections = 0;  // now
  uint64_t spliced_connections = 0;
  uint64_t accepted = 0;
  uint64_t refused = 0;
  uint64_t cut = 0;
  uint64_t requests = 0;
  uint64_t forwarded = 0;
  uint64_t lost = 0;
  uint64_t host_connections = 0;
  uint64_t host_failures = 0;
  uint64_t spliced_bytes = 0;
  uint64_t held_bytes = 0;  // now
  uint64_t pauses = 0;
  uint64_t cpu_nanos = 0;  // of its loops
  // Requests that the agent has answered, and those that the host got instead, by reason. A name
  // of a reason is a constant.
  uint64_t answered = 0;
  std::vector<std::pair<const char*, uint64_t>> to_host;

  struct Engine {
    uint64_t bytes = 0;  // of files, in answers
    bool off = false;    // a function of the program has failed
    uint64_t table_items = 0;
    uint64_t table_bytes = 0;
    uint64_t table_inserts = 0;
    uint64_t table_evictions = 0;
  };
  std::optional<Engine> engine;

  // Reads of a database that another program writes.
  struct View {
    // Of those answered: what the agent knew already, what the kernel's page cache had, and what
    // the device was waited for.
    uint64_t known = 0;
    uint64_t from_page_cache = 0;
    uint64_t from_device = 0;
    uint64_t known_bytes = 0;  // memory for what is known
    uint64_t writes_in_flight = 0;
    uint64_t unknown_writes = 0;  // whose outcome was not known when the host was lost
    uint64_t fences = 0;
    uint64_t catch_ups = 0;
    uint64_t catch_ups_repeated = 0;
    uint64_t catch_up_nanos = 0;
    uint64_t lag_nanos = 0;
    uint64_t max_lag_nanos = 0;
    bool valid = false;
  };
  std::optional<View> view;
};

class FrontTeller {
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
