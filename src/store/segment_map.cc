#include "store/segment_map.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace pulse::store {
namespace {

// How many runs are looked at for one that is long enough.
constexpr int kCandidates = 64;

}  // namespace

SegmentMap::SegmentMap(uint64_t segments, uint64_t reserved)
    : segments_(segments), free_(segments - reserved) {
  uint64_t bits = segments;
  do {
    const uint64_t words = (bits + 63) / 64;
    levels_.emplace_back(words, ~uint64_t{0});
    if (bits % 64 != 0) levels_.back().back() = (uint64_t{1} << bits % 64) - 1;
    bits = words;
  } while (bits > 1);
  for (uint64_t s = 0; s < reserved; ++s) Clear(s);
}

void SegmentMap::Set(uint64_t segment) {
  for (auto& level : levels_) {
    uint64_t& word = level[segment / 64];
    const bool was_empty = word == 0;
    word |= uint64_t{1} << segment % 64;
    if (!was_empty) return;
    segment /= 64;
  }
}

void SegmentMap::Clear(uint64_t segment) {
  for (auto& level : levels_) {
    uint64_t& word = level[segment / 64];
    word &= ~(uint64_t{1} << segment % 64);
    if (word != 0) return;
    segment /= 64;
  }
}

bool SegmentMap::Take(Run run) {
  if (Length(run.first, run.count) != run.count) return false;
  for (uint64_t s = run.first; s < uint64_t{run.first} + run.count; ++s) Clear(s);
  free_ -= run.count;
  return true;
}

void SegmentMap::Release(Run run) {
  for (uint64_t s = run.first; s < uint64_t{run.first} + run.count; ++s) {
    PULSE_DCHECK(!IsFree(s));
    Set(s);
  }
  free_ += run.count;
}

uint64_t SegmentMap::Next(uint64_t from) const {
  // Up to the first level whose word has something at or after the place, then down.
  for (size_t level = 0; level < levels_.size(); ++level) {
    const uint64_t word_index = from / 64;
    if (word_index >= levels_[level].size()) return kNone;
    const uint64_t word = levels_[level][word_index] & ~uint64_t{0} << from % 64;
    if (word != 0) {
      uint64_t at = word_index * 64 + static_cast<uint64_t>(std::countr_zero(word));
      while (level-- > 0) {
        at = at * 64 + static_cast<uint64_t>(std::countr_zero(levels_[level][at]));
      }
      return at;
    }
    from = word_index + 1;
  }
  return kNone;
}

uint64_t SegmentMap::Length(uint64_t from, uint64_t limit) const {
  uint64_t n = 0;
  while (n < limit && from + n < segments_) {
    const uint64_t at = from + n;
    const uint64_t word = levels_[0][at / 64] >> at % 64;
    const auto ones = static_cast<uint64_t>(std::countr_one(word));
    n += ones;
    if (ones < 64 - at % 64) break;
  }
  return std::min(n, limit);
}

void SegmentMap::TakeFree(uint64_t first, uint64_t count, std::vector<Run>* runs) {
  const Run run{static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
  PULSE_CHECK(Take(run), "the run was chosen from what is free");
  if (!runs->empty() && uint64_t{runs->back().first} + runs->back().count == first) {
    runs->back().count += run.count;
  } else {
    runs->push_back(run);
  }
}

bool SegmentMap::Allocate(uint64_t count, uint64_t hint, std::vector<Run>* runs) {
  if (count > free_) return false;
  if (hint < segments_) {
    const uint64_t n = Length(hint, count);
    if (n > 0) TakeFree(hint, n, runs);
    count -= n;
  }
  if (count == 0) return true;
  uint64_t at = Next(0);
  for (int i = 0; i < kCandidates && at != kNone; ++i) {
    const uint64_t n = Length(at, count);
    if (n == count) {
      TakeFree(at, n, runs);
      return true;
    }
    at = Next(at + n);
  }
  while (count > 0) {
    at = Next(0);
    const uint64_t n = Length(at, count);
    TakeFree(at, n, runs);
    count -= n;
  }
  return true;
}

}  // namespace pulse::store
