// What a partition does with memory that another process has left: it takes it as it is, or makes a
// new index from the items where that process was killed while it changed something.
#include <algorithm>
#include <array>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/kv/core/partition.h"

namespace pulse::kv {
namespace {

using Use = Segments::Use;

// Items whose buckets are fetched together.
constexpr size_t kTogether = 16;

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the memory file makes no sense: ", absl::string_view(what.data(), what.size()),
                   "; remove it to start without what is in it"));
}

}  // namespace

absl::Status Partition::Attach(uint64_t expected_items) {
  if (state_->index.count == 0 && state_->busy == 0) {
    if (index_->Begin(expected_items)) return absl::OkStatus();
    return absl::ResourceExhaustedError("the file system has no room for an index");
  }
  if (state_->busy != 0) return Recover();
  const absl::Status sound = CheckState();
  if (sound.ok() || !undone_) return sound;
  // What was put back was not what had been there.
  undone_ = false;
  return Recover();
}

bool Partition::UndoChange(const Memory& memory, uint32_t segments) {
  auto* const state = reinterpret_cast<State*>(memory.uncounted());
  if (state->busy == 0) return false;
  const auto* area = reinterpret_cast<const UndoLog::Area*>(memory.uncounted() + UndoAt(segments));
  // The head has a state that is not busy: it comes last.
  return UndoLog::PutBack(*area, memory.uncounted(), memory.bytes(), state, kHeadBytes);
}

absl::Status Partition::CheckState() const {
  const Index::State& index = state_->index;
  constexpr uint64_t kPerPage = kPageBytes / sizeof(Bucket);
  const uint64_t limit = memory_.limit_pages();
  if (index.bucket_pages > limit || index.overflow_pages > limit ||
      index.count > index.bucket_pages * kPerPage || !std::has_single_bit(index.half) ||
      index.count < index.half || index.count >= 2 * index.half ||
      index.overflow_used > std::max<uint64_t>(1, index.overflow_pages * kPerPage) ||
      index.overflow_free >= index.overflow_used) {
    return Damaged("its index has impossible numbers");
  }
  const Segments::State& all = state_->segments;
  if (all.end > segments_.count()) return Damaged("it has more segments than there may be");
  if (state_->numbers.expiring > index.items) return Damaged("more items expire than there are");
  uint64_t live = 0;
  uint64_t dead = 0;
  uint64_t pages = index.bucket_pages + index.overflow_pages;
  uint64_t free = 0;
  uint64_t open = 0;
  for (uint32_t number = 1; number < all.end; ++number) {
    const Segments::Segment& segment = segments_.at(number);
    pages += segment.use != Use::kAbsent;
    free += segment.use == Use::kFree;
    open += segment.use == Use::kOpen;
    const bool run = segment.use == Use::kRun;
    if (segment.use != Use::kOpen && segment.use != Use::kSealed && !run) continue;
    if (segment.used > uint64_t{run ? segment.length : 1} * kSegmentBytes ||
        segment.dead > segment.used || segment.length > all.end - number) {
      return Damaged("a segment has impossible numbers");
    }
    live += segment.used - segment.dead;
    dead += segment.dead;
  }
  if (live != all.item_bytes || dead != all.dead_bytes || free != all.free_count ||
      open != all.open_segments || pages != state_->used_pages || pages > limit) {
    return Damaged("its sums do not match its segments");
  }
  for (const auto& both : all.open) {
    for (const uint32_t number : both) {
      if (number != kNoSegment && (number >= all.end || segments_.at(number).use != Use::kOpen)) {
        return Damaged("an open segment is none");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Partition::Recover() {
  recovered_ = true;
  // Where this is killed, too, it begins anew.
  undo_.Forbid();
  if (state_->busy != kClearing) state_->busy = 1;
  InOrder();
  if (state_->segments.end > segments_.count()) return Damaged("it has too many segments");
  if (state_->busy == kClearing) {
    for (uint32_t number = 1; number < state_->segments.end; ++number) {
      segments_.at(number).use = Use::kAbsent;
    }
  }
  PULSE_RETURN_IF_ERROR(TakeBackStored());
  const uint64_t limit = memory_.limit_pages();
  const uint64_t overflow = std::clamp<uint64_t>(
      std::max(state_->index.overflow_pages, state_->overflow_pages), 1, limit);
  state_->overflow_pages = overflow;
  InOrder();
  uint64_t items = 0;
  PULSE_RETURN_IF_ERROR(WalkSegments(&items));
  memory_.Drop(memory_.base(), 2 * limit * kPageBytes);
  state_->index = {};
  if (state_->used_pages >= limit) return Damaged("it has more pages than memory");
  // The cleaner may have taken the last page but the index's first.
  const uint64_t left = limit - state_->used_pages;
  const uint64_t room = Index::ItemsOf(left - std::min(overflow, left - 1));
  if (!index_->Begin(std::min(items, room))) {
    return absl::ResourceExhaustedError("the file system has no room for a new index");
  }
  for (uint32_t number = 1; number < state_->segments.end; ++number) {
    PULSE_RETURN_IF_ERROR(IndexSegment(number));
  }
  state_->overflow_pages = 0;
  // Killed when the cleaner had taken the last segment: it goes on in what is left of one.
  if (segments_.available() == 0) segments_.OpenEmptiest();
  Settle();
  return absl::OkStatus();
}

// Its value may be incomplete. Nothing was changed since, so what it replaced is still there.
absl::Status Partition::TakeBackStored() {
  if (state_->stored == 0) return absl::OkStatus();
  const uint64_t end = uint64_t{state_->segments.end} * kSegmentBytes;
  if (state_->stored >= end || state_->replaced >= end) return Damaged("its last item is nowhere");
  ItemAt(state_->stored)->MarkDead();
  if (const uint64_t offset = state_->replaced; offset != 0) {
    Item* const old = ItemAt(offset);
    old->Revive();
    // Its segment may have been given back with it, or begun anew.
    const uint32_t number = Segments::NumberOf(offset);
    Segments::Segment& segment = segments_.at(number);
    const auto bytes = static_cast<uint32_t>(old->size());
    const uint32_t length = bytes > kSegmentBytes ? segment.length : 1;
    if (length > state_->segments.end - number) return Damaged("its last item has no end");
    segment.used = std::max(segment.used, static_cast<uint32_t>(offset % kSegmentBytes) + bytes);
    if (segment.use == Use::kFree) {
      for (uint32_t i = 1; i < length; ++i) segments_.at(number + i).use = Use::kRunRest;
      segment.use = length > 1 ? Use::kRun : Use::kSealed;
    }
  }
  InOrder();
  state_->stored = 0;
  return absl::OkStatus();
}

// Learns what segments hold, and counts anew. Open ones are sealed.
absl::Status Partition::WalkSegments(uint64_t* items) {
  Segments::State& all = state_->segments;
  // Not `end`, nor the last age: this may be killed, too.
  const uint32_t end = all.end;
  all.free_count = all.open_segments = 0;
  all.dead_bytes = all.item_bytes = 0;
  state_->numbers.expiring = state_->numbers.expiry_seconds = 0;
  for (auto& both : all.open) both[0] = both[1] = kNoSegment;
  state_->used_pages = 0;
  uint32_t rest = 0;  // segments of a run that follow
  for (uint32_t number = 1; number < end; ++number) {
    Segments::Segment& segment = segments_.at(number);
    if (rest > 0) {
      --rest;
      segment.use = Use::kRunRest;
      ++state_->used_pages;
      continue;
    }
    if (segment.use == Use::kRun) {
      if (segment.length == 0 || segment.length > end - number) return Damaged("a run has no end");
      PULSE_RETURN_IF_ERROR(WalkSegment(number, items));
      if (segment.use == Use::kRun) rest = segment.length - 1;
    } else if (segment.use == Use::kOpen || segment.use == Use::kSealed) {
      segment.use = Use::kSealed;
      segment.length = 1;
      PULSE_RETURN_IF_ERROR(WalkSegment(number, items));
    }
    if (segment.use == Use::kSealed || segment.use == Use::kRun) {
      ++state_->used_pages;
      continue;
    }
    // Free, or of a run that was never whole. Whether it has memory may not be known.
    segment.use = Use::kAbsent;
    memory_.Drop(base_ + uint64_t{number} * kSegmentBytes, kSegmentBytes);
  }
  segments_.ListFree();
  return absl::OkStatus();
}

absl::Status Partition::WalkSegment(uint32_t number, uint64_t* items) {
  Segments::Segment& segment = segments_.at(number);
  const uint64_t first = uint64_t{number} * kSegmentBytes;
  segment.dead = 0;
  segment.last_expiry_ms = 0;
  segment.first_expiry_ms = INT64_MAX;
  for (uint64_t at = 0; at < segment.used;) {
    const Item* item = ItemAt(first + at);
    const size_t bytes = item->size();
    if (bytes > segment.used - at) return Damaged("an item is larger than its segment");
    if (item->dead()) {
      segment.dead += static_cast<uint32_t>(bytes);
    } else {
      ++*items;
      CountExpiry(*item, true);
      NoteExpiry(first, item->expires_ms());
    }
    at += bytes;
  }
  if (segment.dead == segment.used) {
    segment.use = Use::kFree;
    return absl::OkStatus();
  }
  state_->segments.dead_bytes += segment.dead;
  state_->segments.item_bytes += segment.used - segment.dead;
  return absl::OkStatus();
}

absl::Status Partition::IndexSegment(uint32_t number) {
  const Segments::Segment& segment = segments_.at(number);
  if (segment.use != Use::kSealed && segment.use != Use::kRun) return absl::OkStatus();
  const uint64_t first = uint64_t{number} * kSegmentBytes;
  const uint32_t used = segment.used;
  for (uint64_t at = 0; at < used;) {
    std::array<std::pair<uint64_t, uint64_t>, kTogether> found;
    size_t count = 0;
    while (count < kTogether && at < used) {
      const Item* item = ItemAt(first + at);
      if (!item->dead()) {
        const uint64_t hash = HashKey(item->key());
        PrefetchBucket(hash);
        found[count++] = {first + at, hash};
      }
      at += item->size();
    }
    for (size_t i = 0; i < count; ++i) {
      const auto [offset, hash] = found[i];
      Item* item = ItemAt(offset);
      // Two of one key: the cleaner was about to give up what it had copied.
      if (FindSlot(item->key(), hash) != nullptr) {
        const size_t bytes = item->size();
        CountExpiry(*item, false);
        item->MarkDead();
        segments_.MarkDead(offset, bytes);
        continue;
      }
      if (index_->NeedsPage() && (!memory_.Take(1) || !index_->AddPage(true))) {
        return absl::ResourceExhaustedError("the memory file has no room for a new index");
      }
      index_->Insert(hash, offset);
    }
  }
  return absl::OkStatus();
}

}  // namespace pulse::kv
