#include "services/ops/paper_sharing.h"

#include <algorithm>

namespace pulse::ops {

PaperSharing::PaperSharing(uint64_t host_lanes, uint64_t agent_lanes,
                           std::optional<PaperVerdict> verdict)
    : host_lanes_(host_lanes), agent_lanes_(agent_lanes) {
  if (!verdict.has_value()) return;
  phase_ = verdict->both ? Phase::kBoth : Phase::kAgent;
  until_ = verdict->until;
}

std::optional<PaperVerdict> PaperSharing::verdict() const {
  if (phase_ != Phase::kBoth && phase_ != Phase::kAgent) return std::nullopt;
  return PaperVerdict{phase_ == Phase::kBoth, until_};
}

uint64_t PaperSharing::ChunksOfAgentAlone() const {
  return std::max(kLeastChunks, kChunksEach * agent_lanes_);
}

uint64_t PaperSharing::ChunksOfBoth() const {
  return std::max(kLeastChunks, kChunksEach * (host_lanes_ + agent_lanes_));
}

void PaperSharing::Begin(Phase phase) {
  phase_ = phase;
  begun_ = false;
  bytes_ = 0;
  chunks_ = 0;
  of_host_ = 0;
}

double PaperSharing::Measured(int64_t now) const {
  return static_cast<double>(bytes_) * 1e9 /
         static_cast<double>(std::max<int64_t>(1, now - since_));
}

void PaperSharing::Done(Side side, uint64_t bytes, bool host_busy, double host_rate, uint64_t left,
                        int64_t now) {
  const bool over = (phase_ == Phase::kBoth || phase_ == Phase::kAgent) && now >= until_;
  if (phase_ == Phase::kUnknown || over) {
    phase_ = Phase::kUnknown;
    if (left / kWorthIt < ChunksOfAgentAlone() + ChunksOfBoth()) return;
    Begin(Phase::kTryAgent);
    tried_ = 0;
  }
  if (phase_ == Phase::kBoth || phase_ == Phase::kAgent) return;
  // An agent that never works alone for long enough cannot be measured.
  if (phase_ == Phase::kTryAgent && ++tried_ > kTries * ChunksOfAgentAlone()) {
    Begin(Phase::kBoth);
    until_ = now + kVerdictNanos;
    return;
  }
  // The host ends what it has begun, or helps an agent that is late: nothing of the agent alone.
  if (phase_ == Phase::kTryAgent && (host_busy || side == Side::kHost)) {
    return Begin(Phase::kTryAgent);
  }
  if (!begun_) {
    // From the end of a chunk to the end of another, so that none is counted in part.
    begun_ = true;
    since_ = now;
    return;
  }
  bytes_ += bytes;
  ++chunks_;
  of_host_ += side == Side::kHost ? 1 : 0;
  if (phase_ == Phase::kTryAgent) {
    if (chunks_ < ChunksOfAgentAlone()) return;
    agent_alone_ = Measured(now);
    return Begin(Phase::kTryBoth);
  }
  if (chunks_ < ChunksOfBoth() || of_host_ < kLeastOfHost) return;
  const bool worse = Measured(now) * (1 + kNoise) < std::max(agent_alone_, host_rate);
  Begin(worse ? Phase::kAgent : Phase::kBoth);
  until_ = now + kVerdictNanos;
}

}  // namespace pulse::ops
