// What CompactionPlacer does on the threads of compactions that are migrated to the agent's CPUs,
// and when others contend for these CPUs.
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "services/lsm/placement/compaction_placer.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kCheckNanos = 100'000'000;  // between two checks of contention
// After so long without a migrated compaction, earlier measurements of contention are too old.
constexpr int64_t kForgetNanos = 10'000'000'000;
// How many times the share of a CPU that a compaction has there the next must get here, to stay.
constexpr double kHostGain = 1.5;

}  // namespace

void CompactionPlacer::MigrateThread(const Key& compaction, const std::string& home) {
  std::shared_ptr<TaskSlots::Slot> slot = context_->task_slots.Take(options_.tasks());
  const bool migrated = slot != nullptr && threads_.Migrate(home, std::move(slot));
  std::lock_guard lock(mu_);
  if (!migrated) {
    compacting_.Begin();
    const auto it = compactions_.find(compaction);
    // It is no failure of the agent's either if this thread cannot be moved.
    if (it != compactions_.end()) ReturnedLocked(&it->second, /*full=*/true);
    Add(&context_->session->counters().whole_returned, 1);
    return;
  }
  migrated_.erase(gettid());
  if (migrated_.empty()) {
    // Compactions that are shorter than a measurement takes are measured together.
    const int64_t now = NowNanos();
    if (backoff_.IsContended() || now - last_migrated_end_ > kForgetNanos) {
      migrated_share_ = CpuShare();
      backoff_.Restart();
    }
    next_check_.store(0, std::memory_order_relaxed);
  }
  migrated_[gettid()] = {compaction, home};
  if (adaptive_) {
    migrated_share_.Drop(gettid());  // from a job whose end was not told
    NoteMigratedLocked();
  }
  ThreadPlacement::SetOnAgent(context_, weak_from_this());
}

void CompactionPlacer::BeforeAppend() {
  context_->flush_priority.YieldToFlushes(context_->task_slots.taken());
  if (!adaptive_) return;  // the user has said where compactions run
  if (const std::optional<double> share = ContendedShare()) OnContention(*share);
}

std::optional<double> CompactionPlacer::ContendedShare() {
  if (NowNanos() < next_check_.load(std::memory_order_relaxed)) return std::nullopt;
  std::lock_guard lock(mu_);
  next_check_.store(NowNanos() + kCheckNanos, std::memory_order_relaxed);
  return MeasureContentionLocked();
}

std::optional<double> CompactionPlacer::ContendedShareAtEnd() {
  std::lock_guard lock(mu_);
  if (migrated_.count(gettid()) == 0) return std::nullopt;
  const std::optional<double> share = MeasureContentionLocked();
  NoteMigratedLocked();
  migrated_share_.Drop(gettid());
  last_migrated_end_ = NowNanos();
  return share;
}

void CompactionPlacer::NoteMigratedLocked() {
  const std::vector<pid_t> threads = MigratedLocked();
  migrated_share_.Note(threads, ServedNanos(threads));
}

std::optional<double> CompactionPlacer::MeasureContentionLocked() {
  const std::vector<pid_t> threads = MigratedLocked();
  return backoff_.Update(
      migrated_share_.Take(threads, options_.agent_cores(), ServedNanos(threads)));
}

std::vector<pid_t> CompactionPlacer::MigratedLocked() const {
  std::vector<pid_t> threads;
  for (const auto& [tid, part] : migrated_) threads.push_back(tid);
  return threads;
}

// Flushes on the agent's CPUs: those that run, and those that have ended.
int64_t CompactionPlacer::ServedNanos(const std::vector<pid_t>& migrated) const {
  return threads_.CpuNanosExcept(migrated) +
         static_cast<int64_t>(
             context_->session->counters().agent_flush_nanos.load(std::memory_order_relaxed));
}

bool CompactionPlacer::IsHostBetter(double share) {
  const double others = UpdateForegroundDemand();
  const double here = host_load_.cores() / (others + compacting_.size() + 1);
  return std::min(1.0, here) >= kHostGain * share;
}

void CompactionPlacer::OnContention(double share) {
  if (!IsHostBetter(share)) return;
  std::lock_guard lock(mu_);
  const double pause = backoff_.BeginPause(NowSeconds());
  if (pause == 0) return;
  Log(LogLevel::kInfo,
      absl::StrCat("placement of compactions: none goes to the agent for ", pause,
                   " s: others contend for the agent's CPUs, and a compaction there has had ",
                   static_cast<int>(share * 100), " % of one"));
}

bool CompactionPlacer::IsBackingOffLocked() const { return backoff_.IsPausing(NowSeconds()); }

void CompactionPlacer::OnPartEnd(bool ok) {
  compacting_.End();
  ThreadPlacement::Reset(context_);
  const std::optional<double> share = adaptive_ ? ContendedShareAtEnd() : std::nullopt;
  if (share) OnContention(*share);
  const std::optional<int64_t> nanos = threads_.Return();
  if (!nanos) return;
  AtomicCounters& counters = context_->session->counters();
  Add(&counters.agent_compaction_nanos, static_cast<uint64_t>(*nanos));
  if (ok) Add(&counters.whole_compactions, 1);
  std::lock_guard lock(mu_);
  if (ok) backoff_.OnDone(NowSeconds());
  const auto part = migrated_.find(gettid());
  if (part == migrated_.end()) return;
  const auto it = compactions_.find(part->second.compaction);
  if (it != compactions_.end()) {
    --it->second.parts;
    it->second.part_done = true;
  }
  migrated_.erase(part);
}

}  // namespace pulse::lsm
