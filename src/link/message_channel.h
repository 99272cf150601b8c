// MessageChannel: the host's end of a session whose requests are messages in groups
// (message_group.h): the link to the agent, and whether the agent is still there. DDS 4.2.
//
// Open and AttachGroup block for the agent's answer, as link/agent_link.h says. The rest does not
// block. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "channel/group_wire.h"
#include "link/agent_link.h"

namespace pulse {

class MessageChannel {
 public:
  // `start_hint`: how an agent is started that offers the service, for the error where none listens
  // (NotFound, Unavailable). FailedPrecondition or ResourceExhausted when it refuses.
  static absl::StatusOr<std::unique_ptr<MessageChannel>> Open(const LinkOptions& options,
                                                              const std::string& start_hint);

  // Offers a group's region; `notify` is the ring end of its doorbell. Returns the alignment of
  // memory that the service asks for.
  absl::StatusOr<uint64_t> AttachGroup(uint32_t group, const GroupShape& shape,
                                       const Region& region, int notify);
  // Gives it back. The agent has let go of it only when it hangs up the doorbell.
  absl::Status DetachGroup(uint32_t group);
  // For a group that is about to be offered. None comes twice: the agent may attach one after its
  // question was given up, and its answer must not be taken for that to another.
  uint32_t NewGroupNumber() { return next_group_.fetch_add(1, std::memory_order_relaxed); }

  void Ring() { link_->kick().Ring(); }
  // The agent's sign of life as it was when this asked for the next one.
  uint64_t Ping() {
    const uint64_t progress = link_->Progress();
    link_->Ping();
    return progress;
  }
  int socket() const { return link_->death_fd(); }
  // What the agent's half of the service told with the hello's answer.
  uint64_t fact(size_t index) const { return link_->fact(index); }

  bool lost() const { return lost_.load(std::memory_order_seq_cst); }
  // Asks the kernel, too.
  bool CheckLost();
  // For good: all calls have returned. Ends the session: the agent hangs up each group's doorbell
  // when it does not reach into this process's memory any more. Groups that end from now on wait
  // for that, until wait_until(), of NowNanos().
  void Close();
  int64_t wait_until() const { return wait_until_; }
  // Whoever sleeps hears of it by the socket, and the agent, too.
  void MarkLost() {
    lost_.store(true, std::memory_order_seq_cst);
    link_->Close();
  }
  // Aborted.
  absl::Status LostError() const;

 private:
  MessageChannel() = default;

  std::string path_;
  std::unique_ptr<AgentLink> link_;
  std::atomic<uint32_t> next_group_{0};
  std::atomic<bool> lost_{false};
  int64_t wait_until_ = 0;
};

}  // namespace pulse
