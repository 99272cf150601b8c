// AgentLink: how the host half of a service reaches its agent's control plane. Two kinds: an agent
// embedded in this process as threads, and an agent process behind a Unix socket. The data plane
// (rings in shared memory) is the same. PulseDB III-B, DDS 4.2.
//
// Ownership: the caller owns the link; memory that was offered through it must outlive it.
// Thread-safe. Attach and Ask block until the agent has answered, until Close(), or until the
// deadline of LinkOptions. Errors name the agent's socket and say what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "base/wake_event.h"
#include "channel/doorbell.h"
#include "channel/handshake.h"
#include "channel/region.h"

namespace pulse {

// Which service a host wants of its agent: the numbers that both halves of the service agree on.
struct ServiceId {
  uint32_t id = 0;
  uint32_t version = 0;
};

struct LinkOptions {
  ServiceId service;
  std::string socket_path;
  int64_t answer_ms = 10'000;  // how long an answer on the socket may take
  // What moves bytes between host and agent, as a hello says it: 0 the agent's own choice, 1 shared
  // memory, 2 process_vm_readv.
  uint64_t mover = 0;
  // Refuse an agent whose I/O engine (the hello's answer) is another; none: any will do.
  const char* engine_name = nullptr;
  uint64_t engine = 0;
};

class AgentLink {
 public:
  virtual ~AgentLink() = default;

  // Memory of the kind that this agent can reach.
  virtual absl::StatusOr<Region> CreateRegion(size_t bytes) = 0;
  // Offers a queue laid out by HostQueue::Init in `region`, which must outlive the link.
  virtual absl::Status Attach(uint32_t queue_id, uint64_t arena_bytes, const Region& region) = 0;
  // Passes a duplicate of `fd` as the service's `file`. Returns the descriptor's number in this
  // process where host and agent are one, for the request that names the file; -1 where it went
  // over the socket.
  virtual absl::StatusOr<int> SendFile(uint32_t file, int fd) = 0;
  // A question of the service's own and its answer, of type `answer`, which carries the same
  // args[0]. The agent's refusal is FailedPrecondition or ResourceExhausted, with the errno in its
  // text. Unimplemented for an embedded agent: host and agent are one, and call each other.
  virtual absl::StatusOr<wire::Message> Ask(const wire::Message& /*question*/,
                                            const std::vector<int>& /*fds*/,
                                            wire::MessageType /*answer*/) {
    return absl::UnimplementedError("an embedded agent is asked directly");
  }
  virtual bool embedded() const = 0;
  // What the agent's half of the service told with the hello's answer; the service says what it is.
  virtual uint64_t fact(size_t /*index*/) const { return 0; }
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

// Blocks until the agent has answered, for `answer_ms`, or until `cancel_fd` (unless -1) is
// readable. `may_fall_back` (unless null) is set when that fails and another agent could do
// instead: nobody listens there, or who does hangs up, is silent, talks nonsense, or is an agent of
// another version of the protocol or of the service. Any other refusal has a cause that an embedded
// agent would hide.
absl::StatusOr<std::unique_ptr<AgentLink>> ConnectToAgent(const LinkOptions& options, int cancel_fd,
                                                          bool* may_fall_back = nullptr);

}  // namespace pulse
