#include "services/kv/agent/agent_lane.h"

#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "base/log.h"
#include "services/kv/agent/agent_flow.h"

namespace pulse::kv {

AgentLane::~AgentLane() {
  if (link_ != nullptr) counters_->attached.fetch_sub(1, std::memory_order_relaxed);
}

void AgentLane::Attach(std::shared_ptr<LaneLink> link) {
  if (link_ != nullptr) Lose();
  link_ = std::move(link);
  broken_ = false;
  max_bulk_ = link_->facts.max_bulk;
  wants_auth_ = link_->facts.wants_auth != 0;
  watch_ = loop_->Watch(link_->notify.fd(), [l = link_.get()] { l->notify.Drain(); });
  counters_->attached.fetch_add(1, std::memory_order_relaxed);
  if (watch_ == nullptr) Break();
}

void AgentLane::Lose() {
  if (link_ == nullptr) return;
  // What it had answered before is there.
  if (!broken_) TakeReplies();
  broken_ = true;
  writer_.reset();
  pacer_.Gone();
  expected_ = 0;
  waiting_.clear();
  controls_.clear();
  free_.clear();
  counters_->attached.fetch_sub(1, std::memory_order_relaxed);
  counters_->lost.fetch_add(1, std::memory_order_relaxed);
  for (const Place& place : std::exchange(places_, {})) {
    if (place.flow != nullptr) place.flow->OnLost();
  }
  watch_.reset();
  link_.reset();
}

// Who keeps the link sees its end, and calls Lose.
void AgentLane::Break() {
  if (std::exchange(broken_, true)) return;
  LogOnce("kv-host-broken", "the store breaks the protocol of its agents: it is left");
  shutdown(link_->socket.get(), SHUT_RDWR);
}

int32_t AgentLane::Enter(AgentFlow* flow) {
  if (!free_.empty()) {
    const int32_t session = free_.back();
    free_.pop_back();
    places_[static_cast<size_t>(session)] = {flow, false};
    return session;
  }
  if (places_.size() == kMostSessions) return -1;
  places_.push_back({flow, false});
  return static_cast<int32_t>(places_.size() - 1);
}

void AgentLane::Leave(int32_t session, bool opened, bool closed) {
  Place& place = places_[static_cast<size_t>(session)];
  if (!opened) {
    place = {};
    free_.push_back(session);
    return;
  }
  place = {nullptr, !closed};
  controls_.push_back({session, LaneOp::kClose, closed});
}

// A number is free once both sides have said that its session has ended.
void AgentLane::SendControls() {
  size_t sent = 0;
  for (; sent < controls_.size(); ++sent) {
    const Control& control = controls_[sent];
    if (!TrySend(control.session, control.op, 0, "", "")) break;
    if (control.closed) free_.push_back(control.session);
  }
  controls_.erase(controls_.begin(), controls_.begin() + static_cast<ptrdiff_t>(sent));
}

bool AgentLane::TrySend(int32_t session, LaneOp op, uint8_t flags, std::string_view key,
                        std::string_view value) {
  if (!attached()) return true;  // Lose tells the flow
  for (int tries = 0; tries < 2; ++tries) {
    if (!writer_.has_value()) {
      QueuePair& requests = *link_->requests;
      if (!requests.HasRoom() && !requests.Reclaim()) Break();
      if (broken_) return true;
      if (!requests.HasRoom()) return false;
      writer_.emplace(requests.BeginRequests());
    }
    if (writer_->Add(static_cast<WireOp>(op), key, static_cast<uint64_t>(session), value, 0,
                     flags)) {
      return true;
    }
    Submit();  // an empty one takes it
  }
  return false;
}

void AgentLane::Submit() {
  counters_->transfers.fetch_add(1, std::memory_order_relaxed);
  counters_->requests.fetch_add(writer_->count(), std::memory_order_relaxed);
  writer_->Finish();
  writer_.reset();
  link_->requests->Submit();
  link_->kick.Ring();
  pacer_.Gone();
  ++expected_;
  look_until_ = loop_->now() + redis::GroupPacer::kLongestLookNanos;
}

// To wake it costs the host as much as tens of requests.
bool AgentLane::MustPace() {
  if (!is_alone_ || link_->header()->host_sleeping.value.load(std::memory_order_relaxed) == 0 ||
      pacer_.MayGo(loop_->now())) {
    return false;
  }
  loop_->LookUntil(pacer_.goes_at());
  return true;
}

void AgentLane::WaitForRoom(AgentFlow* flow) { waiting_.push_back(flow); }

void AgentLane::Forget(AgentFlow* flow) { std::erase(waiting_, flow); }

void AgentLane::EndTurn() {
  if (!attached()) return;
  SendControls();
  // Those that wait have turns; each sends a fragment's worth.
  bool more = !waiting_.empty();
  while (more && attached()) {
    more = false;
    for (AgentFlow* flow : std::exchange(waiting_, {})) more |= flow->SendMore();
    more = more && !waiting_.empty();
  }
  if (!attached()) return;
  const bool has_batch = writer_.has_value() && writer_->count() > 0;
  const bool is_held = has_batch && MustPace();
  if (has_batch && !is_held) Submit();
  // The host would pay for waking the loop. Not all transfers have replies.
  if (loop_->now() >= look_until_) expected_ = 0;
  if (is_alone_ && !is_held && expected_ > 0) loop_->LookUntil(look_until_);
  const bool waits = !waiting_.empty() || !controls_.empty();
  link_->header()->agent_waits.value.store(waits ? 1 : 0, std::memory_order_relaxed);
}

void AgentLane::Poll() {
  if (!attached()) return;
  TakeReplies();
}

bool AgentLane::TakeReplies() {
  bool any = false;
  while (attached()) {
    QueuePair& replies = *link_->replies;
    const char* buffer = nullptr;
    const QueuePair::Found found = replies.FindRequests(&buffer);
    if (found == QueuePair::Found::kNothing) break;
    const ResponseReader reader(buffer, link_->facts.buffer_bytes);
    const size_t count = found == QueuePair::Found::kBatch ? reader.count() : 0;
    if (count == 0 || count > link_->facts.batch) {
      Break();
      break;
    }
    for (size_t i = 0; i < count; ++i) {
      if (TakeReply(reader, i)) continue;
      Break();
      return true;
    }
    replies.Answer();
    if (expected_ > 0) --expected_;
    any = true;
  }
  if (any && attached()) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (link_->header()->host_waits.value.load(std::memory_order_relaxed) != 0) link_->kick.Ring();
  }
  return any;
}

bool AgentLane::TakeReply(const ResponseReader& reader, size_t index) {
  ResponseDescriptor d;
  std::string_view bytes;
  if (!reader.Read(index, &d, &bytes) || d.session >= places_.size()) return false;
  Place& place = places_[d.session];
  switch (static_cast<LaneStatus>(d.status)) {
    case LaneStatus::kReply:
      if (place.flow == nullptr) return place.ending;  // it was on its way
      return place.flow->OnReply(bytes, d.flags, max_reply_);
    case LaneStatus::kClosed:
      if (place.flow != nullptr) {
        place.flow->OnClosed(bytes);
        return true;
      }
      if (!place.ending) return false;
      place.ending = false;
      for (Control& control : controls_) {
        if (control.session != d.session || control.op != LaneOp::kClose) continue;
        control.closed = true;  // it is free once the host is told
        return true;
      }
      free_.push_back(d.session);
      return true;
    default:
      return false;
  }
}

bool AgentLane::HasWork() {
  if (!attached()) return false;
  const char* buffer = nullptr;
  if (link_->replies->FindRequests(&buffer) != QueuePair::Found::kNothing) return true;
  if (waiting_.empty() && controls_.empty()) return false;
  return !link_->requests->Reclaim() || link_->requests->HasRoom();
}

void AgentLane::BeginSleep() {
  if (attached()) link_->notify.PrepareSleep();
}

void AgentLane::EndSleep() {
  if (attached()) link_->notify.LowerFlag();
}

}  // namespace pulse::kv
