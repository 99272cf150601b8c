#include "services/lsm/placement/flush_placement.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "services/lsm/core/counters.h"

namespace pulse::lsm {
namespace {

// The busy part of the host's CPUs from which flushes leave, and below which they come back.
constexpr double kBusy = 0.75;
constexpr double kNoLongerBusy = 0.5;
// By which one side must be busier than the other.
constexpr double kDifference = 0.15;
constexpr double kHoldSeconds = 2;

}  // namespace

bool FlushDecision::Update(double host_busy, double agent_busy, double now) {
  if (now - changed_at_ < kHoldSeconds) return false;
  const bool change = on_agent_ ? host_busy < kNoLongerBusy || agent_busy - host_busy >= kDifference
                                : host_busy >= kBusy && host_busy - agent_busy >= kDifference;
  if (!change) return false;
  on_agent_ = !on_agent_;
  changed_at_ = now;
  return true;
}

FlushPlacement::FlushPlacement(FlushMode mode, ThreadMigrator* threads, Busy host_busy,
                               Busy agent_busy, FlushPriority* priority, AtomicCounters* counters)
    : mode_(mode),
      threads_(threads),
      host_busy_(std::move(host_busy)),
      agent_busy_(std::move(agent_busy)),
      priority_(priority),
      counters_(counters) {}

bool FlushPlacement::ShouldMigrate(bool agent) {
  if (!agent || !threads_->possible() || mode_ == FlushMode::kHost) return false;
  if (mode_ == FlushMode::kAgent) return true;
  const double host = host_busy_();
  const double on_agent = agent_busy_();
  std::lock_guard lock(mu_);
  if (decision_.Update(host, on_agent, static_cast<double>(NowNanos()) * 1e-9)) {
    Log(LogLevel::kInfo,
        absl::StrCat("placement of flushes: ",
                     decision_.on_agent() ? "host -> the agent's CPUs" : "the agent's CPUs -> host",
                     " (busy: the host's ", static_cast<int>(host * 100), " %, the agent's ",
                     static_cast<int>(on_agent * 100), " %)"));
  }
  return decision_.on_agent();
}

void FlushPlacement::Begin(const std::string& home, bool agent) {
  if (ShouldMigrate(agent)) threads_->Migrate(home, priority_->BeginFlush());
}

void FlushPlacement::End() {
  const std::optional<int64_t> nanos = threads_->Return();
  if (!nanos) return;
  Add(&counters_->agent_flushes, 1);
  Add(&counters_->agent_flush_nanos, static_cast<uint64_t>(*nanos));
}

}  // namespace pulse::lsm
