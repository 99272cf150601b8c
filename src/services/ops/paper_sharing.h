// PaperSharing: C2 of the co-processing paper (section 3.4), for placement `paper`: host and agent
// both work only if their throughput together (OT) is better than that of each alone (TT). Rates of
// lanes say that only as long as lanes do not slow each other down, so both are measured: where C1
// holds, the agent works alone for some chunks, then both do, and the better of these goes on. A
// verdict is for ten seconds, since the load of a machine changes.
//
// Pure; told what was done and what time it is. Not thread-safe.
#pragma once

#include <cstdint>

#include "services/ops/engine.h"

namespace pulse::ops {

class PaperSharing {
 public:
  static constexpr int64_t kVerdictNanos = 10'000'000'000;
  // So many chunks for each lane are measured, at least kLeastChunks.
  static constexpr uint64_t kChunksEach = 4;
  static constexpr uint64_t kLeastChunks = 8;
  // Of the host, beside the agent: a slow one would pass for none.
  static constexpr uint64_t kLeastOfHost = 2;

  // Lanes of each side; a pipeline is one.
  PaperSharing(uint64_t host_lanes, uint64_t agent_lanes);

  // Whether the host works beside the agent. Asked where C1 holds.
  bool HostShares() const { return phase_ == Phase::kTryBoth || phase_ == Phase::kBoth; }

  // C1 does not hold (any more): the next time that it does, all is measured again.
  void C1Failed() { phase_ = Phase::kUnknown; }
  // C1 holds, and a chunk was done by `side`. `host_busy`: with another one the host is not done.
  // `host_rate`: its TT, as far as known, in bytes per second.
  void Done(Side side, uint64_t bytes, bool host_busy, double host_rate, int64_t now);

 private:
  enum class Phase : uint8_t {
    kUnknown,
    kTryAgent,  // the agent alone, its TT is measured
    kTryBoth,   // both, OT is measured
    kBoth,      // OT was better
    kAgent,     // it was not
  };
  void Begin(Phase phase);
  // Bytes per second since the measurement began.
  double Measured(int64_t now) const;

  const uint64_t host_lanes_;
  const uint64_t agent_lanes_;
  Phase phase_ = Phase::kUnknown;
  bool begun_ = false;  // to measure
  int64_t since_ = 0;
  uint64_t bytes_ = 0;
  uint64_t chunks_ = 0;
  uint64_t of_host_ = 0;
  double agent_alone_ = 0;  // TT
  int64_t until_ = 0;       // the verdict
};

}  // namespace pulse::ops
