// CPU time of a stretch of this process, told apart by who spent it: the host (RocksDB and the
// application) or PulseDB's agent. The agent's threads in this process are those whose names begin
// with "pulse-ag", together with io_uring's workers ("iou-", but for those that another thread has
// started); an agent in a process of its own is measured as a whole. Of the host's CPU time, that
// of RocksDB's threads for compactions ("rocksdb:low", "rocksdb:bot", and those that they start)
// and that of a server's threads ("pulse-host", and all of RocksDB's) is told, too. Start and Stop
// from one thread.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/statusor.h"
#include "bench/macro/repeater.h"

namespace pulse::bench {

struct CpuUse {
  double host_seconds = 0;
  double agent_seconds = 0;
  double compaction_seconds = 0;  // of host_seconds
  double server_seconds = 0;      // of host_seconds; with compaction_seconds
  // Of this process, with the embedded agent's.
  int64_t voluntary_switches = 0;
  int64_t involuntary_switches = 0;
};

// CPU time of a whole process, in nanoseconds. Unavailable when it is gone.
absl::StatusOr<int64_t> ProcessNanos(pid_t pid);

class CpuMeter {
 public:
  // Which threads or process count as the agent.
  enum class Agent { kNone, kThreads, kProcess };

  // CPU time of this process, in nanoseconds.
  using ProcessClock = int64_t (*)();

  // `agent_pid` matters for kProcess only.
  explicit CpuMeter(Agent agent, pid_t agent_pid = 0, ProcessClock process = &OwnProcessNanos)
      : agent_(agent), agent_pid_(agent_pid), process_(process) {}
  CpuMeter(const CpuMeter&) = delete;
  CpuMeter& operator=(const CpuMeter&) = delete;

  absl::Status Start();
  absl::StatusOr<CpuUse> Stop();

  // Looks taken since Start(), to be read from any thread: who has been there for ten more of them
  // has been counted by its name.
  uint64_t looks() const { return looks_.load(); }

 private:
  enum class Who { kAgent, kCompaction, kServer };
  // What one thread has used since Start(), kept after it has gone.
  struct ThreadUse {
    std::optional<Who> who;  // none: of the host, and not told apart
    int64_t base = 0;
    int64_t last = 0;
  };

  static int64_t OwnProcessNanos();
  std::optional<Who> WhoIs(pid_t tid) const;
  void Sample(bool first);
  int64_t UseOf(Who who) const;

  const Agent agent_;
  const pid_t agent_pid_;
  const ProcessClock process_;
  int64_t process_start_ = 0;
  int64_t agent_start_ = 0;
  rusage usage_start_ = {};
  std::map<pid_t, ThreadUse> threads_;
  std::array<int64_t, 3> gone_ = {};  // by Who: threads whose numbers others have now
  std::atomic<uint64_t> looks_{0};
  std::optional<Repeater> sampler_;  // last: it uses the others
};

}  // namespace pulse::bench
