// AgentLink: how a host session reaches its agent's control plane. Two kinds: an agent embedded in
// this process as threads, and an agent process behind a Unix socket. The data plane (rings) is the
// same.
//
// Thread-safe. Attach blocks until the agent has answered, until Close(), or for ten seconds.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "base/wake_event.h"
#include "channel/doorbell.h"
#include "channel/region.h"
#include "services/lsm/core/options.h"

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
  // Has the agent run a whole compaction (task_wire.h). Errors keep its errno: EBUSY when it runs
  // as many as it may. Unimplemented for an embedded agent: its host runs the task itself.
  virtual absl::Status StartTask(int /*request*/, int /*reply*/) {
    return absl::UnimplementedError("an embedded agent is asked directly");
  }
  virtual bool embedded() const = 0;
  // How many it runs at a time, and how fast a core of it is, a host's being 1, as it says itself.
  virtual int max_tasks() const { return 0; }
  virtual double core_speed() const { return 1.0; }
  // A descriptor to poll for POLLRDHUP, or -1 for an agent that cannot go.
  virtual int death_fd() const = 0;
  // True once the agent has left: it ended, or ended this session. It starts nothing any more.
  virtual bool Gone() const = 0;
  // After Gone(): gives an agent that is being killed a moment to be gone entirely.
  virtual void WaitForExit() const {}
  virtual uint32_t max_queues() const = 0;

  // Ends the conversation from this side: wakes whoever blocks in this link or polls closed_fd().
  virtual void Close();
  // Readable once closed.
  int closed_fd() const { return closed_.fd(); }

  // The agent's sign of life: changes after a Ping(), and while it works.
  uint64_t Progress() const {
    return control_->agent_progress.value.load(std::memory_order_relaxed);
  }
  void Ping() { kick_.Kick(); }

  wire::ControlPage* control() const { return control_; }
  Doorbell& kick() { return kick_; }      // host rings, agent sleeps
  Doorbell& notify() { return notify_; }  // agent rings, host sleeps

 protected:
  // Lays out the control page and makes this side's doorbell; what is left is the end for the agent
  // to ring.
  absl::StatusOr<UniqueFd> Prepare(Region control_region);

  Region control_region_;
  wire::ControlPage* control_ = nullptr;
  Doorbell kick_;
  Doorbell notify_;
  WakeEvent closed_;
};

absl::StatusOr<std::unique_ptr<AgentLink>> StartEmbeddedAgent(const Options& options);
// Blocks until the agent has answered, for ten seconds (or `agent_deadline`, if longer), or until
// `cancel_fd` (unless -1) is readable. `may_fall_back` (unless null) is set when that fails: nobody
// listens there, or who does hangs up, is silent, talks nonsense, or is an agent of another
// protocol version. Any other refusal has a cause that an embedded agent would hide.
absl::StatusOr<std::unique_ptr<AgentLink>> ConnectToAgent(const Options& options, int cancel_fd,
                                                          bool* may_fall_back = nullptr);

}  // namespace pulse::lsm
