#include "services/ops/remote/host_line.h"

#include <signal.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "base/shortage.h"

namespace pulse::ops::remote {
namespace {

constexpr size_t kAtOnce = 16;
// How long a lane that found no room waits, unless an answer comes before.
constexpr std::chrono::milliseconds kRoomWait{2};

}  // namespace

absl::StatusOr<std::unique_ptr<Line>> Line::Open(MessageChannel* channel, const GroupShape& shape) {
  std::unique_ptr<Line> line(new Line(channel));
  PULSE_ASSIGN_OR_RETURN(line->group_, HostMessageGroup::Create(channel, shape));
  // The program's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const absl::Status started = StartThread(
      "an agent's answers", [raw = line.get()] { raw->Run(); }, &line->thread_);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  PULSE_RETURN_IF_ERROR(started);
  return line;
}

Line::~Line() {
  stop_ = true;
  if (group_ != nullptr) group_->Wake();
  if (thread_.joinable()) thread_.join();
  if (group_ != nullptr) group_->End();
}

void Line::Run() {
  while (!stop_) {
    const auto got = group_->Wait(this, kAtOnce, int64_t{1000} * heartbeat_.interval_ms());
    if (!got.ok()) break;  // lost, and all that was outstanding has been told
    const int64_t now = NowNanos();
    if (!heartbeat_.Due(now)) continue;
    if (!heartbeat_.Look(now, channel_->Ping(), group_->outstanding() > 0)) channel_->MarkLost();
  }
}

bool Line::OnResponse(const TakenResponse& response, uint32_t) {
  const std::lock_guard lock(mu_);
  room_.notify_all();
  const auto it = calls_.find(response.id);
  if (it == calls_.end()) return false;  // nobody waits for it any more
  Call* const call = it->second;
  calls_.erase(it);
  call->answer = {response.result, response.data, response.capacity, response.ticket};
  call->done = true;
  call->wake.notify_one();
  return true;
}

void Line::OnLost(uint64_t id, uint32_t) {
  const std::lock_guard lock(mu_);
  room_.notify_all();
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  it->second->lost = true;
  it->second->wake.notify_one();
  calls_.erase(it);
}

void Line::Wake() {
  const std::lock_guard lock(mu_);
  for (const auto& [id, call] : calls_) call->wake.notify_one();
  room_.notify_all();
}

absl::Status Line::Lost() const { return absl::UnavailableError(channel_->LostError().message()); }

Line::Told Line::Tell(MessageKind kind, void* header, size_t header_bytes,
                      std::chrono::milliseconds wait) {
  uint64_t id = 0;
  const uint32_t slot = group_->TakeSlot(&id);
  if (slot == HostMessageGroup::kNoSlot) return Told::kNotSent;
  std::memcpy(header, &id, sizeof(id));
  Call call;
  const bool waits = wait.count() > 0;
  if (waits) {
    const std::lock_guard lock(mu_);
    calls_.emplace(id, &call);
  }
  const absl::Status sent = group_->Submit(slot, id, KindOf(kind), {header, header_bytes}, {});
  const Told told = sent.ok() ? Told::kSent : Told::kNotSent;
  if (!waits) return told;
  std::unique_lock lock(mu_);
  if (sent.ok()) call.wake.wait_for(lock, wait, [&] { return call.done || call.lost; });
  calls_.erase(id);
  lock.unlock();
  if (!call.done) return told;
  Release(call.answer);
  return Told::kAnswered;
}

absl::StatusOr<Line::Answer> Line::Ask(MessageKind kind, void* header, size_t header_bytes,
                                       Piece body, const std::atomic<bool>* interrupted) {
  const auto over = [&] { return interrupted != nullptr && interrupted->load(); };
  Call call;
  while (true) {
    if (channel_->lost()) return Lost();
    if (over()) return absl::CancelledError("interrupted");
    uint64_t id = 0;
    const uint32_t slot = group_->TakeSlot(&id);
    if (slot != HostMessageGroup::kNoSlot) {
      std::memcpy(header, &id, sizeof(id));
      {
        const std::lock_guard lock(mu_);
        calls_.emplace(id, &call);
      }
      const absl::Status sent =
          group_->Submit(slot, id, KindOf(kind), {header, header_bytes}, body);
      std::unique_lock lock(mu_);
      if (sent.ok()) {
        call.wake.wait(lock, [&] { return call.done || call.lost || over(); });
        if (call.done) return call.answer;
        if (call.lost) return Lost();
        calls_.erase(id);
        return absl::CancelledError("interrupted");
      }
      calls_.erase(id);
      if (absl::IsAborted(sent)) return Lost();
      if (!absl::IsUnavailable(sent)) return sent;
    }
    std::unique_lock lock(mu_);
    room_.wait_for(lock, kRoomWait);
  }
}

}  // namespace pulse::ops::remote
