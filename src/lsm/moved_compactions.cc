// What CompactionPlacer does on the threads of compactions that it has moved to the agent's CPUs,
// and where others want those.
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "lsm/compaction_placer.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kPieceNanos = 100'000'000;  // between two looks
constexpr double kBetterHere = 1.5;           // times what a compaction has of a CPU there

}  // namespace

void CompactionPlacer::MoveHere(const Key& job, const std::string& home) {
  std::shared_ptr<TaskSlots::Slot> slot = pulse_->context().task_slots.Take(options_.tasks());
  const bool moved = slot != nullptr && threads_.Move(home, std::move(slot));
  std::lock_guard lock(mu_);
  if (moved) {
    if (parts_.empty()) {
      moved_share_ = CpuShare();
      crowd_.BeginLooking();
      look_at_.store(0, std::memory_order_relaxed);
    }
    parts_[gettid()] = {job, home};
    ThreadPlacement::SetAway(&pulse_->context(), weak_from_this());
    return;
  }
  compacting_.Begin();
  const auto it = jobs_.find(job);
  // Nor is it a failure where this thread cannot go there.
  if (it != jobs_.end()) ReturnedLocked(&it->second, /*full=*/true);
  Add(&pulse_->context().session->counters().whole_returned, 1);
}

void CompactionPlacer::BeforePiece() {
  FileContext& context = pulse_->context();
  context.flush_first.GiveWay(context.task_slots.taken());
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
  std::vector<pid_t> threads;
  for (const auto& [tid, part] : parts_) threads.push_back(tid);
  // Of flushes that are there now, too: they are no others.
  const int64_t flushes =
      threads_.NanosThere(threads) +
      static_cast<int64_t>(
          pulse_->context().session->counters().agent_flush_nanos.load(std::memory_order_relaxed));
  // While they are crowded each goes back as it comes.
  const std::optional<double> share =
      crowd_.Look(moved_share_.Take(threads, options_.agent_cores(), flushes));
  if (share) return share;
  look_at_.store(NowNanos() + kPieceNanos, std::memory_order_relaxed);
  return std::nullopt;
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
      absl::StrCat(
          "placement of compactions: one comes back to the host, and none goes to the agent for ",
          pause, " s: others want the agent's CPUs, of which it had ",
          static_cast<int>(share * 100), " %"));
}

bool CompactionPlacer::IsCrowdedLocked() const {
  return adaptive_ && crowd_.KeepsAway(NowSeconds());
}

void CompactionPlacer::GoOnHere(double share) {
  const std::optional<int64_t> nanos = threads_.Back();
  // Of a compaction whose end was not told.
  ThreadPlacement::Set(&pulse_->context(), true);
  if (!nanos) {
    --coming_back_;
    return;
  }
  IsBack();
  AtomicCounters& counters = pulse_->context().session->counters();
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
  ThreadPlacement::Forget(&pulse_->context());
  const std::optional<int64_t> nanos = threads_.Back();
  if (!nanos) return;
  AtomicCounters& counters = pulse_->context().session->counters();
  Add(&counters.agent_compaction_nanos, static_cast<uint64_t>(*nanos));
  if (well) Add(&counters.whole_compactions, 1);
  std::lock_guard lock(mu_);
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
