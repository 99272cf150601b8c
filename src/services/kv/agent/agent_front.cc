#include "services/kv/agent/agent_front.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "services/redis/serve.h"

namespace pulse::kv {

absl::StatusOr<std::unique_ptr<AgentFront>> AgentFront::Open(AgentFrontOptions options) {
  redis::LimitMessages(options.limits, &options.director.limits);
  options.director.side = CpuSide::kAgent;
  std::unique_ptr<AgentFront> front(new AgentFront(options));
  front->lanes_.resize(static_cast<size_t>(options.director.threads));
  net::DirectorOptions director = front->options_.director;
  director.application = front.get();
  PULSE_ASSIGN_OR_RETURN(front->director_, net::Director::Open(director));
  // The loops have made them.
  for (AgentLane* lane : front->lanes_) front->keeper_.Add(lane);
  PULSE_RETURN_IF_ERROR(front->keeper_.Start());
  return front;
}

// The loops end with the store's answers, which need their links.
AgentFront::~AgentFront() {
  director_.reset();
  keeper_.Stop();
}

std::unique_ptr<net::Flow> AgentFront::NewFlow(net::Connection* connection) {
  AgentLane* lane = lanes_[static_cast<size_t>(connection->loop()->index())];
  return std::make_unique<AgentFlow>(lane, options_.limits, connection);
}

std::unique_ptr<net::LoopPeer> AgentFront::NewLoopPeer(net::EventLoop* loop) {
  auto lane =
      std::make_unique<AgentLane>(loop, &counters_, options_.director.limits.max_host_message,
                                  options_.director.spin_nanos > 0);
  lanes_[static_cast<size_t>(loop->index())] = lane.get();
  return lane;
}

}  // namespace pulse::kv
