// MessageGroup: the agent's end of one message group (channel/group_wire.h): its region, request
// ring and response buffer, and the requests that were taken from it and not yet answered. DDS 4.3.
//
// An answer whose size is known at once can be given its place in the response buffer before the
// work starts (Reserve, in the order of calls): the data then land where the host reads them. Every
// other answer takes its place when it is known (Answer). All are delivered as they finish.
//
// Owned by one service object; worker's thread; never blocks. The host is untrusted.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "agent/session.h"
#include "channel/group_wire.h"
#include "channel/progress_ring.h"
#include "channel/response_buffer.h"

namespace pulse {

class MessageGroup {
 public:
  // `fds`: region and the ring end of the group's doorbell. Everything is checked.
  static absl::StatusOr<std::unique_ptr<MessageGroup>> Attach(Session* session,
                                                              const wire::Message& m,
                                                              std::vector<UniqueFd> fds);
  ~MessageGroup();

  // The next request; false when there is none for now or so many are under way that it must wait.
  // The message stays as it is until Forget(ticket).
  absl::StatusOr<bool> Take(RingMessage* message, uint64_t* ticket);
  // A request for which there was no room: Take gives it again.
  void PutBack(const RingMessage& message, uint64_t ticket);
  // A round of looking at the groups begins; whether this one gave a request in it.
  void BeginRound() { taken_now_ = 0; }
  bool busy() const { return taken_now_ > 0; }
  // The message's bytes are not needed any more.
  void Forget(uint64_t ticket);

  // The place of an answer of `bytes`, in the order of calls; false when there is no room for now.
  // Counts as an answer under way until Finish.
  bool Reserve(uint64_t id, uint16_t kind, uint64_t bytes, uint64_t align, Reservation* out) {
    return responses_->Allocate(id, kind, bytes, out, align);
  }
  void Finish(const Reservation& reservation, int64_t result) {
    --open_;
    responses_->Finish(reservation.ticket, result);
  }
  // Any other answer; `data` are copied. More than MaxData(8) cannot be given: the result is
  // -EMSGSIZE, unless it is an error, and there are none.
  void Answer(uint64_t id, uint16_t kind, int64_t result, std::string data);

  uint64_t undelivered() const { return responses_->undelivered(); }
  uint64_t MaxData(uint64_t align) const { return responses_->MaxData(align); }
  bool HasWork();
  // An answer, or a request, waits for the host to make room.
  bool HasDeferred() const { return !answers_.empty() || held_; }
  // Gives the host what has finished; wakes it.
  absl::StatusOr<bool> Deliver(bool now);
  // The session ends: nothing more is written to the host's memory. Says so by hanging up.
  void HangUp() { notifier_ = Doorbell(); }
  // The host gives the group back: no more requests are taken, and answers are dropped that have no
  // place yet. Reserve is not called any more, but Answer. Once it is idle, nobody uses it.
  void Close();
  bool closing() const { return closing_; }
  bool idle() const { return open_ == 0 && taken_.empty(); }

  uint32_t id() const { return id_; }
  bool copies() const { return request_mover_->kind() != MoverKind::kShared; }
  int request_buffer() const { return request_buffer_; }
  int response_buffer() const { return response_buffer_; }

 private:
  struct LateAnswer {
    uint64_t id;
    uint16_t kind;
    int64_t result;
    std::string data;
  };
  struct Taken {
    uint64_t end;
    bool done;
  };

  MessageGroup() = default;
  bool TryAnswer(const LateAnswer& answer);
  bool FlushAnswers();

  Session* session_ = nullptr;
  uint32_t id_ = 0;
  GroupShape shape_;
  uint64_t memory_ = 0;  // that the session counts
  Region region_;
  Doorbell notifier_;
  std::unique_ptr<Mover> request_mover_;
  std::unique_ptr<Mover> response_mover_;
  int request_buffer_ = -1;
  int response_buffer_ = -1;
  std::unique_ptr<ProgressConsumer<>> requests_;
  std::unique_ptr<ResponseBuffer<>> responses_;
  std::deque<Taken> taken_;
  uint64_t first_ticket_ = 0;
  uint32_t open_ = 0;  // requests taken and not answered
  size_t taken_now_ = 0;
  bool closing_ = false;
  bool held_ = false;
  RingMessage held_message_;
  uint64_t held_ticket_ = 0;
  std::deque<LateAnswer> answers_;  // at most as many as `open_` allows
};

}  // namespace pulse
