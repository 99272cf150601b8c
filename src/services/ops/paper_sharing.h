// PaperSharing: C2 of the co-processing paper (section 3.4), for placement `paper`: host and agent
// both work only if their throughput together (OT) is better than that of each alone (TT). Rates of
// lanes say that only as long as lanes do not slow each other down, so both are measured: where C1
// holds and enough is left, the agent works alone for some chunks, then both do. Both go on unless
// the agent alone was better by more than the noise of such a measurement. A verdict is for ten
// seconds, since the load of a machine changes; the next stream begins with it.
//
// Pure; told what was done and what time it is. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "services/ops/engine.h"

namespace pulse::ops {

struct PaperVerdict {
  bool both = true;
  int64_t until = 0;
};

class PaperSharing {
 public:
  static constexpr int64_t kVerdictNanos = 10'000'000'000;
  // So many chunks for each lane are measured, at least kLeastChunks.
  static constexpr uint64_t kChunksEach = 4;
  static constexpr uint64_t kLeastChunks = 8;
  // Of the host, beside the agent: a slow one would pass for none.
  static constexpr uint64_t kLeastOfHost = 2;
  // What measuring costs is worth it if so many times its chunks are left.
  static constexpr uint64_t kWorthIt = 4;
  // The agent is measured for so many times its chunks at most.
  static constexpr uint64_t kTries = 4;
  // Measured rates that differ by less are equal.
  static constexpr double kNoise = 0.05;

  // Lanes of each side; a pipeline is one. `verdict`: of an earlier stream.
  PaperSharing(uint64_t host_lanes, uint64_t agent_lanes,
               std::optional<PaperVerdict> verdict = std::nullopt);

  // Whether the host works beside the agent. Asked where C1 holds.
  bool HostShares() const { return phase_ != Phase::kTryAgent && phase_ != Phase::kAgent; }
  // None while it is measured.
  std::optional<PaperVerdict> verdict() const;

  // C1 does not hold (any more): the next time that it does, all is measured again.
  void C1Failed() { phase_ = Phase::kUnknown; }
  // C1 holds, and a chunk was done by `side`. `host_busy`: with another one the host is not done.
  // `host_rate`: its TT, as far as known, in bytes per second. `left`: chunks that nobody has
  // begun.
  void Done(Side side, uint64_t bytes, bool host_busy, double host_rate, uint64_t left,
            int64_t now);

 private:
  enum class Phase : uint8_t {
    kUnknown,   // both work until it is measured
    kTryAgent,  // the agent alone, its TT is measured
    kTryBoth,   // both, OT is measured
    kBoth,      // OT was better, or as good
    kAgent,     // it was worse
  };
  void Begin(Phase phase);
  uint64_t ChunksOfAgentAlone() const;
  uint64_t ChunksOfBoth() const;
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
  uint64_t tried_ = 0;      // chunks of kTryAgent
  double agent_alone_ = 0;  // TT
  int64_t until_ = 0;       // the verdict
};

}  // namespace pulse::ops
