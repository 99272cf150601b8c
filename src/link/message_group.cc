#include "link/message_group.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse {
namespace {

constexpr unsigned kSlotBits = 20;
constexpr uint64_t kSlotMask = (uint64_t{1} << kSlotBits) - 1;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Who only looks asks the kernel about the agent this often, at most.
constexpr int64_t kLookNanos = 1'000'000;
// For what is under way in a group that is given back.
constexpr int64_t kDetachNanos = 3'000'000'000;

// Of a group's count of retries, what this thread has seen: of as many groups as have room. Of one
// that was forgotten it hears once more.
struct Seen {
  uint64_t group = 0;
  uint64_t retries = 0;
};
thread_local std::array<Seen, 64> seen_retries;
std::atomic<uint64_t> groups_made{0};

}  // namespace

absl::StatusOr<std::unique_ptr<HostMessageGroup>> HostMessageGroup::Create(
    MessageChannel* channel, const GroupShape& shape) {
  std::unique_ptr<HostMessageGroup> g(new HostMessageGroup);
  g->channel_ = channel;
  g->unique_ = ++groups_made;
  g->shape_ = shape;
  if (!Valid(shape)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a message group of ", shape.request_bytes, " and ", shape.response_bytes, " bytes and ",
        shape.requests, " requests; use powers of two, from ", kMinGroupRing, " to ", kMaxGroupRing,
        " bytes and up to ", kMaxGroupRequests, " requests"));
  }
  PULSE_ASSIGN_OR_RETURN(g->region_, Region::CreateShared(GroupBytes(shape)));
  const uint32_t number = g->number_ = channel->NewGroupNumber();
  auto* header = new (g->region_.data()) GroupHeader();
  header->magic = wire::kRegionMagic;
  header->version = wire::kProtocolVersion;
  header->group = number;
  header->request_bytes = shape.request_bytes;
  header->response_bytes = shape.response_bytes;
  header->requests = shape.requests;
  PULSE_ASSIGN_OR_RETURN(auto doorbell, Doorbell::CreatePair());
  g->notify_ = Doorbell(std::move(doorbell.sleep), &header->host_waiting.value);
  PULSE_ASSIGN_OR_RETURN(g->wake_, WakeEvent::Create());
  PULSE_ASSIGN_OR_RETURN(g->align_,
                         channel->AttachGroup(number, shape, g->region_, doorbell.ring.get()));
  g->attached_ = true;
  g->region_.Populate();
  g->requests_ = std::make_unique<ProgressProducer<>>(MakeProgressProducer(
      g->region_.data() + RequestOffset(), {shape.request_bytes, shape.request_bytes}));
  g->responses_ = MakeResponseReader(g->region_.data() + ResponseOffset(shape), ResponsesOf(shape));
  g->slots_ = std::vector<Slot>(shape.requests);
  for (uint32_t i = 0; i < shape.requests; ++i) {
    g->slots_[i].next = i + 1 < shape.requests ? i + 1 : kNoSlot;
  }
  return g;
}

bool HostMessageGroup::End() {
  // A group that could not be attached: was it refused, the agent has hung up already.
  if (region_.data() == nullptr || AgentLetGo(channel_->wait_until())) return true;
  // Of one that was refused, or whose answer did not come in time, the agent knows nothing to give
  // back, or not yet.
  if (attached_ && channel_->wait_until() == 0) {
    // An agent that is gone hangs up, too, if not at the very moment.
    const bool asked = channel_->DetachGroup(number_).ok() || channel_->CheckLost();
    if (asked && AgentLetGo(NowNanos() + kDetachNanos)) return true;
  }
  Log(LogLevel::kWarn,
      "an agent that does not answer may still write to a message group's memory, "
      "which therefore stays mapped");
  region_.Forget();
  return false;
}

bool HostMessageGroup::AgentLetGo(int64_t until) const {
  if (notify_.end() < 0) return true;  // it was never offered
  while (true) {
    pollfd bell{notify_.end(), POLLRDHUP, 0};
    const int64_t left = std::max<int64_t>(0, until - NowNanos());
    const timespec time{left / 1'000'000'000, left % 1'000'000'000};
    const int n = ppoll(&bell, 1, &time, nullptr);
    if (n < 0 && errno == EINTR) continue;
    return n > 0;
  }
}

// A doorbell that was hung up rings no more, though the socket may still stand.
bool HostMessageGroup::AgentIsGone() {
  if (channel_->CheckLost()) return true;
  if (AgentLetGo(0)) channel_->MarkLost();
  return channel_->lost();
}

// --- the table

uint32_t HostMessageGroup::TakeSlot(uint64_t* id) {
  uint64_t top = free_.load(std::memory_order_acquire);
  while (true) {
    const auto slot = static_cast<uint32_t>(top);
    if (slot == kNoSlot) {
      NoteRetry();
      return kNoSlot;
    }
    const uint64_t next =
        ((top >> 32) + 1) << 32 | slots_[slot].next.load(std::memory_order_relaxed);
    if (!free_.compare_exchange_weak(top, next, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      continue;
    }
    outstanding_.fetch_add(1, std::memory_order_seq_cst);
    *id = uint64_t{++slots_[slot].generation} << kSlotBits | slot;
    return slot;
  }
}

void HostMessageGroup::FreeSlot(uint32_t slot) {
  uint64_t top = free_.load(std::memory_order_relaxed);
  while (true) {
    slots_[slot].next.store(static_cast<uint32_t>(top), std::memory_order_relaxed);
    const uint64_t next = ((top >> 32) + 1) << 32 | slot;
    if (free_.compare_exchange_weak(top, next, std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      break;
    }
  }
  const bool last = outstanding_.fetch_sub(1, std::memory_order_seq_cst) == 1;
  if (last && (hungry_.load(std::memory_order_seq_cst) > 0 || TakeFresh())) WakeAll();
}

void HostMessageGroup::NoteRetry() {
  retries_.fetch_add(1, std::memory_order_seq_cst);
  fresh_.store(true, std::memory_order_seq_cst);
  if (outstanding() == 0 && TakeFresh()) WakeAll();
}

bool HostMessageGroup::RetryUnseen() const {
  const Seen& s = seen_retries[unique_ % seen_retries.size()];
  return retries_.load(std::memory_order_seq_cst) != (s.group == unique_ ? s.retries : 0);
}

bool HostMessageGroup::SeeRetry() {
  if (!RetryUnseen()) return false;
  seen_retries[unique_ % seen_retries.size()] = {unique_, retries_.load(std::memory_order_seq_cst)};
  return true;
}

void HostMessageGroup::WakeAll() {
  std::lock_guard lock(mu_);
  if (leader_) {
    woken_all_ = true;
    wake_.Set();
  }
  cv_.notify_all();
}

uint32_t HostMessageGroup::Claim(uint64_t id) {
  const auto slot = static_cast<uint32_t>(id & kSlotMask);
  if (id == 0 || slot >= slots_.size()) return kNoSlot;
  uint64_t expected = id;
  return slots_[slot].id.compare_exchange_strong(expected, 0, std::memory_order_acq_rel) ? slot
                                                                                         : kNoSlot;
}

absl::Status HostMessageGroup::Submit(uint32_t slot, uint64_t id, uint16_t kind, Piece header,
                                      Piece body, uint64_t align) {
  if (channel_->lost()) {
    FreeSlot(slot);
    return channel_->LostError();
  }
  slots_[slot].id.store(id, std::memory_order_seq_cst);
  // Whoever reports the loss looks at the slots after it: he sees this one, or we see the loss.
  if (channel_->lost()) {
    if (Claim(id) == kNoSlot) return absl::OkStatus();  // reported with the rest
    FreeSlot(slot);
    return channel_->LostError();
  }
  const PushResult pushed = requests_->TryPush(kind, header, body, align);
  if (pushed == PushResult::kDone) {
    channel_->Ring();
    return absl::OkStatus();
  }
  // Unless the loss of the agent was noticed just now, and this was reported with the rest.
  if (Claim(id) == kNoSlot) return absl::OkStatus();
  FreeSlot(slot);
  if (pushed == PushResult::kRetry) {
    NoteRetry();
    return absl::Status(absl::StatusCode::kUnavailable, "");
  }
  return absl::InvalidArgumentError("the request is longer than its ring takes");
}

// --- completions

size_t HostMessageGroup::Take(Taker* taker, size_t max) {
  size_t n = 0;
  TakenResponse r;
  while (n < max && responses_->Take(&r)) {
    const uint32_t slot = Claim(r.id);
    if (slot == kNoSlot) {  // an answer to nothing
      responses_->Done(r.ticket);
      continue;
    }
    if (!taker->OnResponse(r, slot)) responses_->Done(r.ticket);
    ++n;
    FreeSlot(slot);
  }
  if (n < max && responses_->corrupt()) channel_->MarkLost();
  return n;
}

size_t HostMessageGroup::ReportLost(Taker* taker, size_t max) {
  size_t n = 0;
  for (uint32_t i = 0; i < slots_.size() && n < max; ++i) {
    const uint64_t id = slots_[i].id.load(std::memory_order_seq_cst);
    if (Claim(id) == kNoSlot) continue;
    taker->OnLost(id, i);
    ++n;
    FreeSlot(i);
  }
  return n;
}

// --- waiting

absl::StatusOr<size_t> HostMessageGroup::Wait(Taker* taker, size_t max, int64_t timeout_us) {
  if (max == 0) return absl::InvalidArgumentError("no room for a completion");
  const int64_t until = timeout_us < 0               ? kNever
                        : timeout_us > kNever / 2000 ? kNever
                        : timeout_us == 0            ? 0
                                                     : NowNanos() + timeout_us * 1000;
  bool slept = false;
  absl::StatusOr<size_t> result = size_t{0};
  while (true) {
    size_t n = Take(taker, max);
    if (n == 0 && channel_->lost()) {
      n = ReportLost(taker, max);
      if (n == 0) {
        result = channel_->LostError();
        break;
      }
    }
    result = n;
    if (n > 0) break;
    if (wakes_.load(std::memory_order_relaxed) > 0) {
      std::lock_guard lock(mu_);
      if (wakes_ > 0) {
        // What wakes all may be for the leader, who has not seen it yet.
        if (--wakes_ == 0 && !woken_all_) wake_.Clear();
        break;
      }
    }
    if (timeout_us == 0) {
      const int64_t now = NowNanos();
      int64_t looked = looked_.load(std::memory_order_relaxed);
      if (now - looked < kLookNanos ||
          !looked_.compare_exchange_strong(looked, now, std::memory_order_relaxed) ||
          !AgentIsGone()) {
        break;
      }
      continue;
    }
    if (NowNanos() >= until) break;
    // The agent gives space back by and by. With nothing outstanding no completion will tell of it.
    if (outstanding() == 0 && SeeRetry()) break;
    Sleep(until);
    slept = true;
  }
  if (slept) {
    // Whoever was woken and leaves without having become the leader passes it on.
    std::lock_guard lock(mu_);
    if (!leader_ && followers_ > 0) cv_.notify_one();
  }
  return result;
}

void HostMessageGroup::Sleep(int64_t until) {
  std::unique_lock lock(mu_);
  const uint32_t hungry = RetryUnseen() ? 1 : 0;
  hungry_.fetch_add(hungry, std::memory_order_seq_cst);
  // From here on whoever makes it so wakes us.
  const bool for_nothing = hungry > 0 && outstanding() == 0;
  if (leader_) {
    ++followers_;
    if (!for_nothing && until == kNever) {
      cv_.wait(lock);
    } else if (!for_nothing) {
      cv_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(until)));
    }
    --followers_;
    hungry_.fetch_sub(hungry, std::memory_order_seq_cst);
    return;
  }
  leader_ = true;
  lock.unlock();
  notify_.PrepareSleep();
  pollfd fds[3] = {
      {notify_.fd(), POLLIN, 0}, {channel_->socket(), POLLRDHUP, 0}, {wake_.fd(), POLLIN, 0}};
  if (!for_nothing && !responses_->Ready() && !channel_->lost()) {
    timespec left{};
    if (until != kNever) {
      const int64_t nanos = std::max<int64_t>(0, until - NowNanos());
      left = {nanos / 1'000'000'000, nanos % 1'000'000'000};
    }
    if (ppoll(fds, 3, until == kNever ? nullptr : &left, nullptr) > 0 && fds[1].revents != 0) {
      channel_->CheckLost();
    }
  }
  notify_.FinishSleep();
  if (notify_.hung_up()) channel_->MarkLost();  // nobody would wake us again
  lock.lock();
  leader_ = false;
  hungry_.fetch_sub(hungry, std::memory_order_seq_cst);
  if (std::exchange(woken_all_, false) && wakes_ == 0) wake_.Clear();
  if (followers_ > 0) cv_.notify_one();
}

void HostMessageGroup::Wake() {
  std::lock_guard lock(mu_);
  ++wakes_;
  wake_.Set();
}

}  // namespace pulse
