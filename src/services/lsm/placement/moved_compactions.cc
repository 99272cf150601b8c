// What CompactionPlacer does on the threads of compactions that it has moved to the agent's CPUs,
// and where others want those.
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "services/lsm/placement/compaction_placer.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kPieceNanos = 100'000'000;  // between two looks
// Between two compactions: a crowd that the first has met says nothing to the second.
constexpr int64_t kLongAgoNanos = 10'000'000'000;
constexpr double kBetterHere = 1.5;  // times what a compaction has of a CPU there

}  // namespace

void CompactionPlacer::MoveHere(const Key& job, const std::string& home) {
  std::shared_ptr<TaskSlots::Slot> slot = context_->task_slots.Take(options_.tasks());
  const bool moved = slot != nullptr && threads_.Move(home, std::move(slot));
  std::lock_guard lock(mu_);
  if (moved) {
    parts_.erase(gettid());
    if (parts_.empty()) {
      // Compactions that are shorter than a look takes are looked at together.
      const int64_t now = NowNanos();
      if (crowd_.IsThere() || now - left_at_ > kLongAgoNanos) {
        moved_share_ = CpuShare();
        crowd_.BeginLooking();
      }
      look_at_.store(0, std::memory_order_relaxed);
    }
    parts_[gettid()] = {job, home};
    if (adaptive_) {
      moved_share_.Drop(gettid());  // from a job whose end was not told
      NoteLocked();
    }
    ThreadPlacement::SetOnAgent(context_, weak_from_this());
    return;
  }
  compacting_.Begin();
  const auto it = jobs_.find(job);
  // Nor is it a failure where this thread cannot go there.
  if (it != jobs_.end()) ReturnedLocked(&it->second, /*full=*/true);
  Add(&context_->session->counters().whole_returned, 1);
}

void CompactionPlacer::BeforeAppend() {
  context_->flush_first.GiveWay(context_->task_slots.taken());
  if (!adaptive_) return;  // it was told where
  const std::optional<double> share = ShareInACrowd();
  if (!share) return;
  if (ComesBack(*share)) {
    GoOnHere(*share);
  } else {
    look_at_.store(NowNanos() + kPieceNanos, std::memory_order_relaxed);
  }
}

std::optional<double> CompactionPlacer::ShareInACrowd() {
  if (NowNanos() < look_at_.load(std::memory_order_relaxed)) return std::nullopt;
  std::lock_guard lock(mu_);
  // While they are crowded each goes back as it comes.
  const std::optional<double> share = LookLocked();
  if (share) return share;
  look_at_.store(NowNanos() + kPieceNanos, std::memory_order_relaxed);
  return std::nullopt;
}

std::optional<double> CompactionPlacer::ShareAtTheEnd() {
  std::lock_guard lock(mu_);
  if (parts_.count(gettid()) == 0) return std::nullopt;
  const std::optional<double> share = LookLocked();
  NoteLocked();
  moved_share_.Drop(gettid());
  left_at_ = NowNanos();
  return share;
}

void CompactionPlacer::NoteLocked() {
  const std::vector<pid_t> threads = MovedLocked();
  moved_share_.Note(threads, ServedThere(threads));
}

std::optional<double> CompactionPlacer::LookLocked() {
  const std::vector<pid_t> threads = MovedLocked();
  return crowd_.Look(moved_share_.Take(threads, options_.agent_cores(), ServedThere(threads)));
}

std::vector<pid_t> CompactionPlacer::MovedLocked() const {
  std::vector<pid_t> threads;
  for (const auto& [tid, part] : parts_) threads.push_back(tid);
  return threads;
}

// Flushes that are there now, too, are no others.
int64_t CompactionPlacer::ServedThere(const std::vector<pid_t>& moved) const {
  return threads_.NanosThere(moved) +
         static_cast<int64_t>(
             context_->session->counters().agent_flush_nanos.load(std::memory_order_relaxed));
}

bool CompactionPlacer::IsTooLittle(double share) {
  const double others = WantedByOthers();
  const double here = host_load_.cores() / (others + compacting_.size() + coming_back_ + 1);
  return std::min(1.0, here) >= kBetterHere * share;
}

// One after the other, lest all find the host empty.
bool CompactionPlacer::ComesBack(double share) {
  std::lock_guard lock(coming_back_mu_);
  if (!IsTooLittle(share)) return false;
  ++coming_back_;
  return true;
}

void CompactionPlacer::IsBack() {
  compacting_.Begin();
  --coming_back_;
}

void CompactionPlacer::CrowdedLocked(double share) {
  const double pause = crowd_.CameBack(NowSeconds());
  if (pause == 0) return;
  Log(LogLevel::kInfo,
      absl::StrCat("placement of compactions: none goes to the agent for ", pause,
                   " s: others want the agent's CPUs, of one of which a compaction there has had ",
                   static_cast<int>(share * 100), " %"));
}

bool CompactionPlacer::IsCrowdedLocked() const {
  return adaptive_ && crowd_.KeepsAway(NowSeconds());
}

void CompactionPlacer::GoOnHere(double share) {
  const std::optional<int64_t> nanos = threads_.Back();
  // Of a compaction whose end was not told.
  ThreadPlacement::SetOnHost(context_, true);
  if (!nanos) {
    --coming_back_;
    return;
  }
  IsBack();
  AtomicCounters& counters = context_->session->counters();
  Add(&counters.agent_compaction_nanos, static_cast<uint64_t>(*nanos));
  Add(&counters.whole_returned, 1);
  std::lock_guard lock(mu_);
  CrowdedLocked(share);
  const auto part = parts_.find(gettid());
  if (part == parts_.end()) return;
  const auto job = jobs_.find(part->second.job);
  if (job != jobs_.end()) {
    job->second.went_back = true;
    ReturnedLocked(&job->second, /*full=*/true);
  }
  parts_.erase(part);
}

void CompactionPlacer::OnPartEnd(bool well) {
  compacting_.End();
  ThreadPlacement::Reset(context_);
  // The next one is not to find out what this one was too short to come back for.
  const std::optional<double> share = adaptive_ ? ShareAtTheEnd() : std::nullopt;
  const bool too_little = share && IsTooLittle(*share);
  const std::optional<int64_t> nanos = threads_.Back();
  if (!nanos) return;
  AtomicCounters& counters = context_->session->counters();
  Add(&counters.agent_compaction_nanos, static_cast<uint64_t>(*nanos));
  if (well) Add(&counters.whole_compactions, 1);
  std::lock_guard lock(mu_);
  if (too_little) CrowdedLocked(*share);
  if (well) crowd_.WasDone(NowSeconds());
  const auto part = parts_.find(gettid());
  if (part == parts_.end()) return;
  const auto job = jobs_.find(part->second.job);
  if (job != jobs_.end()) {
    --job->second.tasks;
    job->second.some_done = true;
  }
  parts_.erase(part);
}

}  // namespace pulse::lsm
