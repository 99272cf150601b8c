// Segments: where items lie. A log of pieces of 2 MiB, each with items of one class of time to
// live, so that what expires together is given back together. An item that is larger than a segment
// has a run of them to itself.
//
// It knows how many bytes of each segment are dead, and nothing of keys: partition.h decides what
// is moved or dropped.
//
// Ownership: the memory outlives the segments. Threads: one. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "services/kv/core/item.h"
#include "services/kv/core/memory.h"

namespace pulse::kv {

// A page each, so that it can be given back alone.
inline constexpr size_t kSegmentBytes = kPageBytes;
inline constexpr uint32_t kNoSegment = UINT32_MAX;
// Class 0 never expires; the others are half octaves of seconds to live.
inline constexpr int kTtlClasses = 64;
int TtlClassOf(int64_t expires_ms, int64_t now_ms);

class Segments {
 public:
  enum class State : uint8_t {
    kAbsent,  // no memory
    kFree,
    kOpen,  // takes items
    kSealed,
    kRun,      // the first segment of one item's run
    kRunRest,  // the others
  };
  struct Segment {
    uint32_t used = 0;  // bytes of items, dead ones included
    uint32_t dead = 0;
    uint32_t length = 1;  // segments of a run
    State state = State::kAbsent;
    uint8_t ttl_class = 0;
    bool listed = false;         // in free_
    int64_t last_expiry_ms = 0;  // no item expires later
    int64_t first_expiry_ms = INT64_MAX;
    uint64_t age = 0;  // ascending in the order of their opening
  };

  // Segments may have any number from 1 to `count` - 1, at `base`: no item is at offset 0.
  Segments(char* base, uint32_t count, Memory* memory);

  // Room for `bytes` (a multiple of 8) in an open segment of the class: its offset from base, or 0.
  uint64_t AllocateOpen(size_t bytes, int ttl_class) {
    for (uint32_t number : open_[ttl_class]) {
      if (number == kNoSegment) continue;
      Segment& segment = segments_[number];
      if (segment.used + bytes > kSegmentBytes) continue;
      const uint64_t offset = uint64_t{number} * kSegmentBytes + segment.used;
      segment.used += static_cast<uint32_t>(bytes);
      item_bytes_ += bytes;
      return offset;
    }
    return 0;
  }
  // Room in an open segment of any class, or 0: where memory is too little for one of each.
  uint64_t AllocateAnyOpen(size_t bytes);
  uint32_t open_segments() const { return open_segments_; }
  // Opens another segment for the class, in place of its fullest, unless fewer than `keep` would be
  // left to take.
  bool Open(int ttl_class, uint32_t keep);
  // A run for one item of `bytes`: its offset, or 0 when there is no room now.
  uint64_t AllocateRun(size_t bytes, int ttl_class, uint32_t keep);

  // `bytes` at `offset` hold nothing any more. A segment that holds nothing else is given back.
  void MarkDead(uint64_t offset, size_t bytes);
  // Gives a segment or run back, whatever it holds.
  void Free(uint32_t number);
  void Seal(uint32_t number);  // an open one
  // Seals open segments that have items, and at least so many dead bytes. False: there is none.
  bool SealWhere(uint32_t dead);
  // Counts a run as opened now.
  void Renew(uint32_t number) { segments_[number].age = ++last_age_; }
  void Clear();

  Segment& of(uint64_t offset) { return segments_[NumberOf(offset)]; }
  Segment& at(uint32_t number) { return segments_[number]; }
  static uint32_t NumberOf(uint64_t offset) {
    return static_cast<uint32_t>(offset / kSegmentBytes);
  }
  // One more than the highest number that was ever in use.
  uint32_t end() const { return end_; }
  uint32_t count() const { return static_cast<uint32_t>(segments_.size()); }
  // Segments that could be taken now.
  uint64_t available() const {
    return free_count_ + memory_->limit_pages() - memory_->used_pages();
  }
  // Gives the memory of one free segment back. False when there is none.
  bool GiveOnePage();
  uint64_t dead_bytes() const { return dead_bytes_; }
  uint64_t item_bytes() const { return item_bytes_; }  // of live items

 private:
  uint32_t Take();
  void SetFree(uint32_t number);
  void CountDead(Segment* segment, size_t bytes);
  uint32_t FindRun(uint32_t length) const;

  char* const base_;
  Memory* const memory_;
  std::vector<Segment> segments_;
  std::vector<uint32_t> free_;  // may name some that are free no more
  uint32_t free_count_ = 0;
  uint32_t end_ = 0;
  uint64_t last_age_ = 0;
  uint32_t open_segments_ = 0;
  uint64_t dead_bytes_ = 0;
  uint64_t item_bytes_ = 0;
  // Two for each class: what does not fit into the one may fit into the other.
  uint32_t open_[kTtlClasses][2];
};

}  // namespace pulse::kv
