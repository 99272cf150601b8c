#include "services/lsm/placement/agent_crowd.h"

#include <algorithm>

namespace pulse::lsm {

std::optional<double> AgentCrowd::Look(const std::optional<CpuShare::Share>& seen) {
  if (seen) {
    looks_ = seen->crowded ? looks_ + 1 : 0;
    share_ = seen->each;
  }
  if (!IsThere()) return std::nullopt;
  return share_;
}

double AgentCrowd::CameBack(double now) {
  if (KeepsAway(now)) return 0;
  pause_ = std::clamp(2 * pause_, kFirstPause, kMostPause);
  until_ = now + pause_;
  return pause_;
}

void AgentCrowd::WasDone(double now) {
  if (looks_ == 0 && now > until_ + pause_) pause_ = 0;
}

}  // namespace pulse::lsm
