// PulseDB's in-memory store, inside a program: no server, no agent. DPU-KV paper, section 4.1.
//
//   auto store = pulse::Kv::Open({.memory_bytes = uint64_t{1} << 30, .partitions = 4});
//   absl::Status stored = (*store)->Set("key", "value", {.ttl_ms = 60'000});
//   std::string value;
//   if ((*store)->Get("key", &value).ok()) ...
//
// examples/kv_example.cc is a whole program.
//
// Keys have 0 to 65535 bytes, any; values up to 512 MiB, and no more than half of a partition's
// memory. What is stored is copied into the store before a call returns, and Get copies it out.
// Bytes that are given to be stored must not lie in the store: pass no view from a callback on.
//
// Memory. `memory_bytes` are for items and index, are shared equally among the partitions, and are
// never exceeded. Room is taken when it is used. When a partition is full, items are refused under
// KvPolicy::kNone, or those that are used least make place.
//
// Time is in milliseconds since 1970, of the clock in the options. An item whose time has come does
// not exist for any call; Tick, or an item that needs its room, gives its memory back.
//
// Threads. Any thread may make any call of Kv at any time. Each partition has a lock; a call holds
// those of its keys, and a batch those of up to 128 keys at once. Calls on a single key are atomic;
// a batch is not. A program that owns its threads gives each of them a partition (Own): the calls
// of an Owner take no lock and know one thread at a time. While a partition has an owner, the calls
// of Kv on its keys do not wait: they are refused with Unavailable.
//
// Blocking. Calls wait for other calls on the same partition, and for page faults. No I/O.
//
// Callbacks see values in place while the partitions are held, so they should be short. A view is
// valid until the callback returns. A callback must not call the store: it is refused with
// FailedPrecondition. (A callback of an Owner may call Kv, for the keys of other partitions.)
//
// Errors. A call that is not OK has changed nothing, but for batches, which do what they can.
//   NotFound            there is no such item; without a message, so that it costs nothing
//   AlreadyExists       there is one, and only_if_absent was given; without a message
//   InvalidArgument     a key or value too large: names the limit; options that contradict; through
//                       an Owner, a key of another partition
//   ResourceExhausted   memory is full, and nothing may be evicted: names the remedy
//   FailedPrecondition  Increment on what is no number; a call from a callback
//   OutOfRange          Increment past the limits of int64_t
//   Unavailable         the partition has an owner
//
// Ownership. Owners are destroyed before their Kv, which must be after all calls have returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#ifndef PULSE_EXPORT
#define PULSE_EXPORT __attribute__((visibility("default")))
#endif

namespace pulse {

// What happens when memory is full.
enum class KvPolicy : uint8_t {
  kNone,    // items are refused
  kLfu,     // what is used least often goes
  kLru,     // what was not used for long goes
  kRandom,  // the oldest items go, used or not
};

inline constexpr int64_t kKvNever = INT64_MAX;  // an expiry
inline constexpr int kKvMostPartitions = 64;

struct KvOptions {
  // Of all partitions; 16 MiB to 2 TiB for each.
  uint64_t memory_bytes = uint64_t{1} << 30;
  // 1 to kKvMostPartitions. Threads on different ones do not wait for each other.
  int partitions = 1;
  KvPolicy policy = KvPolicy::kNone;
  // The index begins with room for them, of half of the memory at most.
  uint64_t expected_items = 0;
  // Milliseconds since 1970; empty: the system's time. Called by any thread, several at once, with
  // partitions held.
  std::function<int64_t()> clock = nullptr;
  // Above 0: a thread calls Tick so often, at least once a day; 100 suits. 0: there is none, and
  // the program may do it.
  int64_t tick_interval_ms = 0;
};

// At most one of the times, and one of the conditions.
struct KvSetOptions {
  int64_t expires_ms = kKvNever;  // when the item ends; a time that is past deletes it
  int64_t ttl_ms = 0;             // above 0: it ends so long after now
  bool only_if_absent = false;    // else AlreadyExists
  bool only_if_present = false;   // else NotFound
};

struct KvPair {
  std::string_view key;
  std::string_view value;
};

// An item in place.
struct KvItem {
  std::string_view key;
  std::string_view value;
  int64_t expires_ms = kKvNever;
};

// Of all partitions, since the store was opened. One with an owner counts as of the end of the
// owner's last call.
struct KvStats {
  uint64_t items = 0;         // with expired ones whose memory was not given back yet
  uint64_t item_bytes = 0;    // of those, with headers and padding
  uint64_t used_bytes = 0;    // memory that is taken, in all
  uint64_t memory_bytes = 0;  // the limit
  uint64_t hits = 0;          // keys of Get and GetBatch that were there
  uint64_t misses = 0;
  uint64_t expired = 0;  // items whose time came and whose memory was given back
  uint64_t evicted = 0;
  uint64_t refused = 0;  // attempts to store for which there was no memory
};

// The calls that a store (Kv) and the owner of one of its partitions (Kv::Owner) have in common.
class PULSE_EXPORT KvCalls {
 public:
  // `index` is the key's place in the batch; no value: there is no such item.
  using VisitValue = absl::FunctionRef<void(size_t index, std::optional<std::string_view> value)>;
  using VisitItem = absl::FunctionRef<void(const KvItem& item)>;

  KvCalls(const KvCalls&) = delete;
  KvCalls& operator=(const KvCalls&) = delete;

  // --- Single keys.
  // Counts as a use. `value` keeps its memory, so that calls in a loop need none; it stays as it
  // was unless OK.
  absl::Status Get(std::string_view key, std::string* value);
  // Not counted as a use, nor in the statistics.
  absl::Status Exists(std::string_view key);
  // When the item ends, or kKvNever. Not counted either.
  absl::StatusOr<int64_t> GetExpiry(std::string_view key);
  // Replaces value and expiry.
  absl::Status Set(std::string_view key, std::string_view value, const KvSetOptions& options = {});
  absl::Status Delete(std::string_view key);
  // The item ends `ttl_ms` from now; 0 or less deletes it. Counts as a use.
  absl::Status Touch(std::string_view key, int64_t ttl_ms);
  // A time that is past deletes the item; kKvNever: it does not end. Not counted as a use.
  absl::Status SetExpiry(std::string_view key, int64_t expires_ms);
  // The value, a number in decimal digits, becomes greater by `delta`; its expiry stays. Without an
  // item it begins at 0. Returns the sum.
  absl::StatusOr<int64_t> Increment(std::string_view key, int64_t delta = 1);
  // Without an item, stores the suffix; the expiry stays. Returns the new size in bytes. Copies the
  // whole value.
  absl::StatusOr<uint64_t> Append(std::string_view key, std::string_view suffix);

  // --- Batches: the cache misses of their keys overlap, so that a key costs a fraction of a single
  // call; 32 keys are a good number. In the order of the keys, which may repeat. Keys of partitions
  // that the caller cannot have are left out; the rest is done.
  //
  // Calls `visit` for each key that is not left out.
  absl::Status GetBatch(absl::Span<const std::string_view> keys, VisitValue visit);
  // `codes` is empty, or gets for each pair what Set would say. The result is the first refusal, in
  // words; that a condition does not hold is a code, but no refusal.
  absl::Status SetBatch(absl::Span<const KvPair> pairs, const KvSetOptions& options = {},
                        absl::Span<absl::StatusCode> codes = {});
  // `codes` as above: kOk or kNotFound, neither of them a refusal.
  absl::Status DeleteBatch(absl::Span<const std::string_view> keys,
                           absl::Span<absl::StatusCode> codes = {});

  // --- Iteration, in no order. An item that exists from beginning to end is visited at least once;
  // one that is added or removed meanwhile may be. A partition is held for a step, which visits
  // some 64 items.
  //
  // One step: begins at *cursor, which is 0 at first, and sets it to where the next one begins; 0:
  // that was the last. Unavailable: a partition has an owner, and *cursor is set behind it.
  absl::Status Scan(uint64_t* cursor, VisitItem visit);
  // All steps. Unavailable: partitions that have an owner were left out.
  absl::Status ForEach(VisitItem visit) {
    absl::Status all;
    uint64_t cursor = 0;
    do {
      const absl::Status step = Scan(&cursor, visit);
      if (!step.ok() && !absl::IsUnavailable(step)) return step;
      all.Update(step);
    } while (cursor != 0);
    return all;
  }

  // Gives back the memory of expired items, and makes some room where it is short. Some times in a
  // second, unless tick_interval_ms does it. Kv's leaves out partitions that have an owner, so
  // owners call their own.
  void Tick();

 protected:
  struct Shard;
  class Held;
  class Impl;
  // All partitions, by their locks; or the one of `owner`.
  explicit KvCalls(Impl* store, Shard* owner = nullptr) : store_(store), owner_(owner) {}
  ~KvCalls() = default;

  Impl* const store_;
  Shard* const owner_;
};

class PULSE_EXPORT Kv : public KvCalls {
 public:
  // InvalidArgument for options out of range; ResourceExhausted when the kernel gives no addresses
  // (some six times the memory).
  static absl::StatusOr<std::unique_ptr<Kv>> Open(const KvOptions& options);
  ~Kv();

  // Does not wait.
  KvStats Stats() const;
  int partitions() const;
  // 0 to partitions() - 1; not the same in each process.
  int PartitionOf(std::string_view key) const;

  // The calls on one partition without locks. Keys of others, by PartitionOf, are InvalidArgument.
  // One thread at a time; which one may change where the program orders the calls.
  class PULSE_EXPORT Owner : public KvCalls {
   public:
    ~Owner();
    int partition() const;

   private:
    friend class Kv;
    Owner(Impl* store, Shard* shard) : KvCalls(store, shard) {}
  };
  // The partition for the caller alone, until the Owner is destroyed. Waits for calls that are
  // under way in it. Unavailable when it has an owner; InvalidArgument when there is none such.
  absl::StatusOr<std::unique_ptr<Owner>> Own(int partition);

 private:
  explicit Kv(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace pulse
