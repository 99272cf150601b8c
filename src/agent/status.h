// AgentStatus: what an agent does, for people and for machines that watch it. Sessions and workers
// enter themselves and leave; whoever asks gets a copy of the moment, and the same as JSON
// (docs/reference/protocol.md, "Status").
//
// Thread-safe. A lock is taken when sessions come and go and while a copy is made, never by work
// that a session asked for. Does not block otherwise.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/counters.h"
#include "agent/front_status.h"
#include "agent/service_spec.h"
#include "channel/host_numbers.h"

namespace pulse {

struct SessionStatus {
  uint64_t id = 0;  // unique within the agent
  pid_t pid = 0;
  const ServiceSpec* service = nullptr;
  std::string mover;
  int64_t attached_nanos = 0;  // how long ago
  uint64_t requests[kMaxRequestKinds] = {};
  uint64_t failed = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t fetch_busy_nanos = 0;
  uint64_t fetch_in_flight = 0;
  uint64_t persist_busy_nanos = 0;
  uint64_t persist_in_flight = 0;
  uint64_t sync_counts[LatencyCounts::kBuckets] = {};
  uint64_t sync_nanos = 0;
  uint64_t queues = 0;
  uint64_t memory = 0;
  uint64_t files = 0;
  // What the host says; none yet, or a service whose hosts say nothing.
  std::optional<HostNumbersCopy> host;
};

struct AgentStatusCopy {
  std::string kind;  // "agent": a process of its own; "embedded"
  std::string socket;
  std::string engine;
  pid_t pid = 0;
  int64_t now_nanos = 0;  // CLOCK_MONOTONIC
  int64_t uptime_nanos = 0;
  uint64_t cpu_nanos = 0;  // of the process, or of the embedded agents' threads
  uint64_t workers = 0;
  uint64_t sessions_total = 0;  // that ever were
  std::vector<SessionStatus> sessions;
  std::optional<FrontStatus> front;  // none, where no remote clients are served
  std::vector<NumberGroup> groups;   // what services count for the agent as a whole
};

class AgentStatus {
 public:
  // Any thread calls it; null: there is nothing.
  using TakeGroups = std::function<std::vector<NumberGroup>()>;

  // `kind` and `socket` as above. CPU time of an "agent" is that of the whole process. `front` may
  // be null.
  AgentStatus(std::string kind, std::string socket,
              std::shared_ptr<const FrontRegistry> front = nullptr, TakeGroups groups = nullptr);

  struct SessionEntry {
    pid_t pid = 0;
    const ServiceSpec* service = nullptr;
    const char* mover = "";
    const SessionCounters* counters = nullptr;
    const wire::ControlPage* control = nullptr;  // the host's
  };
  // What `entry` points to must be there until Leave.
  uint64_t Enter(const SessionEntry& entry);
  void Leave(uint64_t id);
  // A worker thread that runs until it leaves.
  uint64_t EnterWorker(clockid_t cpu_clock, std::string engine);
  void LeaveWorker(uint64_t id);

  AgentStatusCopy Take() const;

 private:
  struct Session {
    SessionEntry entry;
    int64_t since = 0;
    // The last that was read: kept while the host is in the middle of a writing.
    std::optional<HostNumbersCopy> host = {};
    // The most that was shown: see BusyTime.
    uint64_t fetch_busy_nanos = 0;
    uint64_t persist_busy_nanos = 0;
  };
  struct WorkerEntry {
    clockid_t clock;
    std::string engine;
  };

  const std::string kind_;
  const std::string socket_;
  const std::shared_ptr<const FrontRegistry> front_;
  const TakeGroups groups_;
  const int64_t started_;
  mutable std::mutex mu_;
  uint64_t next_id_ = 1;
  uint64_t sessions_total_ = 0;
  uint64_t ended_cpu_nanos_ = 0;  // of workers that left
  mutable std::map<uint64_t, Session> sessions_;
  std::map<uint64_t, WorkerEntry> workers_;
};

std::string ToJson(const AgentStatusCopy& status);

}  // namespace pulse
