// AgentServer: `pulse kv --agent-socket`: agents in processes of their own, which serve clients of
// this store (agent_front.h). Each loop of an agent has a lane here, and each lane one of this
// server's threads, which serves its lanes in turn (DPU-KV paper, section 4.4: one core of the host
// for several of the agent).
//
// Memory: BytesFor(options) for all lanes together, and what LaneShared allows for requests and
// replies on their way. That of a lane whose agent has ended is given back at once.
//
// Open returns when the socket accepts agents. Destruction cuts them off; it comes before the end
// of the redis::Server whose application it was given. Thread-safe but for that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/kv/agent/host_lane.h"
#include "services/kv/shm/peer_listener.h"
#include "services/kv/shm/peer_poller.h"

namespace pulse::kv {

struct AgentServerOptions {
  std::string path = {};
  uint32_t threads = 1;            // that carry requests out; at most 64
  uint32_t max_lanes = 16;         // loops of all agents together
  uint32_t max_sessions = 10'000;  // clients of all agents together
  uint64_t buffer_bytes = 0;       // of requests and replies on their way, all lanes; 0: 64 MiB
  int64_t spin_nanos = 0;          // for how long a thread looks for requests before it sleeps
  std::vector<int> cpus = {};      // of the threads; empty: any
};

struct AgentServerNumbers {
  uint64_t loops = 0;      // of agents that are attached
  uint64_t clients = 0;    // of all agents
  uint64_t requests = 0;   // that agents have given
  uint64_t transfers = 0;  // that these came in
  int64_t cpu_nanos = 0;   // of the threads that serve agents
  // What their clients are served by, whatever the server's design is: "lat" where each loop has a
  // thread of this server, "sav" where loops share one, "none" without loops.
  const char* design = "none";
};

class AgentServer final : private PeerHost {
 public:
  // `application` outlives it. InvalidArgument for options out of range; AlreadyExists when the
  // path is in use.
  static absl::StatusOr<std::unique_ptr<AgentServer>> Open(redis::HostApplication* application,
                                                           const AgentServerOptions& options);
  ~AgentServer() override;

  static absl::Status Check(const AgentServerOptions& options);
  static uint64_t BytesFor(const AgentServerOptions& options);

  AgentServerNumbers numbers() const;
  // Lines of INFO KV.
  void AddInfo(std::string* out) const;

 private:
  class Thread;
  explicit AgentServer(const AgentServerOptions& options);
  absl::StatusOr<std::shared_ptr<ShmPeer>> Welcome(UniqueFd* socket,
                                                   std::vector<UniqueFd> fds) override;
  void SetPeers(const ShmPeers& peers) override;

  const AgentServerOptions options_;
  LaneShared shared_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::atomic<size_t> lane_count_{0};
  std::atomic<size_t> most_of_a_thread_{0};  // lanes
  std::unique_ptr<PeerListener> listener_;   // ends first
};

}  // namespace pulse::kv
