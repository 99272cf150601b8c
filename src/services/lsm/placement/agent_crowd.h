// AgentCrowd: others that want the agent's CPUs, as compactions there have met them: from what they
// saw (CpuShare) to whether another one is to go there. Of compactions that run at the same time
// all meet the same crowd. Times in seconds of any clock. Not thread-safe.
#pragma once

#include <optional>

#include "services/lsm/placement/cpu_share.h"

namespace pulse::lsm {

class AgentCrowd {
 public:
  // The first pause, and the longest.
  static constexpr double kFirstPause = 1;
  static constexpr double kMostPause = 60;

  // What was seen before concerns nobody that is there now: it is long ago, or led to a pause.
  void BeginLooking() { looks_ = 0; }
  // One more look; without `seen`, it was too soon to tell. While there is a crowd, the share of a
  // CPU that each compaction has. Not at the first look: that may be at some that have just ended.
  std::optional<double> Look(const std::optional<CpuShare::Share>& seen);

  // Whether the last look was at a crowd.
  bool IsThere() const { return looks_ >= 2; }

  // A compaction comes back to the host, or the next will stay there. The pause that begins: 0
  // where another one has come back from the same crowd before.
  double CameBack(double now);
  // One was done there: if the pause is over for as long as it was, so is the crowd, unless there
  // has just been a look at one.
  void WasDone(double now);
  // Whether a pause goes on, in which none is to go there.
  bool KeepsAway(double now) const { return now < until_; }

 private:
  int looks_ = 0;  // on end at which there was a crowd
  double share_ = 1;
  double pause_ = 0;
  double until_ = 0;
};

}  // namespace pulse::lsm
