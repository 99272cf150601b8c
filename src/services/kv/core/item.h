// An item as it lies in a segment: a header of 8 bytes, the fields that this item has, key, value;
// padded to 8 bytes. Whoever needs no expiry, no CAS number and no client flags pays for none.
//
//   u32 value size | u16 key size | u8 which fields | u8 zero
//   i64 expiry, milliseconds since 1970          if kHasExpiry
//   u64 CAS number                               if kHasCas
//   u32 client flags, u32 use (ItemUse)          if kHasClientFlags
//
// Items are written and read by the owner of their partition. What is in a file must make sense
// wherever the process is killed: its stores are seen in the order of the program, which InOrder
// keeps the compiler to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace pulse::kv {

inline void InOrder() { std::atomic_signal_fence(std::memory_order_seq_cst); }

inline constexpr uint32_t kMaxKeyBytes = 65'535;
inline constexpr uint32_t kMaxValueBytes = uint32_t{512} << 20;
inline constexpr int64_t kNoExpiry = INT64_MAX;

// When an item was used last, and whether it was since it was stored. Memcached's items know; those
// of others have 0, which is not kept.
class ItemUse {
 public:
  ItemUse() = default;
  explicit ItemUse(uint32_t word) : word_(word) {}
  static ItemUse Stored(int64_t now_ms) { return ItemUse(kKept | SecondsOf(now_ms)); }
  static ItemUse Used(int64_t now_ms) { return ItemUse(kKept | kHit | SecondsOf(now_ms)); }

  uint32_t word() const { return word_; }
  bool kept() const { return (word_ & kKept) != 0; }
  bool hit() const { return (word_ & kHit) != 0; }
  // The same at another time.
  ItemUse At(int64_t now_ms) const {
    return kept() ? ItemUse((word_ & ~kSeconds) | SecondsOf(now_ms)) : *this;
  }
  // Of what is kept, up to 17 years. 0 of a time that is still to come: a clock was put back.
  uint32_t SecondsSince(int64_t now_ms) const {
    const uint32_t since = (SecondsOf(now_ms) - word_) & kSeconds;
    return since > kSeconds / 2 ? 0 : since;
  }

 private:
  static constexpr uint32_t kKept = uint32_t{1} << 31;
  static constexpr uint32_t kHit = uint32_t{1} << 30;
  static constexpr uint32_t kSeconds = kHit - 1;
  static uint32_t SecondsOf(int64_t now_ms) {
    return static_cast<uint32_t>(now_ms / 1000) & kSeconds;
  }

  uint32_t word_ = 0;
};

enum ItemFields : uint8_t {
  kHasExpiry = 1,
  kHasCas = 2,
  kHasClientFlags = 4,  // or a use
  kDead = 8,            // overwritten, deleted or moved: no slot points here
  // Marks, of memcached's meta commands; they take no bytes.
  kStale = 16,
  kTaken = 32,  // a client was told to make it anew
};
inline constexpr uint8_t kMarks = kStale | kTaken;

// What a value carries beside its bytes.
struct ItemFacts {
  int64_t expires_ms = kNoExpiry;
  uint64_t cas = 0;  // 0: none
  uint32_t client_flags = 0;
  ItemUse use = {};
  bool stale = false;
  bool taken = false;

  uint8_t fields() const {
    return static_cast<uint8_t>((expires_ms != kNoExpiry ? kHasExpiry : 0) |
                                (cas != 0 ? kHasCas : 0) |
                                (client_flags != 0 || use.kept() ? kHasClientFlags : 0) |
                                (stale ? kStale : 0) | (taken ? kTaken : 0));
  }
};

class Item {
 public:
  static constexpr size_t FieldBytes(uint8_t fields) {
    return ((fields & kHasExpiry) != 0 ? 8u : 0u) + ((fields & kHasCas) != 0 ? 8u : 0u) +
           ((fields & kHasClientFlags) != 0 ? 8u : 0u);
  }
  static constexpr size_t SizeOf(size_t key_size, size_t value_size, uint8_t fields) {
    return (8 + FieldBytes(fields) + key_size + value_size + 7) & ~size_t{7};
  }

  // Everything but the value. The header comes last: until then it is what it was, a hole.
  void Write(std::string_view key, size_t value_size, const ItemFacts& facts) {
    WriteFacts(facts);
    const uint8_t fields = facts.fields();
    std::memcpy(bytes() + FieldBytes(fields), key.data(), key.size());
    InOrder();
    SetHeader(value_size, key.size(), fields);
  }
  // All of `from`, which has `size` bytes; again the header last.
  void CopyFrom(const Item& from, size_t size) {
    std::memcpy(bytes(), from.bytes(), size - 8);
    InOrder();
    SetHeader(from.value_size_, from.key_size_, from.fields_);
  }
  // A dead item of `bytes` at `at`.
  static void WriteHole(char* at, size_t bytes) {
    reinterpret_cast<Item*>(at)->SetHeader(bytes - 8, 0, kDead);
  }
  // The fields alone; `facts` has the same ones.
  void WriteFacts(const ItemFacts& facts) {
    char* at = bytes();
    const uint8_t fields = facts.fields();
    if (fields == 0) return;
    if ((fields & kHasExpiry) != 0) {
      std::memcpy(at, &facts.expires_ms, 8);
      at += 8;
    }
    if ((fields & kHasCas) != 0) {
      std::memcpy(at, &facts.cas, 8);
      at += 8;
    }
    if ((fields & kHasClientFlags) != 0) {
      const uint64_t both = facts.client_flags | uint64_t{facts.use.word()} << 32;
      std::memcpy(at, &both, 8);
    }
  }
  ItemFacts facts() const {
    ItemFacts facts;
    const char* at = bytes();
    if ((fields_ & kHasExpiry) != 0) {
      std::memcpy(&facts.expires_ms, at, 8);
      at += 8;
    }
    if ((fields_ & kHasCas) != 0) {
      std::memcpy(&facts.cas, at, 8);
      at += 8;
    }
    if ((fields_ & kHasClientFlags) != 0) {
      uint32_t use;
      std::memcpy(&facts.client_flags, at, 4);
      std::memcpy(&use, at + 4, 4);
      facts.use = ItemUse(use);
    }
    facts.stale = (fields_ & kStale) != 0;
    facts.taken = (fields_ & kTaken) != 0;
    return facts;
  }

  uint8_t fields() const { return fields_ & (kHasExpiry | kHasCas | kHasClientFlags | kMarks); }
  void set_marks(uint8_t fields) {
    fields_ = static_cast<uint8_t>((fields_ & ~kMarks) | (fields & kMarks));
  }
  bool dead() const { return (fields_ & kDead) != 0; }
  void MarkDead() { fields_ |= kDead; }
  void Revive() { fields_ &= static_cast<uint8_t>(~kDead); }
  int64_t expires_ms() const {
    if ((fields_ & kHasExpiry) == 0) return kNoExpiry;
    int64_t at;
    std::memcpy(&at, bytes(), 8);
    return at;
  }
  bool ExpiredAt(int64_t now_ms) const {
    return (fields_ & kHasExpiry) != 0 && expires_ms() <= now_ms;
  }
  // It is used now; one that keeps no use notes nothing.
  void NoteUse(int64_t now_ms) {
    if ((fields_ & kHasClientFlags) == 0) return;
    char* at = bytes() + FieldBytes(fields_ & (kHasExpiry | kHasCas)) + 4;
    uint32_t use;
    std::memcpy(&use, at, 4);
    const uint32_t now = ItemUse::Used(now_ms).word();
    if (ItemUse(use).kept() && use != now) std::memcpy(at, &now, 4);
  }
  std::string_view key() const { return {bytes() + FieldBytes(fields_), key_size_}; }
  std::string_view value() const { return {value_bytes(), value_size_}; }
  const char* value_bytes() const { return bytes() + FieldBytes(fields_) + key_size_; }
  char* value_bytes() { return bytes() + FieldBytes(fields_) + key_size_; }
  size_t value_size() const { return value_size_; }
  // To one that takes as many bytes, padding included.
  void set_value_size(size_t size) { value_size_ = static_cast<uint32_t>(size); }
  size_t key_size() const { return key_size_; }
  size_t size() const { return SizeOf(key_size_, value_size_, fields_); }

  // Whether this is the item of `key`. Keys of 8 bytes are the case to be fast in.
  bool Is(std::string_view key) const {
    if (key.size() != key_size_) return false;
    const char* mine = bytes() + FieldBytes(fields_);
    if (key.size() == 8) {
      uint64_t a;
      uint64_t b;
      std::memcpy(&a, mine, 8);
      std::memcpy(&b, key.data(), 8);
      return a == b;
    }
    return std::memcmp(mine, key.data(), key.size()) == 0;
  }

 private:
  // In one store, so that a walk never meets half of it.
  void SetHeader(size_t value_size, size_t key_size, uint8_t fields) {
    const uint64_t header = uint64_t{static_cast<uint32_t>(value_size)} |
                            uint64_t{static_cast<uint16_t>(key_size)} << 32 |
                            uint64_t{fields} << 48;
    using Word [[gnu::may_alias]] = uint64_t;
    __atomic_store_n(reinterpret_cast<Word*>(this), header, __ATOMIC_RELAXED);
  }
  char* bytes() { return reinterpret_cast<char*>(this) + 8; }
  const char* bytes() const { return reinterpret_cast<const char*>(this) + 8; }

  uint32_t value_size_;
  uint16_t key_size_;
  uint8_t fields_;
  // And a byte of zero.
};
static_assert(sizeof(Item) == 8);

}  // namespace pulse::kv
