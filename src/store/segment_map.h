// SegmentMap: which segments are free. A bitmap with summaries above it, 64 to one, so that the
// next free segment is found in as many steps as there are levels (six for 2^32 segments).
//
// Threads: none of its own; the owner's lock. Never blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "store/records.h"

namespace pulse::store {

class SegmentMap {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};

  // The first `reserved` of `segments` are never free, the others are.
  SegmentMap(uint64_t segments, uint64_t reserved);

  uint64_t free() const { return free_; }
  bool IsFree(uint64_t segment) const {
    return segment < segments_ && (levels_[0][segment / 64] >> (segment % 64) & 1) != 0;
  }

  // Takes all of `run`, or nothing when not all of it is free.
  bool Take(Run run);
  // `run` must not be free.
  void Release(Run run);

  // Takes `count` segments and appends them, at best as one run: at `hint` (the segment after the
  // file's last), else the lowest run that is long enough among the first few, else the lowest free
  // ones. False, and nothing taken, when fewer are free.
  bool Allocate(uint64_t count, uint64_t hint, std::vector<Run>* runs);

  // The first free segment from `from` on, or kNone.
  uint64_t Next(uint64_t from) const;

 private:
  // Free segments from `from` on without a gap, at most `limit`.
  uint64_t Length(uint64_t from, uint64_t limit) const;
  void Set(uint64_t segment);
  void Clear(uint64_t segment);
  void TakeFree(uint64_t first, uint64_t count, std::vector<Run>* runs);

  const uint64_t segments_;
  uint64_t free_ = 0;
  std::vector<std::vector<uint64_t>> levels_;  // a set bit: free, or something free below
};

}  // namespace pulse::store
