#include "services/kv/memcached/operations.h"

#include <algorithm>
#include <string>

#include "services/kv/memcached/codec.h"

namespace pulse::kv::memcached {
namespace {

constexpr int64_t kMostRelativeSeconds = int64_t{60} * 60 * 24 * 30;
constexpr int64_t kOver = 0;  // an expiry in the past

Outcome OutcomeOf(Partition::Result result) {
  switch (result) {
    case Partition::Result::kStored:
      return Outcome::kDone;
    case Partition::Result::kTooLarge:
      return Outcome::kTooLarge;
    case Partition::Result::kNoMemory:
    case Partition::Result::kNotFilled:  // by PutFilled alone
      break;
  }
  return Outcome::kNoMemory;
}

// One write of a key, whose partition is held.
class Write {
 public:
  Write(KvStore* store, Partition* partition, std::string_view key, uint64_t hash)
      : store_(store), partition_(partition), key_(key), hash_(hash) {}

  Outcome Put(std::string_view value, const ItemFacts& facts) {
    if (facts.expires_ms <= partition_->now_ms()) {
      Erase();
      return Outcome::kDone;
    }
    Item* item = nullptr;
    const auto result = partition_->Put(key_, hash_, value.size(), facts, &item);
    if (result != Partition::Result::kStored) return OutcomeOf(result);
    CopyValue(item->value_bytes(), value);
    Note();
    return Outcome::kDone;
  }
  void Erase() {
    if (partition_->Erase(key_, hash_)) Note();
  }
  void Note() {
    if (store_->watch_table()->active()) store_->watch_table()->Touch(key_);
  }

 private:
  KvStore* const store_;
  Partition* const partition_;
  const std::string_view key_;
  const uint64_t hash_;
};

// What came through an agent was measured by the agent's limit.
bool IsTooLarge(const StoreOperation& op) { return op.too_large || op.data.size() > op.max_value; }

Outcome StoreIn(KvStore* store, Partition& partition, uint64_t hash, const StoreOperation& op,
                uint64_t* cas) {
  Write write(store, &partition, op.key, hash);
  const bool extends = op.mode == StoreMode::kAppend || op.mode == StoreMode::kPrepend;
  const bool compares = op.compare.has_value() && op.mode != StoreMode::kAdd;
  ItemFacts facts = op.facts;
  std::string_view value = op.data;
  std::string extended;
  if (IsTooLarge(op)) return Outcome::kTooLarge;
  if (compares || op.mode != StoreMode::kSet) {
    const Item* item = partition.Peek(op.key, hash);
    if (op.mode == StoreMode::kAdd) {
      if (item != nullptr) {
        // No hit, but a use, as for memcached.
        partition.Count(op.key, hash);
        return Outcome::kNotStored;
      }
    } else if (item == nullptr) {
      return compares && !extends ? Outcome::kNotFound : Outcome::kNotStored;
    } else {
      // To append, 0 is as no version at all.
      const bool any = extends && op.compare == 0;
      const ItemFacts old = item->facts();
      if (compares && !any && (op.compare == 0 || old.cas != *op.compare)) {
        const bool older = op.compare != 0 && *op.compare < old.cas;
        if (!op.may_be_stale || extends || !older) return Outcome::kExists;
        facts.expires_ms = old.expires_ms;
        facts.stale = true;
        facts.taken = old.taken;
      }
      if (extends) {
        if (item->value_size() + op.data.size() > op.max_value) return Outcome::kTooLarge;
        facts = old;
        facts.stale = facts.taken = false;
        extended.reserve(item->value_size() + op.data.size());
        if (op.mode == StoreMode::kPrepend) extended.append(op.data);
        extended.append(item->value());
        if (op.mode == StoreMode::kAppend) extended.append(op.data);
        value = extended;
      }
    }
  }
  facts.cas = op.new_cas != 0 ? op.new_cas : store->NextCas();
  facts.use = ItemUse::Stored(partition.now_ms());
  const Outcome outcome = write.Put(value, facts);
  if (outcome == Outcome::kDone) *cas = facts.cas;
  return outcome;
}

// What memcached reads as a number, which may have blanks behind it.
bool ParseStored(std::string_view value, uint64_t* number) {
  const size_t end = value.find_last_not_of(' ');
  if (end == std::string_view::npos || end >= 20) return false;
  return ParseUnsigned(value.substr(0, end + 1), number);
}

Outcome DeltaIn(KvStore* store, Partition& partition, uint64_t hash, const DeltaOperation& op,
                DeltaResult* result) {
  Write write(store, &partition, op.key, hash);
  result->now_ms = partition.now_ms();
  const Item* item = partition.Peek(op.key, hash);  // Put counts the use
  const size_t old_size = item == nullptr ? 0 : item->value_size();
  ItemFacts facts;
  if (item == nullptr) {
    if (!op.create) return Outcome::kNotFound;
    result->created = true;
    result->value = op.initial;
    facts.expires_ms = op.created_expires_ms;
  } else {
    facts = item->facts();
    const bool compares = op.compare.has_value() && op.compare != 0;
    if (!ParseStored(item->value(), &result->value)) {
      // Nothing is no number, and anything else has a version first.
      if (compares && item->value_size() > 0 && facts.cas != *op.compare) return Outcome::kExists;
      return Outcome::kNotANumber;
    }
    if (compares && facts.cas != *op.compare) return Outcome::kExists;
    result->old_expires_ms = facts.expires_ms;
    if (op.increment) {
      result->value += op.delta;
    } else {
      result->value -= std::min(op.delta, result->value);
    }
    facts.expires_ms = op.expires_ms.value_or(facts.expires_ms);
  }
  facts.cas = op.new_cas != 0 ? op.new_cas : store->NextCas();
  result->cas = facts.cas;
  const std::string value = std::to_string(result->value);
  // A number that has grown is a new item; to count up or down is a use, and no hit.
  facts.use = value.size() > old_size ? ItemUse::Stored(partition.now_ms())
                                      : facts.use.At(partition.now_ms());
  return write.Put(value, facts);
}

}  // namespace

Outcome Store(KvStore* store, const StoreOperation& op, bool may_block, uint64_t* cas) {
  Outcome outcome = Outcome::kWouldBlock;
  store->WithPartition(op.key, may_block, [&](Partition& partition, uint64_t hash) {
    outcome = StoreIn(store, partition, hash, op, cas);
    const bool failed = outcome == Outcome::kTooLarge || outcome == Outcome::kNoMemory;
    bool drops = op.mode == StoreMode::kSet && !op.compare.has_value();
    if (op.always_drops) {
      // To append, it is the data alone that counts.
      drops = IsTooLarge(op) || (op.mode != StoreMode::kAppend && op.mode != StoreMode::kPrepend);
    }
    if (failed && drops) Write(store, &partition, op.key, hash).Erase();
  });
  return outcome;
}

Outcome Delta(KvStore* store, const DeltaOperation& op, bool may_block, DeltaResult* result) {
  Outcome outcome = Outcome::kWouldBlock;
  store->WithPartition(op.key, may_block, [&](Partition& partition, uint64_t hash) {
    outcome = DeltaIn(store, partition, hash, op, result);
  });
  return outcome;
}

Outcome Delete(KvStore* store, std::string_view key, std::optional<uint64_t> compare,
               bool may_block) {
  Outcome outcome = Outcome::kWouldBlock;
  store->WithPartition(key, may_block, [&](Partition& partition, uint64_t hash) {
    const Item* item = partition.Peek(key, hash);
    if (item == nullptr) {
      outcome = Outcome::kNotFound;
    } else if (compare.has_value() && (compare == 0 || item->facts().cas != *compare)) {
      outcome = Outcome::kExists;
    } else {
      outcome = Outcome::kDone;
      Write(store, &partition, key, hash).Erase();
    }
  });
  return outcome;
}

Outcome Invalidate(KvStore* store, const InvalidateOperation& op, bool may_block) {
  Outcome outcome = Outcome::kWouldBlock;
  store->WithPartition(op.key, may_block, [&](Partition& partition, uint64_t hash) {
    const Item* item = partition.Peek(op.key, hash);
    if (item == nullptr) {
      outcome = Outcome::kNotFound;
      return;
    }
    ItemFacts facts = item->facts();
    if (op.compare.has_value() && (op.compare == 0 || facts.cas != *op.compare)) {
      outcome = Outcome::kExists;
      return;
    }
    facts.cas = op.new_cas != 0 ? op.new_cas : store->NextCas();
    facts.stale = true;
    facts.taken = false;
    facts.expires_ms = op.expires_ms.value_or(facts.expires_ms);
    outcome = ChangeFacts(&partition, op.key, hash, facts);
    if (outcome == Outcome::kDone) Write(store, &partition, op.key, hash).Note();
  });
  return outcome;
}

Outcome Touch(KvStore* store, std::string_view key, int64_t expires_ms, bool may_block) {
  Outcome outcome = Outcome::kWouldBlock;
  store->WithPartition(key, may_block, [&](Partition& partition, uint64_t hash) {
    const Item* item = partition.Find(key, hash);
    if (item == nullptr) {
      outcome = Outcome::kNotFound;
      return;
    }
    ItemFacts facts = item->facts();
    facts.expires_ms = expires_ms;
    outcome = ChangeFacts(&partition, key, hash, facts);
    Write(store, &partition, key, hash).Note();
  });
  return outcome;
}

Outcome ChangeFacts(Partition* partition, std::string_view key, uint64_t hash,
                    const ItemFacts& facts) {
  if (facts.expires_ms <= partition->now_ms()) {
    partition->Erase(key, hash);
    return Outcome::kDone;
  }
  bool found = false;
  return OutcomeOf(partition->SetFacts(key, hash, facts, &found)) == Outcome::kDone
             ? Outcome::kDone
             : Outcome::kNoMemory;
}

Outcome GiveVersion(Partition* partition, std::string_view key, uint64_t hash, ItemFacts facts,
                    bool changes) {
  const Outcome outcome = ChangeFacts(partition, key, hash, facts);
  if (outcome == Outcome::kDone) return outcome;
  facts.cas = 0;
  return changes ? ChangeFacts(partition, key, hash, facts) : Outcome::kDone;
}

Outcome AddEmpty(Partition* partition, std::string_view key, uint64_t hash,
                 const ItemFacts& facts) {
  if (facts.expires_ms <= partition->now_ms()) return Outcome::kDone;
  Item* item = nullptr;
  return OutcomeOf(partition->Put(key, hash, 0, facts, &item));
}

int64_t ExpiryOf(int64_t exptime, int64_t now_ms) {
  if (exptime == 0) return kNoExpiry;
  if (exptime < 0) return kOver;
  if (exptime <= kMostRelativeSeconds) return now_ms + exptime * 1000;
  return exptime < kNoExpiry / 1000 ? exptime * 1000 : kNoExpiry;
}

int64_t SecondsLeft(int64_t expires_ms, int64_t now_ms) {
  if (expires_ms == kNoExpiry) return -1;
  return expires_ms <= now_ms ? 0 : (expires_ms - now_ms - 1) / 1000 + 1;
}

}  // namespace pulse::kv::memcached
