// The cleaner: walks a segment, drops what has expired or is to be evicted, moves the rest, and so
// empties it.
#include <algorithm>
#include <array>

#include "services/kv/core/partition.h"

namespace pulse::kv {
namespace {

// Less than this much of a segment is not worth moving the rest.
constexpr uint32_t kLeastDead = kSegmentBytes / 16;
// The same of what is urgent: a key that gets an expiry leaves some ten bytes dead or more, and is
// not to pay for a whole segment, unless nothing else is left.
constexpr uint32_t kLeast[] = {kLeastDead, kSegmentBytes / 256, 64};
// So long nothing is looked for again where there was nothing to clean, unless more is dead.
constexpr int64_t kFailedSearchMs = 20;
// Of a segment with items of several classes, so long after the first has expired.
constexpr int64_t kMixedPauseMs = 100;
// Items whose buckets are fetched together.
constexpr int kTogether = 16;

}  // namespace

// Whether it is worth moving the rest: by its items' expiries, of which only the ends are known.
bool Partition::MayHaveExpired(const Segments::Segment& segment) const {
  if (segment.first_expiry_ms > now_ms_) return false;
  // Items of several classes, which share segments where memory is small.
  if (segment.ttl_class == 0 || segment.last_expiry_ms == kNoExpiry) {
    return now_ms_ - segment.first_expiry_ms >= kMixedPauseMs;
  }
  const int64_t span = segment.last_expiry_ms - segment.first_expiry_ms;
  constexpr auto kParts = static_cast<int64_t>(kSegmentBytes / kLeastDead);
  return now_ms_ - segment.first_expiry_ms >= span / kParts;
}

bool Partition::ChooseVictim(Urgency urgency) {
  victim_ = {};
  const auto which = static_cast<size_t>(urgency);
  const FailedSearch& failed = failed_searches_[which];
  if (policy_ == Policy::kNoEviction && failed.dead == segments_.dead_bytes() &&
      now_ms_ >= failed.since_ms && now_ms_ - failed.since_ms < kFailedSearchMs) {
    return false;
  }
  const uint32_t least = kLeast[which];
  for (int attempt = 0; attempt < 2; ++attempt) {
    uint32_t dirtiest = kNoSegment;
    uint32_t oldest = kNoSegment;
    uint32_t expiring = kNoSegment;
    for (uint32_t number = 1; number < segments_.end(); ++number) {
      const Segments::Segment& segment = segments_.at(number);
      const bool run = segment.use == Segments::Use::kRun;
      if (segment.use != Segments::Use::kSealed && !run) continue;
      if (oldest == kNoSegment || segment.age < segments_.at(oldest).age) oldest = number;
      if (run) continue;
      if (segment.ttl_class != 0 && segment.last_expiry_ms <= now_ms_) {
        victim_ = {number, segment.age};
        return true;
      }
      if (dirtiest == kNoSegment || segment.dead > segments_.at(dirtiest).dead) dirtiest = number;
      if (MayHaveExpired(segment)) expiring = number;
    }
    const uint32_t dead = dirtiest == kNoSegment ? 0 : segments_.at(dirtiest).dead;
    const bool evicts = policy_ != Policy::kNoEviction;
    // What is half dead is moved at less cost than what eviction loses.
    if (dead >= (evicts ? kSegmentBytes / 2 : least)) {
      victim_ = {dirtiest, segments_.at(dirtiest).age};
      return true;
    }
    if (evicts && oldest != kNoSegment) {
      if (segments_.at(oldest).use == Segments::Use::kRun) {
        CleanRun(oldest);
        return true;
      }
      victim_ = {oldest, segments_.at(oldest).age, 0, true};
      return true;
    }
    // Expired items beside others are not counted as dead. What is left of it has a later expiry.
    if (expiring != kNoSegment) {
      victim_ = {expiring, segments_.at(expiring).age};
      return true;
    }
    // All that there is is in open segments.
    if (!segments_.SealWhere(evicts ? 0 : least, now_ms_)) break;
  }
  failed_searches_[which] = {segments_.dead_bytes(), now_ms_};
  return false;
}

bool Partition::CleanOne(Urgency urgency) {
  if (!HasVictim() && !ChooseVictim(urgency)) return false;
  while (HasVictim()) {
    if (CleanStep(kTogether)) continue;
    failed_searches_[static_cast<size_t>(urgency)] = {segments_.dead_bytes(), now_ms_};
    return false;
  }
  return true;
}

bool Partition::CleanStep(int items) {
  // With the last segment taken it goes on to the end: others would fill what it moves items to,
  // and it could never move the rest.
  while (HasVictim() && (items > 0 || segments_.available() == 0)) {
    const uint32_t used = segments_.at(victim_.number).used;
    const uint64_t first = uint64_t{victim_.number} * kSegmentBytes;
    std::array<std::pair<uint64_t, uint64_t>, kTogether> found;
    int count = 0;
    while (count < std::clamp(items, 1, kTogether) && victim_.at < used) {
      const Item* item = ItemAt(first + victim_.at);
      if (!item->dead()) {
        const uint64_t hash = HashKey(item->key());
        PrefetchBucket(hash);
        found[static_cast<size_t>(count++)] = {first + victim_.at, hash};
      }
      victim_.at += static_cast<uint32_t>(item->size());
    }
    items -= std::max(count, 1);
    for (int i = 0; i < count; ++i) {
      const auto& [offset, hash] = found[static_cast<size_t>(i)];
      if (!CleanItem(offset, hash)) {
        victim_ = {};  // another time, from its beginning
        return false;
      }
    }
    if (victim_.at < used || !victim_.evict) continue;
    // As much of a segment as keeps what is used most, and yet makes room.
    if (victim_.kept > victim_.walked / 3)
      cutoff_ = std::min<uint32_t>(255, cutoff_ + 1 + cutoff_ / 4);
    if (victim_.kept < victim_.walked / 6 && cutoff_ > 1) cutoff_ -= 1 + cutoff_ / 8;
  }
  return true;
}

bool Partition::MayKeep(uint32_t use, size_t bytes) {
  victim_.walked += static_cast<uint32_t>(bytes);
  const uint32_t least = policy_ == Policy::kLfu ? cutoff_ : policy_ == Policy::kLru ? 1 : 256;
  if (use < least || victim_.kept + bytes > kSegmentBytes / 2) return false;
  victim_.kept += static_cast<uint32_t>(bytes);
  return true;
}

bool Partition::CleanItem(uint64_t offset, uint64_t hash) {
  if (undo_.is_on()) {
    BeginEpoch();
    state_->busy = 1;
    InOrder();
  }
  uint64_t* at = index_->FindOffset(hash, offset);
  Item* item = ItemAt(offset);
  const size_t bytes = item->size();
  if (item->ExpiredAt(now_ms_)) {
    DropExpired(at);
    return true;
  }
  const uint32_t use = slot::Use(*at);
  if (victim_.evict && !MayKeep(use, bytes)) {
    EvictItem(at);
    return true;
  }
  const int ttl_class = TtlClassOf(item->expires_ms(), now_ms_);
  uint64_t to = segments_.AllocateOpen(bytes, ttl_class);
  if (to == 0 && segments_.open_segments() >= most_open_) to = segments_.AllocateAnyOpen(bytes);
  if (to == 0 && segments_.Open(ttl_class, 0)) to = segments_.AllocateOpen(bytes, ttl_class);
  if (to == 0) to = segments_.AllocateAnyOpen(bytes);
  if (to == 0) {
    if (policy_ == Policy::kNoEviction) return false;
    // It has nowhere to go; whoever waits for room gets it.
    EvictItem(at);
    return true;
  }
  ItemAt(to)->CopyFrom(*item, bytes);
  NoteExpiry(to, item->expires_ms());
  index_->NoteSlot(at);
  *at = slot::WithOffset(*at, to);
  // What was used long ago counts less and less.
  if (victim_.evict) *at = slot::WithUse(*at, policy_ == Policy::kLfu ? use / 2 : 0);
  undo_.NoteLines(item, sizeof(Item));
  item->MarkDead();
  segments_.MarkDead(offset, bytes);
  state_->numbers.moved_bytes += bytes;
  return true;
}

void Partition::CleanRun(uint32_t number) {
  const uint64_t offset = uint64_t{number} * kSegmentBytes;
  Item* item = ItemAt(offset);
  uint64_t* at = index_->FindOffset(HashKey(item->key()), offset);
  if (item->ExpiredAt(now_ms_)) return DropExpired(at);
  const uint32_t use = slot::Use(*at);
  if (use >= (policy_ == Policy::kLfu ? cutoff_ : policy_ == Policy::kLru ? 1 : 256)) {
    // It stays where it is, as the youngest.
    *at = slot::WithUse(*at, policy_ == Policy::kLfu ? use / 2 : 0);
    segments_.Renew(number);
    return;
  }
  EvictItem(at);
}

}  // namespace pulse::kv
