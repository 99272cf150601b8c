// AgentLink: how a host session reaches its agent's control plane. Two kinds: an agent embedded in
// this process as threads, and an agent process behind a Unix socket. The data plane (rings) is the
// same.
//
// Thread-safe. Attach blocks until the agent has answered, at most a few seconds.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "channel/doorbell.h"
#include "channel/region.h"
#include "lsm/options.h"

namespace pulse::lsm {

class AgentLink {
 public:
  virtual ~AgentLink() = default;

  // Memory for a queue: of the kind that this agent can reach.
  virtual absl::StatusOr<Region> CreateRegion(size_t bytes) = 0;
  // Offers a queue laid out by HostQueue::Init in `region`, which must outlive the link.
  virtual absl::Status Attach(uint32_t queue_id, uint64_t arena_bytes, const Region& region) = 0;
  // Passes a duplicate of `fd` for `file`. Fills `flags` and `aux` of the kOpen request to follow.
  virtual absl::Status SendFile(uint32_t file, int fd, uint32_t* flags, uint64_t* aux) = 0;
  // A descriptor that becomes readable when the agent is gone, or -1 for an agent that cannot go.
  virtual int death_fd() const = 0;
  // True once the agent is gone. Call after death_fd() became readable.
  virtual bool CheckDead() = 0;
  virtual uint32_t max_queues() const = 0;

  wire::ControlPage* control() const { return control_; }
  Doorbell& kick() { return kick_; }      // host rings, agent sleeps
  Doorbell& notify() { return notify_; }  // agent rings, host sleeps

 protected:
  // Creates control page and doorbells.
  absl::Status Prepare(Region control_region);

  Region control_region_;
  wire::ControlPage* control_ = nullptr;
  Doorbell kick_;
  Doorbell notify_;
};

absl::StatusOr<std::unique_ptr<AgentLink>> StartEmbeddedAgent(const Options& options);
absl::StatusOr<std::unique_ptr<AgentLink>> ConnectToAgent(const Options& options);

}  // namespace pulse::lsm
