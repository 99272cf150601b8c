#include "services/kv/core/segments.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace pulse::kv {

int TtlClassOf(int64_t expires_ms, int64_t now_ms) {
  if (expires_ms == kNoExpiry) return 0;
  const uint64_t seconds =
      expires_ms <= now_ms
          ? 1
          : (static_cast<uint64_t>(expires_ms) - static_cast<uint64_t>(now_ms)) / 1000 + 1;
  const int octave = 63 - std::countl_zero(seconds);
  const int half = octave == 0 ? 0 : static_cast<int>(seconds >> (octave - 1) & 1);
  return std::min(1 + 2 * octave + half, kTtlClasses - 1);
}

Segments::Segments(char* base, uint32_t count, Segment* table, State* state, Memory* memory,
                   UndoLog* undo)
    : base_(base), count_(count), table_(table), state_(state), memory_(memory), undo_(undo) {
  ListFree();
}

void Segments::ListFree() {
  free_.clear();
  for (uint32_t number = 1; number < std::min(state_->end, count_); ++number) {
    table_[number].listed = table_[number].use == Use::kFree;
    if (table_[number].listed) free_.push_back(number);
  }
}

uint64_t Segments::AllocateAnyOpen(size_t bytes) {
  for (int ttl_class = kTtlClasses - 1; ttl_class >= 0; --ttl_class) {
    if (const uint64_t offset = AllocateOpen(bytes, ttl_class)) return offset;
  }
  return 0;
}

void Segments::SetFree(uint32_t number) {
  // What is in it may be overwritten from now on.
  undo_->Forbid();
  Segment& segment = table_[number];
  segment.use = Use::kFree;
  ++state_->free_count;
  if (segment.listed) return;
  segment.listed = true;
  free_.push_back(number);
}

uint32_t Segments::Take() {
  undo_->Forbid();
  while (!free_.empty()) {
    const uint32_t number = free_.back();
    free_.pop_back();
    table_[number].listed = false;
    if (table_[number].use != Use::kFree) continue;
    --state_->free_count;
    return number;
  }
  if (!memory_->Take(1)) return kNoSegment;
  for (uint32_t number = 1; number < count(); ++number) {
    if (table_[number].use != Use::kAbsent) continue;
    return memory_->Back(base_ + uint64_t{number} * kSegmentBytes, 1) ? number : kNoSegment;
  }
  PULSE_CHECK(false, "there are more addresses than memory");
  return kNoSegment;
}

void Segments::Reset(uint32_t number, Use use) {
  Segment& segment = table_[number];
  segment.used = segment.dead = 0;
  segment.length = 1;
  segment.ttl_class = 0;
  segment.last_expiry_ms = 0;
  segment.first_expiry_ms = INT64_MAX;
  segment.age = 0;
  InOrder();
  segment.use = use;
}

bool Segments::Open(int ttl_class, uint32_t keep) {
  if (available() <= keep) return false;
  const uint32_t number = Take();
  if (number == kNoSegment) return false;
  auto& both = state_->open[ttl_class];
  const bool first = both[0] == kNoSegment ||
                     (both[1] != kNoSegment && table_[both[0]].used > table_[both[1]].used);
  uint32_t& place = both[first ? 0 : 1];
  if (place != kNoSegment) Seal(place);
  place = number;
  state_->end = std::max(state_->end, number + 1);
  Reset(number, Use::kOpen);
  ++state_->open_segments;
  table_[number].ttl_class = static_cast<uint8_t>(ttl_class);
  table_[number].age = ++state_->last_age;
  return true;
}

uint32_t Segments::FindRun(uint32_t length) const {
  uint32_t found = 0;
  for (uint32_t number = 1; number < count(); ++number) {
    const Use use = table_[number].use;
    found = use == Use::kAbsent || use == Use::kFree ? found + 1 : 0;
    if (found == length) return number + 1 - length;
  }
  return kNoSegment;
}

uint64_t Segments::AllocateRun(size_t bytes, int ttl_class, uint32_t keep) {
  const auto length = static_cast<uint32_t>((bytes + kSegmentBytes - 1) / kSegmentBytes);
  memory_->ForgetRefusal();  // of an earlier call
  if (available() < uint64_t{length} + keep) return 0;
  undo_->Forbid();
  const uint32_t first = FindRun(length);
  if (first == kNoSegment) return 0;
  // What is free in it already has its memory; the rest may have to come from elsewhere.
  uint32_t absent = 0;
  for (uint32_t i = 0; i < length; ++i) absent += table_[first + i].use == Use::kAbsent;
  state_->end = std::max(state_->end, first + length);
  for (uint32_t i = 0; i < length; ++i) {
    if (table_[first + i].use == Use::kFree) --state_->free_count;
    Reset(first + i, Use::kRunRest);
  }
  while (!memory_->Take(absent)) {
    PULSE_CHECK(GiveOnePage(), "a run was counted to fit");
  }
  // Those that had memory, too: all of them are given back where it is too little.
  if (!memory_->Back(base_ + uint64_t{first} * kSegmentBytes, length)) {
    for (uint32_t i = 0; i < length; ++i) table_[first + i].use = Use::kAbsent;
    return 0;
  }
  Segment& head = table_[first];
  head.length = length;
  head.ttl_class = static_cast<uint8_t>(ttl_class);
  head.used = static_cast<uint32_t>(bytes);
  head.age = ++state_->last_age;
  state_->item_bytes += bytes;
  Item::WriteHole(base_ + uint64_t{first} * kSegmentBytes, bytes);
  InOrder();
  head.use = Use::kRun;
  return uint64_t{first} * kSegmentBytes;
}

void Segments::MarkDead(uint64_t offset, size_t bytes) {
  const uint32_t number = NumberOf(offset);
  Segment& segment = table_[number];
  undo_->Note(&segment);
  segment.dead += static_cast<uint32_t>(bytes);
  state_->dead_bytes += bytes;
  state_->item_bytes -= bytes;
  if (segment.dead < segment.used) return;
  if (segment.use == Use::kOpen) {
    // Nothing is in it: it begins anew, and new items overwrite the old ones.
    undo_->Forbid();
    state_->dead_bytes -= segment.dead;
    segment.used = segment.dead = 0;
    segment.last_expiry_ms = 0;
    segment.first_expiry_ms = INT64_MAX;
  } else {
    Free(number);
  }
}

void Segments::Free(uint32_t number) {
  Segment& segment = table_[number];
  PULSE_DCHECK(segment.use == Use::kSealed || segment.use == Use::kRun);
  state_->dead_bytes -= segment.dead;
  state_->item_bytes -= segment.used - segment.dead;
  const uint32_t length = segment.length;
  for (uint32_t i = 0; i < length; ++i) SetFree(number + i);
}

void Segments::Seal(uint32_t number) {
  undo_->Forbid();
  for (uint32_t& place : state_->open[table_[number].ttl_class]) {
    if (place == number) place = kNoSegment;
  }
  --state_->open_segments;
  table_[number].use = Use::kSealed;
  if (table_[number].dead == table_[number].used) Free(number);
}

void Segments::OpenEmptiest() {
  uint32_t found = kNoSegment;
  for (uint32_t number = 1; number < state_->end; ++number) {
    if (table_[number].use != Use::kSealed) continue;
    if (found == kNoSegment || table_[number].used < table_[found].used) found = number;
  }
  if (found == kNoSegment || state_->open_segments > 0) return;
  undo_->Forbid();
  table_[found].use = Use::kOpen;
  state_->open[table_[found].ttl_class][0] = found;
  ++state_->open_segments;
}

bool Segments::SealWhere(uint32_t dead, int64_t now_ms) {
  bool any = false;
  for (uint32_t number = 1; number < state_->end; ++number) {
    const Segment& segment = table_[number];
    if (segment.use != Use::kOpen || segment.used == 0) continue;
    if (segment.dead < dead && segment.first_expiry_ms > now_ms) continue;
    Seal(number);
    any = true;
  }
  return any;
}

bool Segments::GiveOnePage() {
  while (!free_.empty()) {
    const uint32_t number = free_.back();
    free_.pop_back();
    table_[number].listed = false;
    if (table_[number].use != Use::kFree) continue;
    undo_->Forbid();
    --state_->free_count;
    table_[number].use = Use::kAbsent;
    memory_->Give(base_ + uint64_t{number} * kSegmentBytes, 1);
    return true;
  }
  return false;
}

void Segments::Clear() {
  for (uint32_t number = 1; number < state_->end; ++number) {
    if (table_[number].use == Use::kOpen) Seal(number);
    if (table_[number].use == Use::kSealed || table_[number].use == Use::kRun) {
      Free(number);
    }
  }
  while (GiveOnePage()) {
  }
}

}  // namespace pulse::kv
