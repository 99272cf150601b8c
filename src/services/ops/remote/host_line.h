// Line: one message group to the agent's half of the operators, shared by the lanes of an engine. A
// lane asks and sleeps until its answer is there; a thread of the line takes answers as they come,
// and watches the agent: one that is gone, or that shows no sign of life while it owes answers, is
// lost, and so is every question. Answers stay in the agent's memory until they are released.
//
// Thread-safe. Ask blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "channel/group_wire.h"
#include "link/heartbeat.h"
#include "link/message_channel.h"
#include "link/message_group.h"
#include "services/ops/remote/wire.h"

namespace pulse::ops::remote {

class Line : private HostMessageGroup::Taker {
 public:
  // Without a sign of life for so long, an agent that owes something counts as lost.
  static constexpr int64_t kHangMs = 4000;

  // Attaches the group; `channel` outlives it.
  static absl::StatusOr<std::unique_ptr<Line>> Open(MessageChannel* channel,
                                                    const GroupShape& shape);
  // Nobody asks any more. While the channel is open, the agent gets its group back.
  ~Line() override;

  const GroupShape& shape() const { return group_->shape(); }
  // The longest request, header and body.
  uint64_t most() const { return group_->MaxMessage(8); }

  // An answer: the agent may still write to `data`.
  struct Answer {
    int64_t result = 0;
    const char* data = nullptr;
    uint64_t bytes = 0;  // at `data`; an honest result is not larger
    uint32_t ticket = 0;
  };
  // `header` begins with the id, which is set here. Cancelled once `interrupted` is true (and Wake
  // was called): the answer is dropped when it comes. Unavailable: the agent is lost.
  absl::StatusOr<Answer> Ask(MessageKind kind, void* header, size_t header_bytes, Piece body,
                             const std::atomic<bool>* interrupted);
  enum class Told { kNotSent, kSent, kAnswered };
  // Sends a request whose answer says nothing; not where there is no room. Waits at most so long
  // for it: what was not answered, an agent may not see whose host leaves.
  Told Tell(MessageKind kind, void* header, size_t header_bytes,
            std::chrono::milliseconds wait = std::chrono::milliseconds(0));
  void Release(const Answer& answer) { group_->Release(answer.ticket); }
  // Whoever waits looks at `interrupted` again.
  void Wake();

 private:
  struct Call {
    std::condition_variable wake;
    bool done = false;
    bool lost = false;
    Answer answer;
  };

  explicit Line(MessageChannel* channel) : channel_(channel), heartbeat_(kHangMs) {}
  void Run();
  bool OnResponse(const TakenResponse& response, uint32_t slot) override;
  void OnLost(uint64_t id, uint32_t slot) override;
  absl::Status Lost() const;

  MessageChannel* const channel_;
  std::unique_ptr<HostMessageGroup> group_;
  AgentHeartbeat heartbeat_;  // the thread's
  std::atomic<bool> stop_{false};
  std::mutex mu_;
  std::condition_variable room_;     // an answer has come: there may be room again
  std::map<uint64_t, Call*> calls_;  // by id
  std::thread thread_;
};

}  // namespace pulse::ops::remote
