#include "services/offload/cache_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "absl/strings/str_cat.h"

namespace pulse::offload {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr uint64_t kLanes = 0x0001000100010001;
constexpr size_t kKeyWords = kMaxKeyBytes / 8;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr uint32_t kLooksBeforeYield = 64;

uint32_t WordsOf(uint32_t bytes) { return (bytes + 7) / 8; }

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CacheTable>> CacheTable::Create(const Options& o) {
  if (o.key_size == 0 || o.key_size > kMaxKeyBytes || o.item_size > kMaxItemBytes) {
    return absl::InvalidArgumentError(absl::StrCat("cache table: keys of ", o.key_size,
                                                   " and items of ", o.item_size, " bytes; 1 to ",
                                                   kMaxKeyBytes, " and at most ", kMaxItemBytes));
  }
  // Numbers of buckets have 32 bits.
  if (o.capacity > uint64_t{1} << 30) {
    return absl::InvalidArgumentError(
        absl::StrCat("cache table: room for ", o.capacity, " items; at most 2^30"));
  }
  std::unique_ptr<CacheTable> table(new CacheTable(o));
  if (!table->Allocate()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cache table: no memory for ", table->memory_bytes_, " bytes, for ", o.capacity, " items"));
  }
  return table;
}

CacheTable::CacheTable(const Options& o)
    : key_size_(o.key_size),
      item_size_(o.item_size),
      key_words_(WordsOf(o.key_size)),
      slot_words_(WordsOf(o.key_size) + WordsOf(o.item_size)) {
  // At least three slots, and more where they fill lines that are there anyway.
  bucket_words_ = (2 + 3 * slot_words_ + kLine - 1) / kLine * kLine;
  slots_ = std::min(kMostSlots, (bucket_words_ - 2) / slot_words_);
  // Two homes and a few steps fill such buckets to some nine tenths.
  const uint64_t buckets = std::bit_ceil(std::max<uint64_t>(2, o.capacity * 10 / 8 / slots_ + 1));
  bucket_mask_ = static_cast<uint32_t>(buckets - 1);
  overflow_ = static_cast<uint32_t>(std::max<uint64_t>(1, buckets / 16));
  memory_bytes_ = (buckets + overflow_) * bucket_words_ * sizeof(Word);
}

bool CacheTable::Allocate() {
  const size_t bytes = (memory_bytes_ + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  memory_bytes_ = bytes;
  // Finds go anywhere: without these, each misses in the TLB as well.
  madvise(memory, bytes, MADV_HUGEPAGE);
  // Zero is the value of an empty bucket.
  buckets_ = static_cast<Word*>(memory);
  for (uint32_t n = overflow_; n > 0; --n) free_.push_back(n);
  return true;
}

CacheTable::~CacheTable() {
  if (buckets_ != nullptr) munmap(buckets_, memory_bytes_);
}

CacheTable::Counts CacheTable::counts() const {
  return {items_.load(kRelaxed), inserted_.load(kRelaxed), evicted_.load(kRelaxed), memory_bytes_};
}

void CacheTable::PadKey(const void* key, uint64_t* words) const {
  words[key_words_ - 1] = 0;
  std::memcpy(words, key, key_size_);
}

uint64_t CacheTable::Hash(const void* key) const {
  const auto* at = static_cast<const char*>(key);
  uint64_t h = 0x243f6a8885a308d3 ^ key_size_;
  uint32_t left = key_size_;
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    h = Mix(h ^ word, 0x9e3779b97f4a7c15);
  }
  if (left > 0) {
    uint64_t word = 0;
    std::memcpy(&word, at, left);
    h = Mix(h ^ word, 0x9e3779b97f4a7c15);
  }
  return Mix(h, 0xe7037ed1a0b428db);
}

CacheTable::Homes CacheTable::HomesOf(const void* key) const {
  const uint64_t hash = Hash(key);
  Homes homes;
  homes.tag = static_cast<uint16_t>(hash >> 48 | 1);
  homes.first = static_cast<uint32_t>(hash) & bucket_mask_;
  // Independent of the first as far as the bits go.
  homes.second = static_cast<uint32_t>(Mix(hash, 0xa0761d6478bd642f)) & bucket_mask_;
  if (homes.second == homes.first) homes.second ^= 1;
  return homes;
}

bool CacheTable::KeyIs(const Word* slot, const uint64_t* key) const {
  for (uint32_t i = 0; i < key_words_; ++i) {
    if (slot[i].load(kRelaxed) != key[i]) return false;
  }
  return true;
}

void CacheTable::CopyItem(const Word* slot, void* item) const {
  auto* to = static_cast<char*>(item);
  uint32_t left = item_size_;
  for (const Word* from = slot + key_words_; left > 0; ++from) {
    const uint64_t word = from->load(kRelaxed);
    const uint32_t n = std::min(left, uint32_t{8});
    std::memcpy(to, &word, n);
    to += n;
    left -= n;
  }
}

// --- readers

// `version`: of the head when the look began. kYes: the item is what the bucket had at one instant.
// kNo: only if the version still is the same at the end of it all.
CacheTable::Seen CacheTable::Look(const Word* head, uint16_t tag, const uint64_t* key, void* item,
                                  uint32_t* version) const {
  const uint64_t first = head[0].load(std::memory_order_acquire);
  *version = static_cast<uint32_t>(first);
  if ((first & 1) != 0) return Seen::kChanged;
  const Word* bucket = head;
  auto chain = static_cast<uint32_t>(first >> 32);
  for (int hops = 0;; ++hops) {
    // The slots whose tag it is, without a branch for each: those lanes become 0, and their top bit
    // is set here. A lane above one may be by mistake; the key tells. Empty slots' are no tag.
    const uint64_t differ = bucket[1].load(kRelaxed) ^ uint64_t { tag } * kLanes;
    for (uint64_t same = (differ - kLanes) & ~differ & kLanes << 15; same != 0; same &= same - 1) {
      const auto s = static_cast<uint32_t>(std::countr_zero(same)) / 16;
      if (s >= slots_) break;
      const Word* slot = SlotOf(const_cast<Word*>(bucket), s);
      if (!KeyIs(slot, key)) continue;
      CopyItem(slot, item);
      // Pairs with the release in BeginChange: if a word was of a later change, so is the version.
      std::atomic_thread_fence(std::memory_order_acquire);
      return static_cast<uint32_t>(head[0].load(kRelaxed)) == *version ? Seen::kYes
                                                                       : Seen::kChanged;
    }
    // A chain that is being changed may lead anywhere in the pool; the version tells.
    if (chain == 0 || chain > overflow_ || hops == kMostHops) return Seen::kNo;
    bucket = Overflow(chain);
    chain = ChainOf(bucket);
  }
}

bool CacheTable::Find(const void* key, void* item) const {
  uint64_t words[kKeyWords];
  PadKey(key, words);
  const Homes homes = HomesOf(key);
  const Word* const first = Bucket(homes.first);
  const Word* const second = Bucket(homes.second);
  __builtin_prefetch(second);
  for (uint32_t looks = 1;; ++looks) {
    // The writer takes less than this for a change, unless it has lost its processor: perhaps to
    // this thread.
    if (looks % kLooksBeforeYield == 0) std::this_thread::yield();
    uint32_t first_version = 0;
    uint32_t second_version = 0;
    const Seen in_first = Look(first, homes.tag, words, item, &first_version);
    if (in_first == Seen::kYes) return true;
    if (in_first == Seen::kChanged) continue;
    const Seen in_second = Look(second, homes.tag, words, item, &second_version);
    if (in_second == Seen::kYes) return true;
    if (in_second == Seen::kChanged) continue;
    // In neither, if neither has changed: it may have moved from one to the other between.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (static_cast<uint32_t>(first[0].load(kRelaxed)) == first_version &&
        static_cast<uint32_t>(second[0].load(kRelaxed)) == second_version) {
      return false;
    }
  }
}

// --- the writer

void CacheTable::BeginChange(Word* head) {
  head[0].store(head[0].load(kRelaxed) + 1, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
}

void CacheTable::EndChange(Word* head) {
  const uint64_t word = head[0].load(kRelaxed);
  // The version's carry must not reach the chain.
  const auto version = static_cast<uint32_t>(word) + 1;
  head[0].store((word & ~uint64_t{0xffffffff}) | version, std::memory_order_release);
}

void CacheTable::SetTag(Word* bucket, uint32_t slot, uint16_t tag) {
  const uint64_t tags = bucket[1].load(kRelaxed) & ~(uint64_t{0xffff} << (16 * slot));
  bucket[1].store(tags | uint64_t{tag} << (16 * slot), kRelaxed);
}

void CacheTable::Fill(Word* slot, const uint64_t* key, const void* item) const {
  for (uint32_t i = 0; i < key_words_; ++i) slot[i].store(key[i], kRelaxed);
  const auto* from = static_cast<const char*>(item);
  uint32_t left = item_size_;
  for (Word* to = slot + key_words_; left > 0; ++to) {
    uint64_t word = 0;
    const uint32_t n = std::min(left, uint32_t{8});
    std::memcpy(&word, from, n);
    to->store(word, kRelaxed);
    from += n;
    left -= n;
  }
}

CacheTable::Place CacheTable::FindPlace(Word* head, uint16_t tag, const uint64_t* key) const {
  for (Word* bucket = head;; bucket = Overflow(ChainOf(bucket))) {
    const uint64_t tags = bucket[1].load(kRelaxed);
    for (uint32_t s = 0; s < slots_; ++s) {
      if (TagAt(tags, s) == tag && KeyIs(SlotOf(bucket, s), key)) return {head, bucket, s};
    }
    if (ChainOf(bucket) == 0) return {};
  }
}

CacheTable::Place CacheTable::FreePlace(Word* head, bool with_chain) const {
  for (Word* bucket = head;; bucket = Overflow(ChainOf(bucket))) {
    const uint64_t tags = bucket[1].load(kRelaxed);
    for (uint32_t s = 0; s < slots_; ++s) {
      if (TagAt(tags, s) == 0) return {head, bucket, s};
    }
    if (!with_chain || ChainOf(bucket) == 0) return {};
  }
}

void CacheTable::Put(const void* key, const void* item) {
  uint64_t words[kKeyWords];
  PadKey(key, words);
  const Homes homes = HomesOf(key);
  Word* const heads[2] = {Bucket(homes.first), Bucket(homes.second)};
  __builtin_prefetch(heads[1]);
  Place place;
  bool is_new = false;
  for (Word* head : heads) {
    place = FindPlace(head, homes.tag, words);
    if (place.bucket != nullptr) break;
  }
  if (place.bucket == nullptr) {
    is_new = true;
    place = MakeRoom(homes);
  }
  BeginChange(place.head);
  Fill(SlotOf(place.bucket, place.slot), words, item);
  SetTag(place.bucket, place.slot, homes.tag);
  EndChange(place.head);
  if (!is_new) return;
  items_.store(items_.load(kRelaxed) + 1, kRelaxed);
  inserted_.store(inserted_.load(kRelaxed) + 1, kRelaxed);
}

bool CacheTable::Erase(const void* key) {
  uint64_t words[kKeyWords];
  PadKey(key, words);
  const Homes homes = HomesOf(key);
  for (const uint32_t home : {homes.first, homes.second}) {
    Word* const head = Bucket(home);
    const Place place = FindPlace(head, homes.tag, words);
    if (place.bucket == nullptr) continue;
    BeginChange(head);
    SetTag(place.bucket, place.slot, 0);
    if (place.bucket != head) DropEmpty(head);
    EndChange(head);
    items_.store(items_.load(kRelaxed) - 1, kRelaxed);
    return true;
  }
  return false;
}

CacheTable::Place CacheTable::MakeRoom(const Homes& homes) {
  for (const uint32_t home : {homes.first, homes.second}) {
    const Place place = FreePlace(Bucket(home), /*with_chain=*/false);
    if (place.bucket != nullptr) return place;
  }
  Place place;
  for (const int depth : {1, 2}) {
    for (const uint32_t home : {homes.first, homes.second}) {
      if (MoveOneOut(home, depth, &place)) return place;
    }
  }
  for (const uint32_t home : {homes.first, homes.second}) {
    place = FreePlace(Bucket(home), /*with_chain=*/true);
    if (place.bucket != nullptr) return place;
  }
  place = Chain(Bucket(homes.first));
  return place.bucket != nullptr ? place : Evict(homes);
}

// Of an item in bucket `here`.
uint32_t CacheTable::OtherHome(const Word* slot, uint32_t here) const {
  uint64_t words[kKeyWords];
  for (uint32_t i = 0; i < key_words_; ++i) words[i] = slot[i].load(kRelaxed);
  const Homes homes = HomesOf(words);
  return homes.first == here ? homes.second : homes.first;
}

// Moves an item of bucket `from` to its other bucket; with depth 2, after one of that has moved.
bool CacheTable::MoveOneOut(uint32_t from, int depth, Place* out) {
  Word* const head = Bucket(from);
  for (uint32_t s = 0; s < slots_; ++s) {
    const uint32_t other = OtherHome(SlotOf(head, s), from);
    Word* const other_head = Bucket(other);
    Place to = FreePlace(other_head, /*with_chain=*/false);
    if (to.bucket == nullptr && (depth == 1 || !MoveOneOut(other, 1, &to))) continue;
    // The second step may have moved one of its items to here; it had been full.
    if (TagAt(head[1].load(kRelaxed), s) == 0) continue;
    *out = {head, head, s};
    Move(*out, to);
    return true;
  }
  return false;
}

void CacheTable::Move(const Place& from, const Place& to) {
  // Both odd: no reader can find it in neither.
  BeginChange(from.head);
  BeginChange(to.head);
  const Word* source = SlotOf(from.bucket, from.slot);
  Word* target = SlotOf(to.bucket, to.slot);
  for (uint32_t i = 0; i < slot_words_; ++i) target[i].store(source[i].load(kRelaxed), kRelaxed);
  SetTag(to.bucket, to.slot, TagAt(from.bucket[1].load(kRelaxed), from.slot));
  SetTag(from.bucket, from.slot, 0);
  EndChange(to.head);
  EndChange(from.head);
}

// A further bucket behind `head`'s.
CacheTable::Place CacheTable::Chain(Word* head) {
  if (free_.empty()) return {};
  Word* last = head;
  for (int hops = 0; ChainOf(last) != 0; last = Overflow(ChainOf(last))) {
    if (++hops == kMostHops) return {};
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  Word* const bucket = Overflow(number);
  BeginChange(head);
  bucket[0].store(0, kRelaxed);
  bucket[1].store(0, kRelaxed);
  last[0].store((last[0].load(kRelaxed) & 0xffffffff) | uint64_t{number} << 32, kRelaxed);
  EndChange(head);
  return {head, bucket, 0};
}

// Gives back chained buckets that have become empty. Between Begin- and EndChange of `head`.
void CacheTable::DropEmpty(Word* head) {
  Word* before = head;
  while (const uint32_t number = ChainOf(before)) {
    Word* const bucket = Overflow(number);
    if (bucket[1].load(kRelaxed) != 0) {
      before = bucket;
      continue;
    }
    const uint64_t next = ChainOf(bucket);
    before[0].store((before[0].load(kRelaxed) & 0xffffffff) | next << 32, kRelaxed);
    free_.push_back(number);
  }
}

CacheTable::Place CacheTable::Evict(const Homes& homes) {
  uint64_t& r = random_;
  r ^= r << 13;
  r ^= r >> 7;
  r ^= r << 17;
  Word* const head = Bucket((r & 1) != 0 ? homes.first : homes.second);
  const Place place{head, head, static_cast<uint32_t>((r >> 8) % slots_)};
  BeginChange(head);
  SetTag(head, place.slot, 0);
  EndChange(head);
  items_.store(items_.load(kRelaxed) - 1, kRelaxed);
  evicted_.store(evicted_.load(kRelaxed) + 1, kRelaxed);
  return place;
}

}  // namespace pulse::offload
