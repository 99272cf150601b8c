// Memory of the database's process and of its agent's, at rest and at the most while it works. What
// host and agent share is told from the mapped regions of the channel. Start and Stop from one
// thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "bench/macro/repeater.h"
#include "bench/macro/variant.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::bench {

// Of one process, in bytes.
struct MemoryUse {
  uint64_t resident = 0;  // shared memory included
  uint64_t anonymous = 0;
  // Mapped from the channel: queues of outputs, and the read-ahead, which is larger than these.
  uint64_t queues = 0;
  uint64_t queue_bytes = 0;
  uint64_t fetch_bytes = 0;
};

// From the texts of /proc/PID/status and /proc/PID/maps. Regions of less than 2 MiB are neither
// queue nor read-ahead; from 48 MiB, between the defaults of the options `queue` and
// `fetch_memory`, they are read-ahead.
MemoryUse ParseMemoryUse(const std::string& status, const std::string& maps);

class MemoryMeter {
 public:
  // For an agent in its own process, finds that process: it must be up.
  static absl::StatusOr<std::unique_ptr<MemoryMeter>> Create(const Variant& variant);
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  // Takes what there is now as the state at rest, and begins to look for the most.
  void Start();

  // Adds host_idle_rss_mib, host_rss_mib, host_private_mib and, for an agent of its own process,
  // the same of the agent, queues, queue_mib, mib_per_queue, fetch_mib and shared_mib to `result`.
  void Stop(nlohmann::json* result);

  // Looks taken, to be read from any thread: after two more of them, what was there is seen.
  uint64_t looks() const { return looks_.load(); }

 private:
  struct Peaks {
    MemoryUse most;  // each on its own
    uint64_t shared = 0;
    void Take(const MemoryUse& use);
  };

  explicit MemoryMeter(pid_t agent) : agent_(agent) {}
  void Sample();

  const pid_t agent_;  // 0: none of its own
  MemoryUse host_idle_, agent_idle_;
  Peaks host_, agent_peaks_;
  std::atomic<uint64_t> looks_{0};
  std::optional<Repeater> sampler_;  // last: it uses the others
};

}  // namespace pulse::bench
