#include "agent/message_service.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse {

void MessageService::OnDescriptor(SessionQueue* queue, const wire::Descriptor& d) {
  queue->Complete({d.tag, -EOPNOTSUPP, d.opcode, d.file, 0});
}

absl::Status MessageService::OnMessage(const wire::Message& m, std::vector<UniqueFd> passed,
                                       wire::Message* ack) {
  // Not the caller's any more: the host is told of a refusal after its doorbell was hung up.
  std::vector<UniqueFd> fds = std::move(passed);
  if (m.type == static_cast<uint32_t>(wire::MessageType::kService)) return Detach(m.args[0]);
  if (m.type != static_cast<uint32_t>(wire::MessageType::kAttachGroup)) {
    return absl::UnimplementedError("the session's service has no such message");
  }
  if (shutting_down_) return absl::FailedPreconditionError("the session is over");
  if (groups_.size() >= session_->config().limits.max_queues) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this session has its ", groups_.size(), " message groups already (limit --max-queues)"));
  }
  for (const auto& g : groups_) {
    if (g->id() == m.args[0]) {
      return absl::AlreadyExistsError("the message group's number is in use");
    }
  }
  PULSE_ASSIGN_OR_RETURN(const uint64_t alignment, OnAttach());
  PULSE_ASSIGN_OR_RETURN(auto group, MessageGroup::Attach(session_, m, std::move(fds)));
  groups_.push_back(std::move(group));
  session_->counters().queues.Set(groups_.size());
  ack->args[1] = alignment;
  return absl::OkStatus();
}

absl::Status MessageService::Detach(uint64_t number) {
  const auto it = std::find_if(groups_.begin(), groups_.end(),
                               [number](const auto& g) { return g->id() == number; });
  if (it == groups_.end() || (*it)->closing()) {
    return absl::NotFoundError("the session has no such message group");
  }
  (*it)->Close();
  closing_ = true;
  DropIdle();
  return absl::OkStatus();
}

void MessageService::DropIdle() {
  if (!closing_) return;
  closing_ = false;
  for (size_t i = 0; i < groups_.size();) {
    if (groups_[i]->closing() && groups_[i]->idle()) {
      OnDetach(groups_[i].get());
      groups_.erase(groups_.begin() + static_cast<ptrdiff_t>(i));
      session_->counters().queues.Set(groups_.size());
      continue;
    }
    closing_ |= groups_[i]->closing();
    ++i;
  }
}

absl::Status MessageService::Poll(size_t batch, size_t* taken) {
  size_t taken_now = 0;
  DropIdle();
  for (const auto& group : groups_) group->BeginRound();
  if (!broken_.ok()) return broken_;
  // In turn: the session's limit must not always stop the same ones.
  if (!groups_.empty()) ++first_group_;
  for (size_t k = 0; k < groups_.size(); ++k) {
    const auto& group = groups_[(first_group_ + k) % groups_.size()];
    for (size_t i = 0; i < std::min(batch, kTogether); ++i) {
      if (in_flight_ >= session_->config().limits.max_requests) break;
      RingMessage message;
      uint64_t ticket = 0;
      const absl::StatusOr<bool> some = group->Take(&message, &ticket);
      if (!some.ok()) {
        // With vmread the end of the host shows here first; the socket says so in order.
        if (group->copies() && session_->HostMayBeGone()) break;
        return some.status();
      }
      if (!*some) break;
      if (!OnRequest(group.get(), message, ticket)) {
        group->PutBack(message, ticket);
        break;
      }
      ++taken_now;
      if (!broken_.ok()) return broken_;
    }
  }
  *taken += taken_now;
  if (taken_now > 0) expects_requests_ = false;
  OnPolled();
  return absl::OkStatus();
}

bool MessageService::HasWork() {
  if (!broken_.ok()) return true;
  const auto done = [](const auto& g) { return g->closing() && g->idle(); };
  if (closing_ && std::any_of(groups_.begin(), groups_.end(), done)) return true;
  if (in_flight_ >= session_->config().limits.max_requests) return false;
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return g->HasWork(); });
}

bool MessageService::HasDeferred() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const auto& g) { return g->HasDeferred(); });
}

bool MessageService::Deliver() {
  if (shutting_down_) return false;
  DropIdle();
  bool any = false;
  for (const auto& group : groups_) {
    if (group->copies() && session_->HostMayBeGone()) continue;
    // What costs nothing is given at once. A call of the mover waits for a batch while this group
    // asks for more: its own requests, which come to an end while it gets no answers.
    any |= DeliverNow(group.get(), !group->copies() || !group->busy());
  }
  return any;
}

bool MessageService::DeliverNow(MessageGroup* group, bool now) {
  const absl::StatusOr<bool> delivered = group->Deliver(now);
  if (!delivered.ok()) {
    broken_ = delivered.status();
    return true;
  }
  expects_requests_ |= *delivered;
  return *delivered;
}

void MessageService::BeginShutdown() {
  shutting_down_ = true;
  for (const auto& group : groups_) group->HangUp();
}

}  // namespace pulse
