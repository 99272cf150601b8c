// Connection: the library's end of a session with the agent: the socket, the control page, the
// agent's doorbell, and whether the agent is still there.
//
// Open and AttachGroup block for an answer, ten seconds at most. The rest does not block. Any
// thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "channel/doorbell.h"
#include "channel/region.h"
#include "channel/wire.h"
#include "services/files/wire.h"

namespace pulse::files {

class Connection {
 public:
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const Options& options);

  // Offers a group's region; `notify` is the ring end of its doorbell. Returns the alignment of
  // memory that direct I/O asks for.
  absl::StatusOr<uint64_t> AttachGroup(uint32_t group, const GroupShape& shape,
                                       const Region& region, int notify);

  // For a group that is about to be offered. None comes twice: the agent may attach one after its
  // question was given up, and its answer must not be taken for that to another.
  uint32_t NewGroupNumber() { return next_group_.fetch_add(1, std::memory_order_relaxed); }

  void Ring() { kick_.Ring(); }
  // The agent's sign of life as it was when this asked for the next one.
  uint64_t Ping() {
    const uint64_t progress = control_->agent_progress.value.load(std::memory_order_relaxed);
    kick_.Kick();
    return progress;
  }
  int socket() const { return socket_.get(); }

  bool lost() const { return lost_.load(std::memory_order_seq_cst); }
  // Asks the kernel, too.
  bool CheckLost();
  // Ends the session: the agent hangs up each group's doorbell when it does not reach into this
  // process's memory any more.
  void Shutdown();
  // For good: all calls have returned. Groups that end from now on wait for that, until
  // wait_until(), of NowNanos().
  void Close();
  int64_t wait_until() const { return wait_until_; }
  // Whoever sleeps hears of it by the socket, and the agent, too.
  void MarkLost() {
    lost_.store(true, std::memory_order_seq_cst);
    Shutdown();
  }
  absl::Status LostError() const;

 private:
  Connection() = default;
  absl::Status Connect(const Options& options);
  absl::StatusOr<wire::Message> Ask(const wire::Message& question, const std::vector<int>& fds,
                                    wire::MessageType answer, UniqueFd* passed);

  std::string path_;
  Region control_region_;
  wire::ControlPage* control_ = nullptr;
  Doorbell kick_;
  UniqueFd notify_;  // of the session's own doorbell, which the file service never rings
  std::mutex mu_;    // one question at a time
  UniqueFd socket_;
  std::atomic<uint32_t> next_group_{0};
  std::atomic<bool> lost_{false};
  int64_t wait_until_ = 0;
};

}  // namespace pulse::files
