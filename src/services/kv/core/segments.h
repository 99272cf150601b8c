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
#include "services/kv/core/undo.h"

namespace pulse::kv {

// A page each, so that it can be given back alone.
inline constexpr size_t kSegmentBytes = kPageBytes;
inline constexpr uint32_t kNoSegment = 0;
// Class 0 never expires; the others are half octaves of seconds to live.
inline constexpr int kTtlClasses = 64;
int TtlClassOf(int64_t expires_ms, int64_t now_ms);

class Segments {
 public:
  enum class Use : uint8_t {
    kAbsent,  // no memory
    kFree,
    kOpen,  // takes items
    kSealed,
    kRun,      // the first segment of one item's run
    kRunRest,  // the others
  };
  struct Segment {
    uint32_t used;  // bytes of items, dead ones included
    uint32_t dead;
    uint32_t length;  // segments of a run
    Use use;
    uint8_t ttl_class;
    bool listed;             // in free_
    int64_t last_expiry_ms;  // no item expires later
    int64_t first_expiry_ms;
    uint64_t age;  // ascending in the order of their opening
  };

  // All that has to be known to go on with the segments; zeros are none.
  struct State {
    uint32_t free_count;
    uint32_t end;
    uint64_t last_age;
    uint32_t open_segments;
    uint64_t dead_bytes;
    uint64_t item_bytes;
    // Two for each class: what does not fit into the one may fit into the other. 0: none.
    uint32_t open[kTtlClasses][2];
  };

  // Segments may have any number from 1 to `count` - 1, at `base`: no item is at offset 0. `table`
  // has `count` of them, all zeros at first. Goes on with what state and table tell.
  Segments(char* base, uint32_t count, Segment* table, State* state, Memory* memory, UndoLog* undo);

  // Room for `bytes` (a multiple of 8) in an open segment of the class: its offset from base, or 0.
  uint64_t AllocateOpen(size_t bytes, int ttl_class) {
    for (uint32_t number : state_->open[ttl_class]) {
      if (number == kNoSegment) continue;
      Segment& segment = table_[number];
      if (segment.used + bytes > kSegmentBytes) continue;
      const uint64_t offset = uint64_t{number} * kSegmentBytes + segment.used;
      // Before it counts: a segment can always be walked to its end.
      Item::WriteHole(base_ + offset, bytes);
      undo_->Note(&segment);
      segment.used += static_cast<uint32_t>(bytes);
      state_->item_bytes += bytes;
      return offset;
    }
    return 0;
  }
  // Room in an open segment of any class, or 0: where memory is too little for one of each.
  uint64_t AllocateAnyOpen(size_t bytes);
  uint32_t open_segments() const { return state_->open_segments; }
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
  // The sealed one with most room takes items again; where none is open.
  void OpenEmptiest();
  // Seals open segments that have items, and at least so many dead bytes or one that has expired.
  // False: there is none.
  bool SealWhere(uint32_t dead, int64_t now_ms);
  // Counts a run as opened now.
  void Renew(uint32_t number) {
    undo_->Note(&table_[number]);
    table_[number].age = ++state_->last_age;
  }
  void Clear();

  Segment& of(uint64_t offset) { return table_[NumberOf(offset)]; }
  Segment& at(uint32_t number) { return table_[number]; }
  const Segment& at(uint32_t number) const { return table_[number]; }
  static uint32_t NumberOf(uint64_t offset) {
    return static_cast<uint32_t>(offset / kSegmentBytes);
  }
  // Learns anew which segments are free, when the table was changed from outside.
  void ListFree();
  // One more than the highest number that was ever in use.
  uint32_t end() const { return state_->end; }
  uint32_t count() const { return count_; }
  // Segments that could be taken now.
  uint64_t available() const {
    return state_->free_count + memory_->limit_pages() - memory_->used_pages();
  }
  // Gives the memory of one free segment back. False when there is none.
  bool GiveOnePage();
  uint64_t dead_bytes() const { return state_->dead_bytes; }
  uint64_t item_bytes() const { return state_->item_bytes; }  // of live items

 private:
  uint32_t Take();
  // An empty one. What it is is written last.
  void Reset(uint32_t number, Use use);
  void SetFree(uint32_t number);
  uint32_t FindRun(uint32_t length) const;

  char* const base_;
  const uint32_t count_;
  Segment* const table_;
  State* const state_;
  Memory* const memory_;
  UndoLog* const undo_;
  std::vector<uint32_t> free_;  // may name some that are free no more
};

}  // namespace pulse::kv
