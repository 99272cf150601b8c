// AgentBackoff: from measurements of CPU contention on the agent (CpuShare) to whether the next
// compactions go there. When compactions return to the host because of contention, none goes to the
// agent for a pause, which doubles each time. Compactions that run at the same time meet the same
// contention, and begin one pause together.
//
// Times in seconds of any clock. Not thread-safe; never blocks.
#pragma once

#include <algorithm>
#include <optional>

#include "services/lsm/placement/cpu_share.h"

namespace pulse::lsm {

class AgentBackoff {
 public:
  static constexpr double kFirstPause = 1;
  static constexpr double kLongestPause = 60;

  // Forgets earlier measurements: they are too old, or were of other compactions.
  void Restart() { contended_in_a_row_ = 0; }
  // One more measurement; nullopt: it was too soon for one. Returns the share of a CPU that each
  // compaction has, while there is contention. The first contended measurement does not count: it
  // may be of threads that have just ended.
  std::optional<double> Update(const std::optional<CpuShare::Share>& measured) {
    if (measured) {
      contended_in_a_row_ = measured->contended ? contended_in_a_row_ + 1 : 0;
      share_ = measured->each;
    }
    if (!IsContended()) return std::nullopt;
    return share_;
  }

  bool IsContended() const { return contended_in_a_row_ >= 2; }

  // A compaction returns to the host, or the next one will stay there. Returns the pause that
  // begins, or 0 during one.
  double BeginPause(double now) {
    if (IsPausing(now)) return 0;
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    until_ = now + pause_;
    return pause_;
  }
  // A compaction has ended on the agent. The next pause is a first one again, if the last has been
  // over for as long as it was, and the last measurement found no contention.
  void OnDone(double now) {
    if (contended_in_a_row_ == 0 && now > until_ + pause_) pause_ = 0;
  }
  bool IsPausing(double now) const { return now < until_; }

 private:
  int contended_in_a_row_ = 0;
  double share_ = 1;
  double pause_ = 0;
  double until_ = 0;
};

}  // namespace pulse::lsm
