#include "services/kv/core/partition.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace pulse::kv {
namespace {

// The cleaner always finds one segment to move items to. Where memory is not too small for it, what
// changes the facts or the name of an item alone finds another one; else it takes the cleaner's.
constexpr uint64_t kLeastPagesForTwo = 16;
uint32_t KeptSegments(uint64_t pages) { return pages >= kLeastPagesForTwo ? 2 : 1; }
// Items that the cleaner looks at for each one that is added, where room is short.
constexpr int kCleanAhead = 4;

// Buckets may take all of the limit, and so may overflow buckets. Segments have four times the
// addresses, so that runs are found among them, too.
uint64_t SegmentsFor(uint64_t limit) { return 4 * limit / kPageBytes; }
// As many as a slot's places reach.
constexpr uint64_t kMostMemory = ((slot::kPlaceMask + 1) << 3) / 4;

// An index for more would leave too little for the items.
uint64_t MostExpected(const PartitionOptions& options) {
  return std::min(options.expected_items, Index::ItemsOf(options.memory_bytes / kPageBytes / 2));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Partition>> Partition::Open(const PartitionOptions& options) {
  if (options.memory_bytes < kLeastMemory) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a partition needs ", kLeastMemory >> 20, " MiB of memory at least, and would have ",
        options.memory_bytes >> 20, " MiB: give more memory, or make fewer partitions"));
  }
  if (options.memory_bytes > kMostMemory) {
    return absl::InvalidArgumentError(
        absl::StrCat("a partition takes ", kMostMemory >> 40,
                     " TiB of memory at most, and would have ", options.memory_bytes >> 40,
                     " TiB: give less (memory_bytes or --memory), or make more partitions"));
  }
  const uint64_t limit = options.memory_bytes / kPageBytes * kPageBytes;
  const uint64_t segments = SegmentsFor(limit);
  auto memory = Memory::Open(limit, 2 * limit + segments * kSegmentBytes,
                             UncountedBytes(static_cast<uint32_t>(segments)), options.file);
  if (!memory.ok()) return memory.status();
  const auto count = static_cast<uint32_t>(segments);
  const bool undone = options.file.is_given() && UndoChange(*memory, count);
  std::unique_ptr<Partition> partition(new Partition(options, *std::move(memory), count, undone));
  if (const absl::Status status = partition->Attach(MostExpected(options)); !status.ok())
    return status;
  return partition;
}

uint64_t Partition::FileBytes(uint64_t memory_bytes) {
  const uint64_t limit = memory_bytes / kPageBytes * kPageBytes;
  const uint64_t segments = SegmentsFor(limit);
  const uint64_t uncounted = UncountedBytes(static_cast<uint32_t>(segments));
  return (uncounted + kPageBytes - 1) / kPageBytes * kPageBytes + 2 * limit +
         segments * kSegmentBytes;
}

uint64_t Partition::FileLayout() {
  // The number of what sizes do not tell: 1 has an undo log, and its counters before its segments.
  constexpr uint64_t kOrder = 1;
  return kOrder << 56 | sizeof(State) << 40 | sizeof(Segments::Segment) << 24 |
         sizeof(Bucket) << 8 | sizeof(Item);
}

uint64_t Partition::UndoOffset(uint64_t memory_bytes) {
  return UndoAt(static_cast<uint32_t>(SegmentsFor(memory_bytes / kPageBytes * kPageBytes)));
}

Partition::Partition(const PartitionOptions& options, Memory memory, uint32_t segments, bool undone)
    : memory_(std::move(memory)),
      state_(reinterpret_cast<State*>(memory_.uncounted())),
      base_(memory_.base() + 2 * memory_.limit_pages() * kPageBytes),
      policy_(options.policy),
      kept_(options.file.is_given()),
      in_place_(policy_ == Policy::kNoEviction && !kept_),
      undone_(undone),
      largest_item_(memory_.limit_pages() / 2 * kPageBytes),
      segments_(base_, segments, reinterpret_cast<Segments::Segment*>(state_ + 1),
                &state_->segments, &memory_, &undo_),
      keep_(KeptSegments(memory_.limit_pages())),
      low_(std::max<uint64_t>(keep_ + 1, memory_.limit_pages() / 64)) {
  memory_.CountAt(&state_->used_pages);
  if (kept_) {
    char* const area = memory_.uncounted() + UndoAt(segments);
    undo_ = UndoLog(reinterpret_cast<UndoLog::Area*>(area), memory_.uncounted());
  }
  const uint64_t limit = memory_.limit_pages() * kPageBytes;
  most_open_ = static_cast<uint32_t>(std::max<uint64_t>(3, memory_.limit_pages() / 4));
  index_ = std::make_unique<Index>(memory_.base(), memory_.base() + limit, limit, &state_->index,
                                   &memory_, static_cast<const Index::Items*>(this),
                                   MostExpected(options), &undo_);
}

void Partition::DropItem(uint64_t* at) {
  const uint64_t offset = slot::Offset(*at);
  Item* item = ItemAt(offset);
  const size_t bytes = item->size();
  CountExpiry(*item, false);
  index_->Erase(HashKey(item->key()), at);
  undo_.NoteLines(item, sizeof(Item));
  item->MarkDead();
  segments_.MarkDead(offset, bytes);
}

void Partition::EvictItem(uint64_t* at) {
  if (on_evict_) on_evict_(ItemAt(slot::Offset(*at))->key());
  DropItem(at);
  ++state_->numbers.evicted;
}

void Partition::DropExpired(uint64_t* at) {
  if (on_expire_) on_expire_(ItemAt(slot::Offset(*at))->key());
  Change();
  DropItem(at);
  ++state_->numbers.expired;
}

uint64_t Partition::AllocateSlowly(size_t bytes, int ttl_class, bool urgent) {
  do {
    if (bytes > kSegmentBytes) {
      // Where there is eviction, the largest value that is allowed finds its place.
      const uint32_t keep = policy_ == Policy::kNoEviction ? keep_ : 1;
      if (const uint64_t run = segments_.AllocateRun(bytes, ttl_class, keep)) return run;
      // To evict more would give the file system nothing.
      if (memory_.is_refused()) return 0;
      continue;
    }
    // What was cleaned may have left room.
    if (const uint64_t at = segments_.AllocateOpen(bytes, ttl_class)) return at;
    // A small memory has no room for a segment of each class.
    if (segments_.open_segments() >= most_open_) {
      if (const uint64_t at = segments_.AllocateAnyOpen(bytes)) return at;
    }
    if (segments_.Open(ttl_class, keep_)) return segments_.AllocateOpen(bytes, ttl_class);
  } while (CleanOne(urgent ? Urgency::kUrgent : Urgency::kNone));
  if (bytes > kSegmentBytes) {
    return urgent ? segments_.AllocateRun(bytes, ttl_class, keep_ - 1) : 0;
  }
  if (const uint64_t at = segments_.AllocateAnyOpen(bytes)) return at;
  if (urgent && segments_.Open(ttl_class, keep_ - 1)) {
    return segments_.AllocateOpen(bytes, ttl_class);
  }
  while (urgent && CleanOne(Urgency::kLast)) {
    if (const uint64_t at = segments_.AllocateAnyOpen(bytes)) return at;
  }
  return 0;
}

bool Partition::FeedIndex() {
  while (index_->NeedsPage() || index_->WantsPage()) {
    const bool needed = index_->NeedsPage();
    if (needed && !index_->MayAddOverflow()) return false;
    if (segments_.available() <= keep_) {
      if (!needed) return true;
      if (!CleanOne()) return false;
      continue;
    }
    if (!memory_.Take(1)) {
      segments_.GiveOnePage();
      memory_.Take(1);
    }
    if (!index_->AddPage(needed)) return !needed;
  }
  return true;
}

Partition::Result Partition::PutItem(std::string_view key, uint64_t hash, size_t value_size,
                                     const ItemFacts& facts, Item** item, bool urgent,
                                     const Fill* fill) {
  if (key.size() > kMaxKeyBytes || value_size > kMaxValueBytes) return Result::kTooLarge;
  const uint8_t fields = facts.fields();
  const size_t bytes = Item::SizeOf(key.size(), value_size, fields);
  if (bytes > largest_item_) return Result::kTooLarge;
  NoteSize(bytes);
  const int ttl_class = TtlClassOf(facts.expires_ms, now_ms_);
  Change();
  uint64_t* at = FindSlot(key, hash);
  if (at != nullptr && !kept_ && fill == nullptr) {
    const uint64_t offset = slot::Offset(*at);
    Item* old = ItemAt(offset);
    if (old->fields() == fields && old->size() == bytes &&
        segments_.of(offset).ttl_class == ttl_class) {
      old->set_value_size(value_size);
      CountExpiry(*old, false);
      old->WriteFacts(facts);
      CountExpiry(*old, true);
      NoteExpiry(offset, facts.expires_ms);
      if (policy_ != Policy::kNoEviction) CountUse(at);
      *item = old;
      return Result::kStored;
    }
  }
  if (IsShort() && (HasVictim() || ChooseVictim())) {
    CleanStep(kCleanAhead);
    at = FindSlot(key, hash);
  }
  // First, as all that is in a segment is in the index, too. The old item may be evicted meanwhile.
  if ((at == nullptr || policy_ != Policy::kNoEviction) &&
      (index_->NeedsPage() || index_->WantsPage())) {
    if (!FeedIndex()) {
      ++state_->numbers.refused;
      return Result::kNoMemory;
    }
    at = FindSlot(key, hash);
  }
  uint64_t offset = bytes <= kSegmentBytes ? segments_.AllocateOpen(bytes, ttl_class) : 0;
  if (offset == 0) {
    offset = AllocateSlowly(bytes, ttl_class, urgent);
    at = FindSlot(key, hash);
  }
  if (offset == 0) {
    ++state_->numbers.refused;
    return Result::kNoMemory;
  }
  *item = ItemAt(offset);
  state_->replaced = at == nullptr ? 0 : slot::Offset(*at);
  InOrder();
  state_->stored = offset;
  InOrder();
  (*item)->Write(key, value_size, facts);
  if (fill != nullptr && !(*fill)((*item)->value_bytes())) {
    (*item)->MarkDead();
    InOrder();
    state_->stored = 0;
    segments_.MarkDead(offset, bytes);
    return Result::kNotFilled;
  }
  NoteExpiry(offset, facts.expires_ms);
  CountExpiry(**item, true);
  if (at == nullptr) {
    index_->Insert(hash, offset);
    return Result::kStored;
  }
  const uint64_t old_offset = slot::Offset(*at);
  Item* old = ItemAt(old_offset);
  index_->NoteSlot(at);
  *at = slot::WithOffset(*at, offset);
  if (policy_ != Policy::kNoEviction) CountUse(at);
  const size_t old_bytes = old->size();
  CountExpiry(*old, false);
  undo_.NoteLines(old, sizeof(Item));
  old->MarkDead();
  segments_.MarkDead(old_offset, old_bytes);
  return Result::kStored;
}

bool Partition::Erase(std::string_view key, uint64_t hash) {
  Change();
  uint64_t* at = FindSlot(key, hash);
  if (at == nullptr) return false;
  if (ItemAt(slot::Offset(*at))->ExpiredAt(now_ms_)) {
    DropExpired(at);
    return false;
  }
  DropItem(at);
  return true;
}

Partition::Result Partition::SetFacts(std::string_view key, uint64_t hash, const ItemFacts& facts,
                                      bool* found) {
  Item* item = Peek(key, hash);
  *found = item != nullptr;
  if (item == nullptr) return Result::kStored;
  // The value has to be out of the way: Put may move what it lies in.
  const uint64_t* at = FindSlot(key, hash);
  const uint64_t offset = slot::Offset(*at);
  auto& segment = segments_.of(offset);
  const int ttl_class = TtlClassOf(facts.expires_ms, now_ms_);
  const bool is_alone = segment.use == Segments::Use::kRun;
  // Marks take no bytes. An expiry that stays needs no other segment, although its class changes
  // with the time that is left; nor does that of a run, which has one item.
  if (((item->fields() ^ facts.fields()) & ~kMarks) == 0 &&
      (item->expires_ms() == facts.expires_ms || is_alone || segment.ttl_class == ttl_class)) {
    Change();
    undo_.NoteLines(item, sizeof(Item) + Item::FieldBytes(item->fields()));
    CountExpiry(*item, false);
    item->WriteFacts(facts);
    item->set_marks(facts.fields());
    CountExpiry(*item, true);
    if (is_alone) {
      undo_.Note(&segment);
      segment.ttl_class = static_cast<uint8_t>(ttl_class);
      segment.last_expiry_ms = 0;
      segment.first_expiry_ms = INT64_MAX;
    }
    NoteExpiry(offset, facts.expires_ms);
    return Result::kStored;
  }
  const std::string value(item->value());
  const Result result = Put(key, hash, value.size(), facts, &item, true);
  if (result == Result::kStored) std::memcpy(item->value_bytes(), value.data(), value.size());
  return result;
}

void Partition::Clear() {
  ++clears_;
  Change();
  undo_.Forbid();
  state_->busy = kClearing;
  InOrder();
  victim_ = {};
  state_->numbers.expiring = state_->numbers.expiry_seconds = 0;
  segments_.Clear();
  index_->Clear();
}

int Partition::UseOf(std::string_view key, uint64_t hash) {
  const uint64_t* at = FindSlot(key, hash);
  if (at == nullptr || ItemAt(slot::Offset(*at))->ExpiredAt(now_ms_)) return -1;
  return static_cast<int>(slot::Use(*at));
}

Item* Partition::Random(uint64_t random) {
  random_ = random | 1;
  std::vector<Item*> live;
  const auto collect = [&](const uint64_t* at) {
    Item* item = ItemAt(slot::Offset(*at));
    if (!item->ExpiredAt(now_ms_)) live.push_back(item);
  };
  // A bucket is taken as often as it has items, so that each item has the same chance.
  constexpr uint64_t kFullest = size_t{4} * kSlots;
  for (int tries = 0; tries < 64; ++tries) {
    live.clear();
    index_->ForEachIn(NextRandom() % index_->buckets(), collect);
    const uint64_t draw = NextRandom() % kFullest;
    if (draw < live.size()) return live[draw];
  }
  // Few are there: one of those that follow a random place.
  live.clear();
  uint64_t number = NextRandom() % index_->buckets();
  for (uint64_t i = 0; i < index_->buckets() && live.size() < 512; ++i) {
    index_->ForEachIn(number, collect);
    if (++number == index_->buckets()) number = 0;
  }
  return live.empty() ? nullptr : live[NextRandom() % live.size()];
}

bool Partition::Tick(int most) {
  Change();
  int left = most;
  for (uint32_t number = 1; number < segments_.end() && left > 0; ++number) {
    Segments::Segment& segment = segments_.at(number);
    const bool open = segment.use == Segments::Use::kOpen && segment.used > 0;
    const bool sealed = segment.use == Segments::Use::kSealed;
    const bool run = segment.use == Segments::Use::kRun;
    if (!(open || sealed || run) || segment.ttl_class == 0) continue;
    // An open one whose items have begun to expire takes no more, so that its end comes.
    if (open && segment.first_expiry_ms <= now_ms_) segments_.Seal(number);
    if (segments_.at(number).last_expiry_ms > now_ms_) continue;
    if (run) {
      CleanRun(number);
      --left;
      continue;
    }
    if (segments_.at(number).use != Segments::Use::kSealed) continue;
    // Unless it is at it already.
    if (!HasVictim() || victim_.number != number) victim_ = {number, segments_.at(number).age};
    for (; left > 0 && HasVictim(); left -= 16) {
      if (!CleanStep(16)) return false;
    }
  }
  if (left <= 0) return true;
  if (IsShort() && (HasVictim() || ChooseVictim())) {
    for (; left > 0 && HasVictim(); left -= 16) {
      if (!CleanStep(16)) break;
    }
  }
  return false;
}

PartitionNumbers Partition::numbers() const {
  PartitionNumbers numbers = state_->numbers;
  numbers.items = index_->items();
  numbers.item_bytes = segments_.item_bytes();
  numbers.dead_bytes = segments_.dead_bytes();
  numbers.index_bytes = index_->pages() * kPageBytes;
  numbers.used_bytes = memory_.used_pages() * kPageBytes;
  return numbers;
}

}  // namespace pulse::kv
