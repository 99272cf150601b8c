// Plain GETs and SETs of a KvStore that go together.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "services/kv/held.h"
#include "services/kv/store.h"
#include "services/kv/view.h"

namespace pulse::kv {

using redis::Request;

// The misses of all keys overlap, as in ExecuteBatch, which is for one partition.
template <class Execute>
void KvStore::RunHashed(const Place& place, const uint64_t* hashes, size_t count,
                        const Execute& execute) {
  std::array<Candidate, kMostTogether> candidates;
  for (size_t i = 0; i < count; ++i) {
    partition(place.ShardOf(hashes[i])).PrefetchBucket(hashes[i]);
  }
  if (place.is_one()) {
    FindCandidates(partition(place.begin()), hashes, count, candidates.data());
  } else {
    for (size_t i = 0; i < count; ++i) {
      FindCandidates(partition(place.ShardOf(hashes[i])), &hashes[i], 1, &candidates[i]);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (!execute(i, partition(place.ShardOf(hashes[i])), hashes[i], candidates[i])) return;
  }
}

template <class Execute>
void KvStore::RunTogether(const Place& place, const std::string_view* keys, size_t count,
                          const Execute& execute) {
  std::array<uint64_t, kMostTogether> hashes;
  for (size_t i = 0; i < count; ++i) hashes[i] = HashKey(keys[i]);
  RunHashed(place, hashes.data(), count, execute);
}

void KvStore::WithPartitions(absl::Span<const std::string_view> keys, UseKey use) {
  PULSE_DCHECK(keys.size() <= kMostTogether);
  const Place place = Everywhere();
  std::array<uint64_t, kMostTogether> hashes;
  ShardSet wanted = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    hashes[i] = HashKey(keys[i]);
    wanted |= ShardSet{1} << place.ShardOf(hashes[i]);
  }
  Held held(this);
  held.Take(wanted, /*may_block=*/true);
  RunHashed(place, hashes.data(), keys.size(),
            [&](size_t i, Partition& partition, uint64_t hash, const Candidate& candidate) {
              use(i, partition, hash, candidate);
              return true;
            });
}

KvStore::RunResult KvStore::RunGets(const Request* requests, size_t count, uint64_t most_bytes,
                                    bool may_block, redis::ReplyWriter* reply,
                                    std::vector<size_t>* ends, redis::CommandCounts* counts) {
  return RunGets(Everywhere(), requests, count, most_bytes, may_block, reply, ends, counts);
}

KvStore::RunResult KvStore::RunGets(const Place& place, const Request* requests, size_t count,
                                    uint64_t most_bytes, bool may_block, redis::ReplyWriter* reply,
                                    std::vector<size_t>* ends, redis::CommandCounts* counts) {
  count = std::min(count, kMostTogether);
  std::array<std::string_view, kMostTogether> keys;
  ShardSet wanted = 0;
  for (size_t i = 0; i < count; ++i) {
    keys[i] = requests[i][1];
    wanted |= place.SetOf(keys[i]);
  }
  Held held(this);
  if (!held.Take(wanted, may_block)) return RunResult::kWouldBlock;
  uint64_t bytes = 0;
  RunTogether(place, keys.data(), count,
              [&](size_t i, Partition& partition, uint64_t hash, const Candidate& candidate) {
                const Item* item = partition.FindAt(candidate.at, candidate.word, keys[i], hash);
                // What would be too much with those before it is left for the next call.
                if (item != nullptr && i > 0 && bytes + item->value_size() > most_bytes) {
                  return false;
                }
                if (item != nullptr) {
                  reply->Bulk(item->value());
                  bytes += item->value_size();
                  ++counts->hits;
                } else {
                  reply->Null();
                  ++counts->misses;
                }
                ends->push_back(reply->out()->size());
                ++counts->commands;
                return bytes <= most_bytes;
              });
  return RunResult::kDone;
}

KvStore::RunResult KvStore::RunSets(absl::Span<const Request* const> sets, bool may_block,
                                    absl::Span<std::string> errors) {
  return RunSets(Everywhere(), sets, may_block, errors);
}

KvStore::RunResult KvStore::RunSets(const Place& place, absl::Span<const Request* const> sets,
                                    bool may_block, absl::Span<std::string> errors) {
  std::array<std::string_view, kMostTogether> keys;
  ShardSet wanted = 0;
  for (size_t i = 0; i < sets.size(); ++i) {
    keys[i] = (*sets[i])[1];
    wanted |= place.SetOf(keys[i]);
  }
  Held held(this);
  if (!held.Take(wanted, may_block)) return RunResult::kWouldBlock;
  RunTogether(place, keys.data(), sets.size(),
              [&](size_t i, Partition& partition, uint64_t hash, const Candidate& candidate) {
                const auto result = PutPlain(keys[i], (*sets[i])[2], hash, candidate, &partition);
                if (result != Partition::Result::kStored) errors[i] = RefusalOf(result, keys[i]);
                return true;
              });
  return RunResult::kDone;
}

void KvStore::RunPlain(redis::PlainBatch* batch, redis::ErrorStats* errors) {
  RunPlain(Everywhere(), batch, errors);
}

void KvStore::RunPlain(const Place& place, redis::PlainBatch* batch, redis::ErrorStats* errors) {
  std::array<std::string_view, kMostTogether> keys;
  bool goes_on = true;
  while (goes_on && batch->done() < batch->entries.size()) {
    const size_t first = batch->done();
    const size_t count = std::min(kMostTogether, batch->entries.size() - first);
    const redis::PlainBatch::Entry* const entries = &batch->entries[first];
    ShardSet wanted = 0;
    for (size_t i = 0; i < count; ++i) {
      keys[i] = batch->KeyOf(entries[i]);
      wanted |= place.SetOf(keys[i]);
    }
    Held held(this);
    if (!held.Take(wanted, /*may_block=*/false)) return;
    RunTogether(
        place, keys.data(), count,
        [&](size_t i, Partition& partition, uint64_t hash, const Candidate& candidate) {
          redis::ReplyWriter reply(&batch->out, entries[i].protocol, errors);
          if (entries[i].is_set) {
            const auto result =
                PutPlain(keys[i], batch->ValueOf(entries[i]), hash, candidate, &partition);
            if (result == Partition::Result::kStored) {
              reply.Ok();
            } else {
              reply.Error(RefusalOf(result, keys[i]));
            }
          } else {
            const Item* item = partition.FindAt(candidate.at, candidate.word, keys[i], hash);
            goes_on = item == nullptr || item->value_size() <= redis::PlainBatch::kMostValue;
            if (!goes_on) return false;
            if (item == nullptr) {
              reply.Null();
              ++batch->misses;
            } else {
              reply.Bulk(item->value());
              ++batch->hits;
            }
          }
          batch->ends.push_back(static_cast<uint32_t>(batch->out.size()));
          goes_on = batch->out.size() <= redis::PlainBatch::kMostBytes;
          return goes_on;
        });
  }
}

Partition::Result KvStore::PutPlain(std::string_view key, std::string_view value, uint64_t hash,
                                    const Candidate& candidate, Partition* partition) {
  Item* item = nullptr;
  const auto result =
      partition->PutAt(candidate.at, candidate.word, key, hash, value.size(), {}, &item);
  if (result != Partition::Result::kStored) return result;
  CopyValue(item->value_bytes(), value);
  if (watch_.active()) watch_.Touch(key);
  return result;
}

}  // namespace pulse::kv
