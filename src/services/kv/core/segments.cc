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

Segments::Segments(char* base, uint32_t count, Memory* memory)
    : base_(base), memory_(memory), segments_(count) {
  for (auto& both : open_) both[0] = both[1] = kNoSegment;
}

uint64_t Segments::AllocateAnyOpen(size_t bytes) {
  for (int ttl_class = kTtlClasses - 1; ttl_class >= 0; --ttl_class) {
    if (const uint64_t offset = AllocateOpen(bytes, ttl_class)) return offset;
  }
  return 0;
}

void Segments::SetFree(uint32_t number) {
  Segment& segment = segments_[number];
  segment.state = State::kFree;
  ++free_count_;
  if (segment.listed) return;
  segment.listed = true;
  free_.push_back(number);
}

uint32_t Segments::Take() {
  while (!free_.empty()) {
    const uint32_t number = free_.back();
    free_.pop_back();
    segments_[number].listed = false;
    if (segments_[number].state != State::kFree) continue;
    --free_count_;
    return number;
  }
  if (!memory_->Take(1)) return kNoSegment;
  for (uint32_t number = 1; number < count(); ++number) {
    if (segments_[number].state == State::kAbsent) return number;
  }
  PULSE_CHECK(false, "there are more addresses than memory");
  return kNoSegment;
}

bool Segments::Open(int ttl_class, uint32_t keep) {
  if (available() <= keep) return false;
  const uint32_t number = Take();
  if (number == kNoSegment) return false;
  auto& both = open_[ttl_class];
  const bool first = both[0] == kNoSegment ||
                     (both[1] != kNoSegment && segments_[both[0]].used > segments_[both[1]].used);
  uint32_t& place = both[first ? 0 : 1];
  if (place != kNoSegment) Seal(place);
  place = number;
  const bool listed = segments_[number].listed;
  segments_[number] = Segment{};
  segments_[number].listed = listed;
  segments_[number].state = State::kOpen;
  ++open_segments_;
  segments_[number].ttl_class = static_cast<uint8_t>(ttl_class);
  segments_[number].age = ++last_age_;
  end_ = std::max(end_, number + 1);
  return true;
}

uint32_t Segments::FindRun(uint32_t length) const {
  uint32_t found = 0;
  for (uint32_t number = 1; number < count(); ++number) {
    const State state = segments_[number].state;
    found = state == State::kAbsent || state == State::kFree ? found + 1 : 0;
    if (found == length) return number + 1 - length;
  }
  return kNoSegment;
}

uint64_t Segments::AllocateRun(size_t bytes, int ttl_class, uint32_t keep) {
  const auto length = static_cast<uint32_t>((bytes + kSegmentBytes - 1) / kSegmentBytes);
  if (available() < uint64_t{length} + keep) return 0;
  const uint32_t first = FindRun(length);
  if (first == kNoSegment) return 0;
  // What is free in it already has its memory; the rest may have to come from elsewhere.
  uint32_t absent = 0;
  for (uint32_t number = first; number < first + length; ++number) {
    Segment& segment = segments_[number];
    if (segment.state == State::kFree) {
      --free_count_;
    } else {
      ++absent;
    }
    const bool listed = segment.listed;
    segment = Segment{};
    segment.listed = listed;
    segment.state = number == first ? State::kRun : State::kRunRest;
  }
  while (!memory_->Take(absent)) {
    PULSE_CHECK(GiveOnePage(), "a run was counted to fit");
  }
  Segment& head = segments_[first];
  head.length = length;
  head.ttl_class = static_cast<uint8_t>(ttl_class);
  head.used = static_cast<uint32_t>(bytes);
  head.age = ++last_age_;
  item_bytes_ += bytes;
  end_ = std::max(end_, first + length);
  return uint64_t{first} * kSegmentBytes;
}

void Segments::MarkDead(uint64_t offset, size_t bytes) {
  const uint32_t number = NumberOf(offset);
  Segment& segment = segments_[number];
  segment.dead += static_cast<uint32_t>(bytes);
  dead_bytes_ += bytes;
  item_bytes_ -= bytes;
  if (segment.dead < segment.used) return;
  if (segment.state == State::kOpen) {
    // Nothing is in it: it begins anew.
    dead_bytes_ -= segment.dead;
    segment.used = segment.dead = 0;
    segment.last_expiry_ms = 0;
    segment.first_expiry_ms = INT64_MAX;
  } else {
    Free(number);
  }
}

void Segments::Free(uint32_t number) {
  Segment& segment = segments_[number];
  PULSE_DCHECK(segment.state == State::kSealed || segment.state == State::kRun);
  dead_bytes_ -= segment.dead;
  item_bytes_ -= segment.used - segment.dead;
  const uint32_t length = segment.length;
  for (uint32_t i = 0; i < length; ++i) SetFree(number + i);
}

void Segments::Seal(uint32_t number) {
  for (uint32_t& place : open_[segments_[number].ttl_class]) {
    if (place == number) place = kNoSegment;
  }
  --open_segments_;
  segments_[number].state = State::kSealed;
  if (segments_[number].dead == segments_[number].used) Free(number);
}

bool Segments::SealWhere(uint32_t dead) {
  bool any = false;
  for (uint32_t number = 1; number < end_; ++number) {
    const Segment& segment = segments_[number];
    if (segment.state != State::kOpen || segment.used == 0 || segment.dead < dead) continue;
    Seal(number);
    any = true;
  }
  return any;
}

bool Segments::GiveOnePage() {
  while (!free_.empty()) {
    const uint32_t number = free_.back();
    free_.pop_back();
    segments_[number].listed = false;
    if (segments_[number].state != State::kFree) continue;
    --free_count_;
    segments_[number].state = State::kAbsent;
    memory_->Give(base_ + uint64_t{number} * kSegmentBytes, 1);
    return true;
  }
  return false;
}

void Segments::Clear() {
  for (uint32_t number = 1; number < end_; ++number) {
    if (segments_[number].state == State::kOpen) Seal(number);
    if (segments_[number].state == State::kSealed || segments_[number].state == State::kRun) {
      Free(number);
    }
  }
  while (GiveOnePage()) {
  }
}

}  // namespace pulse::kv
