#include "services/lsm/placement/agent_backoff.h"

#include <algorithm>

namespace pulse::lsm {

std::optional<double> AgentBackoff::Update(const std::optional<CpuShare::Share>& measured) {
  if (measured) {
    contended_in_a_row_ = measured->contended ? contended_in_a_row_ + 1 : 0;
    share_ = measured->each;
  }
  if (!IsContended()) return std::nullopt;
  return share_;
}

double AgentBackoff::BeginPause(double now) {
  if (IsPausing(now)) return 0;
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  until_ = now + pause_;
  return pause_;
}

void AgentBackoff::OnDone(double now) {
  if (contended_in_a_row_ == 0 && now > until_ + pause_) pause_ = 0;
}

}  // namespace pulse::lsm
