// The store inside a program, pulse/kv.h: partitions, each with a lock or an owner.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/shortage.h"
#include "pulse/kv.h"
#include "services/kv/core/batch.h"
#include "services/kv/core/partition.h"
#include "services/kv/program_calls.h"

namespace pulse {
namespace {

using absl::StatusCode;
using kv::After;
using kv::CallbackError;
using kv::Candidate;
using kv::CheckSetOptions;
using kv::CodeOf;
using kv::HashKey;
using kv::InCallback;
using kv::IsNormal;
using kv::Item;
using kv::KeyOf;
using kv::KeyText;
using kv::kPolicies;
using kv::Plain;
using kv::ValueSizeOf;

static_assert(kKvNever == kv::kNoExpiry);

// Of a step of a scan, whichever comes first.
constexpr size_t kStepItems = 64;
constexpr int kStepBuckets = 256;
// Of a cursor of Kv: the partition; below it, the cursor in the partition, of 41 bits at most.
constexpr int kCursorPartitionShift = 48;

absl::Status FoundOr(bool found) { return Plain(kv::FoundCode(found)); }

// What a partition tells Stats.
constexpr std::array kPublished = {&KvStats::items,   &KvStats::item_bytes, &KvStats::used_bytes,
                                   &KvStats::hits,    &KvStats::misses,     &KvStats::expired,
                                   &KvStats::evicted, &KvStats::refused};

}  // namespace

// A partition. Who has it, by its lock while nobody owns it or as its owner, calls Begin first and
// Publish last.
struct KvCalls::Shard {
  void Begin() { partition->SetNow(options->clock ? options->clock() : WallMillis()); }
  void Publish() {
    const kv::PartitionNumbers n = partition->numbers();
    const KvStats stats = {n.items, n.item_bytes, n.used_bytes, 0,        hits,
                           misses,  n.expired,    n.evicted,    n.refused};
    for (size_t i = 0; i < kPublished.size(); ++i) {
      published[i].store(stats.*kPublished[i], std::memory_order_relaxed);
    }
  }

  StatusCode SetAt(std::string_view key, uint64_t hash, std::string_view value,
                   const KvSetOptions& how, const Candidate& candidate) {
    return kv::SetAt(partition.get(), key, hash, value, how, candidate, kv::kMaxValueBytes);
  }
  absl::Status Set(std::string_view key, uint64_t hash, std::string_view value,
                   const KvSetOptions& how) {
    return ErrorOf(SetAt(key, hash, value, how, {}), key, value.size());
  }
  absl::Status SetExpiry(std::string_view key, uint64_t hash, int64_t expires_ms) {
    if (expires_ms <= partition->now_ms()) return FoundOr(partition->Erase(key, hash));
    const Item* item = partition->Peek(key, hash);
    if (item == nullptr) return Plain(StatusCode::kNotFound);
    const size_t value_size = item->value_size();
    kv::ItemFacts facts = item->facts();
    facts.expires_ms = expires_ms;
    bool found = false;
    // An item that had no expiry takes 8 bytes more.
    return ErrorOf(CodeOf(partition->SetFacts(key, hash, facts, &found)), key, value_size);
  }
  uint64_t Scan(uint64_t cursor, VisitItem visit) {
    size_t items = 0;
    int buckets = 0;
    do {
      cursor = partition->Scan(cursor, [&](const Item& item) {
        ++items;
        visit({item.key(), item.value(), item.expires_ms()});
      });
    } while (cursor != 0 && items < kStepItems && ++buckets < kStepBuckets);
    return cursor;
  }

  // In words. `value_size`: of what was to be stored. Any thread, whoever has the partition.
  absl::Status ErrorOf(StatusCode code, std::string_view key, size_t value_size) const;
  absl::Status OwnedError() const { return ErrorOf(StatusCode::kUnavailable, {}, 0); }

  // Other threads look here while there is an owner; so the rest has other lines.
  std::mutex mutex;
  bool owned = false;

  alignas(64) const KvOptions* options = nullptr;
  uint32_t number = 0;
  std::unique_ptr<kv::Partition> partition;
  uint64_t hits = 0;
  uint64_t misses = 0;
  alignas(64) std::array<std::atomic<uint64_t>, kPublished.size()> published{};
};

absl::Status KvCalls::Shard::ErrorOf(StatusCode code, std::string_view key,
                                     size_t value_size) const {
  if (IsNormal(code)) return Plain(code);
  const std::string what = absl::StrCat(KeyText(key), " with a value of ", value_size, " bytes");
  if (code == StatusCode::kUnavailable) {
    return absl::UnavailableError(absl::StrCat(
        "partition ", number, " has an owner: call through it, or again when it is destroyed"));
  }
  if (code == StatusCode::kResourceExhausted) {
    return absl::ResourceExhaustedError(
        absl::StrCat("partition ", number, " has no room for ", what,
                     options->policy == KvPolicy::kNone
                         ? ": delete items, or give more memory or a policy that evicts"
                         : ": give more memory, or fewer partitions"));
  }
  const auto partitions = static_cast<uint32_t>(options->partitions);
  if (const uint32_t home = kv::PartitionOf(HashKey(key), partitions); home != number) {
    return absl::InvalidArgumentError(absl::StrCat(KeyText(key), " is of partition ", home,
                                                   ", and not of this owner's: ask PartitionOf"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is too large: a key may have ", kv::kMaxKeyBytes, " bytes, a value ",
                   kv::kMaxValueBytes, ", and an item, here with a key of ", key.size(), " bytes, ",
                   partition->largest_item(),
                   ", half of a partition's memory: give more memory, or fewer partitions"));
}

class KvCalls::Impl {
 public:
  explicit Impl(const KvOptions& with)
      : options(with), shards(static_cast<size_t>(with.partitions)) {}
  uint32_t NumberOf(uint64_t hash) const {
    return kv::PartitionOf(hash, static_cast<uint32_t>(shards.size()));
  }

  const KvOptions options;
  std::vector<Shard> shards;
  std::jthread ticker;  // ends before the partitions do
  void TickUntil(const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "pulse-kv-tick");
    const std::chrono::milliseconds pause(std::min<int64_t>(options.tick_interval_ms, 86'400'000));
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock<std::mutex> lock(mutex);
    while (!wake.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); })) {
      KvCalls(this).Tick();
    }
  }
};

// Partitions, a bit each, that a call has: those of the wanted ones that nobody owns, with their
// locks, or the owner's. Locks are taken in ascending order, so that no threads wait for each other
// in a circle.
class KvCalls::Held {
 public:
  Held(const KvCalls& calls, uint64_t wanted)
      : shards_(calls.store_->shards.data()), locks_(calls.owner_ == nullptr) {
    if (!locks_) {
      held_ = uint64_t{1} << calls.owner_->number;
      calls.owner_->Begin();
      return;
    }
    for (; wanted != 0; wanted &= wanted - 1) {
      Shard& shard = shards_[std::countr_zero(wanted)];
      shard.mutex.lock();
      if (shard.owned) {
        shard.mutex.unlock();
        continue;
      }
      held_ |= uint64_t{1} << shard.number;
      shard.Begin();
    }
  }
  Held(const Held&) = delete;
  ~Held() {
    for (; held_ != 0; held_ &= held_ - 1) {
      Shard& shard = shards_[std::countr_zero(held_)];
      shard.Publish();
      if (locks_) shard.mutex.unlock();
    }
  }
  // Null: it is not for this call.
  Shard* Find(uint32_t number) const {
    return (held_ >> number & 1) != 0 ? &shards_[number] : nullptr;
  }

  // What a callback of such a call may not call.
  static const void* SourceOf(const KvCalls& calls) {
    return calls.owner_ != nullptr ? static_cast<const void*>(calls.owner_) : calls.store_;
  }
  // Calls `use(shard, hash)` with the key's partition.
  template <class Use>
  static std::invoke_result_t<Use, Shard&, uint64_t> With(const KvCalls& calls,
                                                          std::string_view key, const Use& use) {
    if (InCallback::Of(SourceOf(calls))) return CallbackError();
    const uint64_t hash = HashKey(key);
    const uint32_t number = calls.store_->NumberOf(hash);
    const Held held(calls, uint64_t{1} << number);
    if (Shard* shard = held.Find(number)) return use(*shard, hash);
    return SpeakerOf(calls, key).ErrorOf(RefusalOf(calls), key, 0);
  }

  // Calls `execute(i, shard, hash, candidate)` for each key whose partition is for this call; what
  // it returns is the key's code. The first refusal, in words. `Of` is what a batch is of: keys or
  // pairs.
  template <class Of, class Execute>
  static absl::Status Run(const KvCalls& calls, absl::Span<const Of> batch,
                          absl::Span<StatusCode> codes, const Execute& execute) {
    if (InCallback::Of(SourceOf(calls))) return CallbackError();
    if (!codes.empty() && codes.size() != batch.size()) {
      return kv::CodesError();
    }
    size_t refused = 0;
    StatusCode refusal = StatusCode::kOk;
    const InCallback in_callback(SourceOf(calls));
    for (size_t first = 0; first < batch.size(); first += kv::kLargestGroup) {
      RunGroup(calls, batch.subspan(first, kv::kLargestGroup),
               [&](size_t i, Shard* shard, uint64_t hash, const Candidate& candidate) {
                 const StatusCode code = shard != nullptr
                                             ? execute(first + i, *shard, hash, candidate)
                                             : RefusalOf(calls);
                 if (!codes.empty()) codes[first + i] = code;
                 if (refusal != StatusCode::kOk || IsNormal(code)) return;
                 refused = first + i;
                 refusal = code;
               });
    }
    if (refusal == StatusCode::kOk) return absl::OkStatus();
    const Of& one = batch[refused];
    const Shard& speaker = SpeakerOf(calls, KeyOf(one));
    const absl::Status why = speaker.ErrorOf(refusal, KeyOf(one), ValueSizeOf(one));
    return absl::Status(why.code(),
                        absl::StrCat("number ", refused, " of a batch: ", why.message()));
  }

 private:
  template <class Of, class Execute>
  static void RunGroup(const KvCalls& calls, absl::Span<const Of> group, const Execute& execute) {
    const Impl& store = *calls.store_;
    std::array<uint64_t, kv::kLargestGroup> hashes;
    std::array<Candidate, kv::kLargestGroup> candidates;
    uint64_t wanted = 0;
    for (size_t i = 0; i < group.size(); ++i) {
      hashes[i] = HashKey(KeyOf(group[i]));
      wanted |= uint64_t{1} << store.NumberOf(hashes[i]);
    }
    const Held held(calls, wanted);
    // As kv::RunOverlapped does, which is for one partition.
    const auto run = [&](size_t together, const auto& shard_of) {
      for (size_t i = 0; i < group.size(); ++i) {
        if (const Shard* shard = shard_of(i)) shard->partition->PrefetchBucket(hashes[i]);
      }
      for (size_t i = 0; i < group.size(); i += together) {
        const Shard* shard = shard_of(i);
        if (shard == nullptr) continue;
        kv::FindCandidates(*shard->partition, &hashes[i], together, &candidates[i]);
      }
      for (size_t i = 0; i < group.size(); ++i) execute(i, shard_of(i), hashes[i], candidates[i]);
    };
    if ((wanted & (wanted - 1)) == 0) {
      Shard* const only = held.Find(static_cast<uint32_t>(std::countr_zero(wanted)));
      run(group.size(), [only](size_t) { return only; });
    } else {
      run(1, [&](size_t i) { return held.Find(store.NumberOf(hashes[i])); });
    }
  }
  // Of keys whose partition is not for this call; and who says it in words.
  static StatusCode RefusalOf(const KvCalls& calls) {
    return calls.owner_ != nullptr ? StatusCode::kInvalidArgument : StatusCode::kUnavailable;
  }
  static const Shard& SpeakerOf(const KvCalls& calls, std::string_view key) {
    if (calls.owner_ != nullptr) return *calls.owner_;
    return calls.store_->shards[calls.store_->NumberOf(HashKey(key))];
  }

  Shard* const shards_;
  const bool locks_;
  uint64_t held_ = 0;
};

// --- Calls on keys.

absl::Status KvCalls::Get(std::string_view key, std::string* value) {
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) {
    const Item* item = shard.partition->Find(key, hash);
    ++(item != nullptr ? shard.hits : shard.misses);
    if (item != nullptr) value->assign(item->value());
    return FoundOr(item != nullptr);
  });
}

absl::Status KvCalls::Exists(std::string_view key) {
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) {
    return FoundOr(shard.partition->Peek(key, hash) != nullptr);
  });
}

absl::StatusOr<int64_t> KvCalls::GetExpiry(std::string_view key) {
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) -> absl::StatusOr<int64_t> {
    const Item* item = shard.partition->Peek(key, hash);
    if (item == nullptr) return Plain(StatusCode::kNotFound);
    return item->expires_ms();
  });
}

absl::Status KvCalls::Set(std::string_view key, std::string_view value,
                          const KvSetOptions& options) {
  PULSE_RETURN_IF_ERROR(CheckSetOptions(options));
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) {
    return shard.Set(key, hash, value, options);
  });
}

absl::Status KvCalls::Delete(std::string_view key) {
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) {
    return FoundOr(shard.partition->Erase(key, hash));
  });
}

absl::Status KvCalls::Touch(std::string_view key, int64_t ttl_ms) {
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) {
    shard.partition->Find(key, hash);  // counts
    return shard.SetExpiry(key, hash, After(shard.partition->now_ms(), ttl_ms));
  });
}

absl::Status KvCalls::SetExpiry(std::string_view key, int64_t expires_ms) {
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) {
    return shard.SetExpiry(key, hash, expires_ms);
  });
}

absl::StatusOr<int64_t> KvCalls::Increment(std::string_view key, int64_t delta) {
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) -> absl::StatusOr<int64_t> {
    const Item* item = shard.partition->Find(key, hash);
    KvSetOptions options;
    if (item != nullptr) options.expires_ms = item->expires_ms();
    PULSE_ASSIGN_OR_RETURN(const int64_t sum,
                           kv::SumOf(item != nullptr ? item->value() : "0", delta, key));
    PULSE_RETURN_IF_ERROR(shard.Set(key, hash, absl::StrCat(sum), options));
    return sum;
  });
}

absl::StatusOr<uint64_t> KvCalls::Append(std::string_view key, std::string_view suffix) {
  return Held::With(*this, key, [&](Shard& shard, uint64_t hash) -> absl::StatusOr<uint64_t> {
    const Item* item = shard.partition->Find(key, hash);
    KvSetOptions options;
    if (item != nullptr) options.expires_ms = item->expires_ms();
    // A copy, as the cleaner may move what the value lies in.
    std::string whole(item != nullptr ? item->value() : std::string_view());
    whole.append(suffix);
    PULSE_RETURN_IF_ERROR(shard.Set(key, hash, whole, options));
    return whole.size();
  });
}

absl::Status KvCalls::GetBatch(absl::Span<const std::string_view> keys, VisitValue visit) {
  return Held::Run(
      *this, keys, {}, [&](size_t i, Shard& shard, uint64_t hash, const Candidate& candidate) {
        const Item* item = shard.partition->FindAt(candidate.at, candidate.word, keys[i], hash);
        ++(item != nullptr ? shard.hits : shard.misses);
        visit(i, item != nullptr ? std::optional(item->value()) : std::nullopt);
        return StatusCode::kOk;
      });
}

absl::Status KvCalls::SetBatch(absl::Span<const KvPair> pairs, const KvSetOptions& options,
                               absl::Span<StatusCode> codes) {
  PULSE_RETURN_IF_ERROR(CheckSetOptions(options));
  return Held::Run(*this, pairs, codes,
                   [&](size_t i, Shard& shard, uint64_t hash, const Candidate& candidate) {
                     return shard.SetAt(pairs[i].key, hash, pairs[i].value, options, candidate);
                   });
}

absl::Status KvCalls::DeleteBatch(absl::Span<const std::string_view> keys,
                                  absl::Span<StatusCode> codes) {
  return Held::Run(
      *this, keys, codes, [&](size_t i, Shard& shard, uint64_t hash, const Candidate&) {
        return shard.partition->Erase(keys[i], hash) ? StatusCode::kOk : StatusCode::kNotFound;
      });
}

absl::Status KvCalls::Scan(uint64_t* cursor, VisitItem visit) {
  if (InCallback::Of(Held::SourceOf(*this))) return CallbackError();
  const uint64_t partitions = owner_ != nullptr ? 1 : store_->shards.size();
  const uint64_t at = *cursor >> kCursorPartitionShift;
  if (at >= partitions) return absl::InvalidArgumentError("no such cursor: begin with 0");
  Shard& shard = owner_ != nullptr ? *owner_ : store_->shards[at];
  const Held held(*this, uint64_t{1} << shard.number);
  const bool mine = held.Find(shard.number) != nullptr;
  uint64_t next = 0;
  if (mine) {
    const InCallback in_callback(Held::SourceOf(*this));
    next = shard.Scan(*cursor & ((uint64_t{1} << kCursorPartitionShift) - 1), visit);
  }
  const uint64_t after = next != 0 ? at : (at + 1) % partitions;
  *cursor = after << kCursorPartitionShift | next;
  return mine ? absl::OkStatus() : shard.OwnedError();
}

void KvCalls::Tick() {
  if (InCallback::Of(Held::SourceOf(*this))) return;
  for (const Shard& shard : store_->shards) {
    // Some thousand items with the lock.
    for (bool more = true; more;) {
      const Held held(*this, uint64_t{1} << shard.number);
      more = held.Find(shard.number) != nullptr && shard.partition->Tick();
    }
  }
}

// --- The store, and its owners.

Kv::Kv(std::unique_ptr<Impl> impl) : KvCalls(impl.get()), impl_(std::move(impl)) {}

Kv::~Kv() {
  for (Shard& shard : impl_->shards) {
    const std::lock_guard<std::mutex> lock(shard.mutex);
    PULSE_CHECK(!shard.owned, "owners are destroyed before their pulse::Kv");
  }
}

absl::StatusOr<std::unique_ptr<Kv>> Kv::Open(const KvOptions& options) {
  if (options.partitions < 1 || options.partitions > kKvMostPartitions) {
    return absl::InvalidArgumentError(absl::StrCat("there can be 1 to ", kKvMostPartitions,
                                                   " partitions, not ", options.partitions));
  }
  if (options.tick_interval_ms < 0 || static_cast<size_t>(options.policy) >= kPolicies.size()) {
    return absl::InvalidArgumentError("tick_interval_ms is below 0, or policy is no KvPolicy");
  }
  const auto partitions = static_cast<uint64_t>(options.partitions);
  kv::PartitionOptions one;
  one.policy = kPolicies[static_cast<size_t>(options.policy)];
  one.memory_bytes = options.memory_bytes / partitions;
  one.expected_items = options.expected_items / partitions;
  auto impl = std::make_unique<Impl>(options);
  for (uint32_t number = 0; number < partitions; ++number) {
    Shard& shard = impl->shards[number];
    shard.options = &impl->options;
    shard.number = number;
    PULSE_ASSIGN_OR_RETURN(shard.partition, kv::Partition::Open(one));
    shard.Publish();
  }
  if (options.tick_interval_ms > 0) {
    PULSE_RETURN_IF_ERROR(StartThread(
        "a store", std::bind_front(&KvCalls::Impl::TickUntil, impl.get()), &impl->ticker));
  }
  return std::unique_ptr<Kv>(new Kv(std::move(impl)));
}

int Kv::partitions() const { return impl_->options.partitions; }
int Kv::PartitionOf(std::string_view key) const {
  return static_cast<int>(impl_->NumberOf(HashKey(key)));
}

KvStats Kv::Stats() const {
  KvStats sum = {.memory_bytes = impl_->options.memory_bytes};
  for (const Shard& shard : impl_->shards) {
    for (size_t i = 0; i < kPublished.size(); ++i) {
      sum.*kPublished[i] += shard.published[i].load(std::memory_order_relaxed);
    }
  }
  return sum;
}

absl::StatusOr<std::unique_ptr<Kv::Owner>> Kv::Own(int partition) {
  if (InCallback::Of(impl_.get())) return CallbackError();
  if (partition < 0 || partition >= partitions()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no partition ", partition, ": they are 0 to ", partitions() - 1));
  }
  Shard& shard = impl_->shards[static_cast<size_t>(partition)];
  const std::lock_guard<std::mutex> lock(shard.mutex);
  if (shard.owned) return shard.OwnedError();
  shard.owned = true;
  return std::unique_ptr<Owner>(new Owner(store_, &shard));
}

Kv::Owner::~Owner() {
  const std::lock_guard<std::mutex> lock(owner_->mutex);
  owner_->owned = false;
}

int Kv::Owner::partition() const { return static_cast<int>(owner_->number); }

}  // namespace pulse
