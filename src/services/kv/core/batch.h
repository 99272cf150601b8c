// A batch of requests on one partition, carried out in their order. The misses of several keys
// overlap: all of a group are hashed and their buckets fetched; then tags are compared and items
// fetched; then each request is carried out. Figure 10 of the DPU-KV paper has the stages around
// it.
//
// Threads: the partition's owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "services/kv/core/partition.h"

namespace pulse::kv {

enum class Op : uint8_t { kGet, kSet, kDelete };

struct BatchRequest {
  std::string_view key;
  uint64_t hash = 0;  // HashKey(key)
  std::string_view value;
  ItemFacts facts;
  Op op = Op::kGet;
};

// What a batch knows of a key between its steps.
struct Candidate {
  uint64_t* at = nullptr;
  uint64_t word = 0;
};

// So many keys are under way together.
inline constexpr size_t kLargestGroup = 128;

// For each of `count` hashes whose buckets were fetched: the first slot with its tag, whose item it
// begins to fetch. One for each set of instructions; the best that this machine has is chosen once.
using MatchFunction = void (*)(const Partition& partition, const uint64_t* hashes, size_t count,
                               Candidate* candidates);
struct Matcher {
  const char* name;
  MatchFunction match;
  bool usable;  // on this machine
};
// The best one is last among the usable ones.
const std::array<Matcher, 3>& Matchers();
MatchFunction BestMatch();
inline MatchFunction MatchOf(const Partition&) { return BestMatch(); }

// Calls `execute(i, candidate)` for `count` requests in turn, in groups of at most `group` whose
// misses overlap; `hash_of(i)` is the hash of the i-th one's key. Store: Partition, or what has the
// same calls (bench/rivals/kv/mica_cache.h), with a match function of its own.
template <class Store, class Match, class HashOf, class Execute>
inline void RunGroups(const Store& partition, size_t count, size_t group, const Match& match,
                      const HashOf& hash_of, const Execute& execute) {
  std::array<uint64_t, kLargestGroup> hashes;
  std::array<Candidate, kLargestGroup> candidates;
  group = std::min(group, kLargestGroup);
  for (size_t first = 0; first < count; first += group) {
    const size_t size = std::min(group, count - first);
    for (size_t i = 0; i < size; ++i) {
      hashes[i] = hash_of(first + i);
      partition.PrefetchBucket(hashes[i]);
    }
    match(partition, hashes.data(), size, candidates.data());
    for (size_t i = 0; i < size; ++i) execute(first + i, candidates[i]);
  }
}

// `sink` is told of each request in turn:
//   Got(i, const Item*)       null when there is none; the item is valid during the call
//   Stored(i, Partition::Result)
//   Deleted(i, bool)
template <class Store, class Match, class Sink>
void ExecuteBatch(Store* partition, const BatchRequest* requests, size_t count, size_t group,
                  const Match& match, Sink* sink) {
  RunGroups(
      *partition, count, group, match, [&](size_t i) { return requests[i].hash; },
      [&](size_t i, const Candidate& candidate) {
        const BatchRequest& r = requests[i];
        if (r.op == Op::kGet) {
          sink->Got(i, partition->FindAt(candidate.at, candidate.word, r.key, r.hash));
        } else if (r.op == Op::kSet) {
          Item* item;
          const auto result = partition->PutAt(candidate.at, candidate.word, r.key, r.hash,
                                               r.value.size(), r.facts, &item);
          if (result == Partition::Result::kStored) CopyValue(item->value_bytes(), r.value);
          sink->Stored(i, result);
        } else {
          sink->Deleted(i, partition->Erase(r.key, r.hash));
        }
      });
}

}  // namespace pulse::kv
