// PlacementReport: what the placement of chunks decided, and by which rates: the numbers behind the
// line of QueueStats::Explain, for those who watch from elsewhere. With the names of the
// co-processing paper (section 4.2): TT, the throughput of a side; OT, that of the whole; C1, the
// agent's is better than the host's; C2, that of the whole is better than either's.
//
// A value.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "services/ops/engine.h"
#include "services/ops/scheduler.h"

namespace pulse::ops {

struct PlacementReport {
  struct OfSide {
    // Since the report before.
    uint64_t chunks = 0;  // whose result was used
    uint64_t bytes = 0;   // of these chunks' input
    uint64_t redone = 0;  // chunks of late lanes that the side began a second time
    // TT, in bytes per second of all lanes, now; 0: not known.
    double rate = 0;
    // Since the report before, too.
    uint64_t refused = 0;     // chunks that an engine of the side could not do
    uint64_t discarded = 0;   // results that came second
    uint64_t lost = 0;        // engines
    uint64_t busy_nanos = 0;  // of lanes, at work
  };

  Placement::Kind placement = Placement::Kind::kAuto;
  std::array<OfSide, 2> sides;
  double whole = 0;               // OT so far, in bytes per second; 0: not known
  int64_t most_before_nanos = 0;  // set-up that the agent's engines needed
  bool ended = false;             // the last report of its operation

  OfSide& of(Side side) { return sides[static_cast<size_t>(side)]; }
  const OfSide& of(Side side) const { return sides[static_cast<size_t>(side)]; }

  // Whether C1 and C2 can be said.
  bool BothAreKnown() const { return of(Side::kHost).rate > 0 && of(Side::kAgent).rate > 0; }
  bool C1() const { return BothAreKnown() && of(Side::kAgent).rate > of(Side::kHost).rate; }
  bool C2() const {
    return BothAreKnown() && whole > of(Side::kHost).rate && whole > of(Side::kAgent).rate;
  }
  // What the host does during the set-up: the agent is worth it for more. 0: there is no set-up, or
  // the host's rate is not known.
  double BreakEvenBytes() const {
    return of(Side::kHost).rate * static_cast<double>(most_before_nanos) * 1e-9;
  }

  // Without what an earlier report of the same queue counted.
  void SubtractCountsOf(const PlacementReport& earlier) {
    for (size_t i = 0; i < sides.size(); ++i) {
      for (const auto count : kCounts) sides[i].*count -= earlier.sides[i].*count;
    }
  }

  // This one, with what another queue, or an earlier report of this one, counted.
  void AddCountsOf(const PlacementReport& other) {
    for (size_t i = 0; i < sides.size(); ++i) {
      for (const auto count : kCounts) Add(sides[i].*count, other.sides[i].*count);
    }
  }

 private:
  static constexpr uint64_t OfSide::*kCounts[] = {
      &OfSide::chunks,    &OfSide::bytes, &OfSide::redone,    &OfSide::refused,
      &OfSide::discarded, &OfSide::lost,  &OfSide::busy_nanos};

  // Others' numbers may be any: no sum becomes smaller.
  static void Add(uint64_t& sum, uint64_t n) {
    sum += std::min(n, std::numeric_limits<uint64_t>::max() - sum);
  }
};

}  // namespace pulse::ops
