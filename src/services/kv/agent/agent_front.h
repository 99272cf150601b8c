// AgentFront: the application of an agent's director, and its lanes to the host. See agent_flow.h.
//
// Open returns when the director listens, and each loop has been attached if the store is there.
// Threads: Open, Stop and destruction for one; the rest for any, between the two.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/director.h"
#include "services/kv/agent/agent_flow.h"
#include "services/kv/agent/agent_lane.h"
#include "services/kv/agent/link_keeper.h"

namespace pulse::kv {

struct AgentFrontOptions {
  std::string host;               // the store's --agent-socket
  redis::Limits limits;           // of requests
  net::DirectorOptions director;  // but for the application
};

class AgentFront final : public net::Application {
 public:
  static absl::StatusOr<std::unique_ptr<AgentFront>> Open(AgentFrontOptions options);
  ~AgentFront() override;

  const net::Director& director() const { return *director_; }
  const LaneCounters& counters() const { return counters_; }

  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override;
  std::unique_ptr<net::LoopPeer> NewLoopPeer(net::EventLoop* loop) override;

 private:
  explicit AgentFront(const AgentFrontOptions& options) : options_(options) {}

  const AgentFrontOptions options_;
  LaneCounters counters_;
  std::vector<AgentLane*> lanes_;  // by loop, whose they are
  LinkKeeper keeper_{options_.host};
  std::unique_ptr<net::Director> director_;  // ends first
};

}  // namespace pulse::kv
