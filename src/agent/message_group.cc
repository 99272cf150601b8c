#include "agent/message_group.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse {

absl::StatusOr<std::unique_ptr<MessageGroup>> MessageGroup::Attach(Session* session,
                                                                   const wire::Message& m,
                                                                   std::vector<UniqueFd> fds) {
  GroupShape shape;
  shape.request_bytes = m.args[1];
  shape.response_bytes = m.args[2];
  shape.requests = m.args[3] > kMaxGroupRequests ? 0 : static_cast<uint32_t>(m.args[3]);
  if (fds.size() != 2) {
    return absl::InvalidArgumentError("attaching a message group takes two descriptors");
  }
  if (!Valid(shape) || m.args[0] > UINT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message group of ", m.args[1], " and ", m.args[2], " bytes and ", m.args[3],
                     " requests; expected powers of two from ", kMinGroupRing, " to ",
                     kMaxGroupRing, " bytes and up to ", kMaxGroupRequests, " requests"));
  }
  PULSE_RETURN_IF_ERROR(Doorbell::CheckRingEnd(fds[1].get()));
  PULSE_RETURN_IF_ERROR(session->CheckMemory(GroupBytes(shape)));
  PULSE_ASSIGN_OR_RETURN(auto region, Region::Map(std::move(fds[0]), GroupBytes(shape)));
  auto* header = reinterpret_cast<GroupHeader*>(region.data());
  if (header->magic != wire::kRegionMagic || header->version != wire::kProtocolVersion) {
    return absl::InvalidArgumentError("the message group carries a wrong magic number or version");
  }
  std::unique_ptr<MessageGroup> g(new MessageGroup);
  g->session_ = session;
  g->id_ = static_cast<uint32_t>(m.args[0]);
  g->shape_ = shape;
  g->region_ = std::move(region);
  g->notifier_ = Doorbell(std::move(fds[1]), &header->host_waiting.value);
  const RingShape ring{shape.request_bytes, shape.request_bytes};
  const ResponseShape response = ResponsesOf(shape);
  const size_t request_bytes = RingBytes(ring);
  const size_t response_bytes = ResponseBytes(response);
  if (session->config().mover == MoverKind::kShared) g->region_.Populate();
  PULSE_ASSIGN_OR_RETURN(g->request_mover_,
                         session->MakeMover(g->region_.data() + RequestOffset(),
                                            m.args[4] + RequestOffset(), request_bytes));
  PULSE_ASSIGN_OR_RETURN(g->response_mover_,
                         session->MakeMover(g->region_.data() + ResponseOffset(shape),
                                            m.args[4] + ResponseOffset(shape), response_bytes));
  PULSE_ASSIGN_OR_RETURN(auto requests, MakeProgressConsumer(g->request_mover_.get(), ring));
  g->requests_ = std::make_unique<ProgressConsumer<>>(requests);
  PULSE_ASSIGN_OR_RETURN(g->responses_, MakeResponseBuffer(g->response_mover_.get(), response));
  // Last, as nothing can fail any more.
  session->AddMemory(GroupBytes(shape));
  g->memory_ = GroupBytes(shape);
  IoBackend& backend = session->engine()->backend();
  g->request_buffer_ = backend.RegisterBuffer(g->request_mover_->local(), request_bytes);
  g->response_buffer_ = backend.RegisterBuffer(g->response_mover_->local(), response_bytes);
  return g;
}

MessageGroup::~MessageGroup() {
  session_->engine()->backend().UnregisterBuffer(request_buffer_);
  session_->engine()->backend().UnregisterBuffer(response_buffer_);
  session_->GiveMemoryBack(memory_);
}

void MessageGroup::Close() {
  closing_ = true;
  open_ -= static_cast<uint32_t>(answers_.size());
  answers_.clear();
  if (!std::exchange(held_, false)) return;
  --open_;
  Forget(held_ticket_);
}

absl::StatusOr<bool> MessageGroup::Take(RingMessage* message, uint64_t* ticket) {
  if (closing_) return false;
  FlushAnswers();
  if (!answers_.empty()) return false;  // a host that takes no responses gets no more done
  if (held_) {
    *message = held_message_;
    *ticket = held_ticket_;
    held_ = false;
    ++taken_now_;
    return true;
  }
  if (open_ >= shape_.requests) return false;
  if (!requests_->Next(message)) {
    if (requests_->corrupt()) {
      return absl::DataLossError("a request ring holds a length that cannot be");
    }
    PULSE_ASSIGN_OR_RETURN(const bool some, requests_->Fetch());
    if (!some || !requests_->Next(message)) return false;
  }
  ++open_;
  ++taken_now_;
  taken_.push_back({message->end, false});
  *ticket = first_ticket_ + taken_.size() - 1;
  return true;
}

void MessageGroup::PutBack(const RingMessage& message, uint64_t ticket) {
  held_ = true;
  --taken_now_;
  held_message_ = message;
  held_ticket_ = ticket;
}

void MessageGroup::Forget(uint64_t ticket) {
  taken_[ticket - first_ticket_].done = true;
  uint64_t end = 0;
  bool any = false;
  while (!taken_.empty() && taken_.front().done) {
    end = taken_.front().end;
    taken_.pop_front();
    ++first_ticket_;
    any = true;
  }
  if (any) requests_->Release(end);
}

void MessageGroup::Answer(uint64_t id, uint16_t kind, int64_t result, std::string data) {
  if (closing_) {
    --open_;
    return;
  }
  if (data.size() > MaxData(8)) {  // there will never be room: it would be in the way for ever
    if (result >= 0) result = -EMSGSIZE;
    data.clear();
  }
  answers_.push_back({id, kind, result, std::move(data)});
  FlushAnswers();
}

bool MessageGroup::TryAnswer(const LateAnswer& answer) {
  Reservation place;
  if (!Reserve(answer.id, answer.kind, answer.data.size(), 8, &place)) return false;
  if (!answer.data.empty()) std::memcpy(place.data, answer.data.data(), answer.data.size());
  Finish(place, answer.result);
  return true;
}

bool MessageGroup::FlushAnswers() {
  bool any = false;
  while (!answers_.empty() && TryAnswer(answers_.front())) {
    answers_.pop_front();
    any = true;
  }
  return any;
}

bool MessageGroup::HasWork() {
  if (closing_ || held_ || !answers_.empty() || open_ >= shape_.requests) return false;
  const absl::StatusOr<bool> some = requests_->Fetch();
  return !some.ok() || *some;  // Take says what is wrong
}

absl::StatusOr<bool> MessageGroup::Deliver(bool now) {
  if (closing_) return false;
  if (responses_->corrupt()) {
    return absl::DataLossError("a response buffer's head was moved where it cannot be");
  }
  const bool any = FlushAnswers();
  PULSE_RETURN_IF_ERROR(requests_->GiveBack());
  const absl::StatusOr<bool> delivered = responses_->Deliver(now);
  if (!delivered.ok()) return delivered;
  if (*delivered) notifier_.Ring();
  return any || *delivered;
}

}  // namespace pulse
