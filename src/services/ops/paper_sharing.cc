#include "services/ops/paper_sharing.h"

#include <algorithm>

namespace pulse::ops {

PaperSharing::PaperSharing(uint64_t host_lanes, uint64_t agent_lanes)
    : host_lanes_(host_lanes), agent_lanes_(agent_lanes) {}

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

void PaperSharing::Done(Side side, uint64_t bytes, bool host_busy, double host_rate, int64_t now) {
  const bool over = (phase_ == Phase::kBoth || phase_ == Phase::kAgent) && now >= until_;
  if (phase_ == Phase::kUnknown || over) Begin(Phase::kTryAgent);
  if (phase_ == Phase::kBoth || phase_ == Phase::kAgent) return;
  // The host ends what it has begun, which is nothing of the agent alone.
  if (phase_ == Phase::kTryAgent && (host_busy || side == Side::kHost)) return;
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
    if (chunks_ < std::max(kLeastChunks, kChunksEach * agent_lanes_)) return;
    agent_alone_ = Measured(now);
    return Begin(Phase::kTryBoth);
  }
  const uint64_t lanes = host_lanes_ + agent_lanes_;
  if (chunks_ < std::max(kLeastChunks, kChunksEach * lanes) || of_host_ < kLeastOfHost) return;
  const bool better = Measured(now) > std::max(agent_alone_, host_rate);
  Begin(better ? Phase::kBoth : Phase::kAgent);
  until_ = now + kVerdictNanos;
}

}  // namespace pulse::ops
