#include "services/lsm/placement/flush_placement.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "services/lsm/core/counters.h"

namespace pulse::lsm {
namespace {

// The host has no time to spare, of which a flush would take some.
constexpr double kBusy = 0.75;
constexpr double kNoLongerBusy = 0.5;
// By how much the one is to be busier than the other.
constexpr double kDifference = 0.15;
constexpr double kHoldSeconds = 2;

}  // namespace

bool FlushDecision::Look(double host_busy, double agent_busy, double now) {
  if (now - changed_at_ < kHoldSeconds) return false;
  const bool change = on_agent_ ? host_busy < kNoLongerBusy || agent_busy - host_busy >= kDifference
                                : host_busy >= kBusy && host_busy - agent_busy >= kDifference;
  if (!change) return false;
  on_agent_ = !on_agent_;
  changed_at_ = now;
  return true;
}

FlushPlacement::FlushPlacement(FlushMode mode, MovedThreads* threads, Busy host_busy,
                               Busy agent_busy, FlushFirst* first, AtomicCounters* counters)
    : mode_(mode),
      threads_(threads),
      host_busy_(std::move(host_busy)),
      agent_busy_(std::move(agent_busy)),
      first_(first),
      counters_(counters) {}

bool FlushPlacement::Goes(bool agent) {
  if (!agent || !threads_->possible() || mode_ == FlushMode::kHost) return false;
  if (mode_ == FlushMode::kAgent) return true;
  const double host = host_busy_();
  const double there = agent_busy_();
  std::lock_guard lock(mu_);
  if (decision_.Look(host, there, static_cast<double>(NowNanos()) * 1e-9)) {
    Log(LogLevel::kInfo,
        absl::StrCat("placement of flushes: ",
                     decision_.on_agent() ? "host -> the agent's CPUs" : "the agent's CPUs -> host",
                     " (busy: the host's ", static_cast<int>(host * 100), " %, the agent's ",
                     static_cast<int>(there * 100), " %)"));
  }
  return decision_.on_agent();
}

void FlushPlacement::Begin(const std::string& home, bool agent) {
  if (Goes(agent)) threads_->Move(home, first_->Flush());
}

void FlushPlacement::End() {
  const std::optional<int64_t> nanos = threads_->Back();
  if (!nanos) return;
  Add(&counters_->agent_flushes, 1);
  Add(&counters_->agent_flush_nanos, static_cast<uint64_t>(*nanos));
}

}  // namespace pulse::lsm
