// AgentConnection: one connection of a host session to one agent, from its start to the agent's
// death: the link, the queues laid out for it, and who receives its completions. A session goes
// from one connection to the next as agents come and go; outputs and the fetch stage stay with the
// one they began on, and share its ownership, since their bytes lie in its queues.
//
// Guarded by HostSession::mu(), except that `link` is thread-safe, `dead` may be read by anyone,
// and the producer end of a leased queue belongs to whoever leased it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "channel/queue_pair.h"
#include "link/agent_link.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {

// Passes a duplicate of `fd` to the agent as `d`.file, for the kOpen `d` that is to follow.
inline absl::Status PassFile(AgentLink* link, int fd, wire::Descriptor* d) {
  const absl::StatusOr<int> inline_fd = link->SendFile(d->file, fd);
  if (!inline_fd.ok()) return inline_fd.status();
  if (*inline_fd >= 0) {
    d->flags |= kFlagInlineFd;
    d->aux = static_cast<uint64_t>(*inline_fd);
  }
  return absl::OkStatus();
}

// Requests that a lost agent may still carry out.
enum class OutstandingWork : uint8_t {
  kNone,        // its process has ended
  kUnanswered,  // it was not seen to end: what it was asked and has not answered
  kAnything,    // it is not to be trusted
};

// Receives the completions of one file number.
class CompletionTarget {
 public:
  virtual ~CompletionTarget() = default;
  // Called with mu() held.
  virtual void OnCompletion(const wire::Completion& c) = 0;
  // The agent is lost and will answer nothing more. Called once, with mu() held. True asks for a
  // call of Rescue(), until which the target must stay alive.
  virtual bool OnAgentDeath() = 0;
  // Finishes what the agent left undone. Without mu(); may block on I/O.
  virtual void Rescue(OutstandingWork) {}
};

// A queue and the producer's position in its arena. `position` counts arena bytes handed out,
// free-running; written by the producer, read by whoever counts.
struct StreamQueue {
  Region region;
  HostQueue queue;
  std::atomic<uint64_t> position{0};

  void Advance(uint64_t bytes) {
    position.store(position.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
};

struct AgentConnection {
  // By queue id; null: free, or being attached.
  std::vector<std::unique_ptr<StreamQueue>> queues;
  std::vector<bool> taken;
  std::vector<StreamQueue*> free_streams;
  size_t leased = 0;
  size_t attaching = 0;  // questions to the agent that are not answered yet
  uint32_t next_file = 1;
  std::unordered_map<uint32_t, CompletionTarget*> targets;
  bool leader = false;  // a waiter sleeps on the agent's doorbell
  size_t followers = 0;
  // Not to be trusted any more: the session will part with it.
  bool suspect = false;
  std::atomic<bool> dead{false};
  std::unique_ptr<AgentLink> link;  // last: it goes before the memory it works on
};

}  // namespace pulse::lsm
