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
inline constexpr size_t kLargestGroup = 64;

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

// `sink` is told of each request in turn:
//   Got(i, const Item*)       null when there is none; the item is valid during the call
//   Stored(i, Partition::Result)
//   Deleted(i, bool)
template <class Sink>
inline void ExecuteOne(Partition* partition, const BatchRequest& request, size_t i,
                       const Candidate& candidate, Sink* sink) {
  if (request.op == Op::kGet) {
    sink->Got(i, partition->FindAt(candidate.at, candidate.word, request.key, request.hash));
  } else if (request.op == Op::kSet) {
    Item* item;
    const auto result = partition->PutAt(candidate.at, candidate.word, request.key, request.hash,
                                         request.value.size(), request.facts, &item);
    if (result == Partition::Result::kStored) CopyValue(item->value_bytes(), request.value);
    sink->Stored(i, result);
  } else {
    sink->Deleted(i, partition->Erase(request.key, request.hash));
  }
}

template <class Sink>
void ExecuteBatch(Partition* partition, const BatchRequest* requests, size_t count, size_t group,
                  MatchFunction match, Sink* sink) {
  std::array<uint64_t, kLargestGroup> hashes;
  std::array<Candidate, kLargestGroup> candidates;
  group = std::min(group, kLargestGroup);
  for (size_t first = 0; first < count; first += group) {
    const size_t size = std::min(group, count - first);
    for (size_t i = 0; i < size; ++i) {
      hashes[i] = requests[first + i].hash;
      partition->PrefetchBucket(hashes[i]);
    }
    match(*partition, hashes.data(), size, candidates.data());
    for (size_t i = 0; i < size; ++i) {
      ExecuteOne(partition, requests[first + i], first + i, candidates[i], sink);
    }
  }
}

}  // namespace pulse::kv
