// AgentHeartbeat: tells an agent that hangs from one that is slow. The host looks at the agent's
// sign of life at intervals and asks for the next one; an agent counts as hung after kMissedLooks
// looks in a row without one while requests were outstanding.
//
// Looks are counted rather than time: a machine that was suspended gives the agent its chance. One
// thread's; pure; the clock is the caller's.
#pragma once

#include <cstdint>

namespace pulse {

class AgentHeartbeat {
 public:
  static constexpr int kMissedLooks = 4;

  // `deadline_ms` without a sign of life, give or take a quarter.
  explicit AgentHeartbeat(int64_t deadline_ms)
      : interval_(deadline_ms * 1'000'000 / kMissedLooks) {}

  int interval_ms() const { return static_cast<int>(interval_ / 1'000'000); }
  // Whether it is time for the next look.
  bool Due(int64_t now) const { return now - looked_at_ >= interval_; }
  // One look. `progress`: the agent's sign of life; `busy`: a request is outstanding; without one
  // an agent may sleep as long as it likes. False: it hangs. After true, a busy agent is to be
  // pinged.
  bool Look(int64_t now, uint64_t progress, bool busy) {
    looked_at_ = now;
    if (!busy || progress != progress_) {
      progress_ = progress;
      missed_ = 0;
      return true;
    }
    return ++missed_ <= kMissedLooks;
  }
  // Another agent.
  void Reset() {
    looked_at_ = 0;
    progress_ = 0;
    missed_ = 0;
  }

 private:
  const int64_t interval_;
  int64_t looked_at_ = 0;
  uint64_t progress_ = 0;
  int missed_ = 0;
};

}  // namespace pulse
