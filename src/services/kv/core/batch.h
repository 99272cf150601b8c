// A batch of requests on one partition, carried out in their order. The misses of several keys
// overlap: while one request is carried out, tags are compared and items fetched for those that
// follow, and buckets for those behind them. Figure 10 of the DPU-KV paper has the stages around
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

// What a batch knows of a key between its steps: a slot and what was in it; null and 0: none. Not
// initialized, since batches have arrays of them.
struct Candidate {
  uint64_t* at;
  uint64_t word;
};

// Most keys of a call that takes its keys together.
inline constexpr size_t kLargestGroup = 128;

// For each of `count` hashes whose buckets were fetched: the first slot with its tag, whose item it
// begins to fetch, or the next bucket. One for each set of instructions; the best that this machine
// has is chosen once.
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
// After it: the same for those whose tag no slot of their first bucket has.
void ResolveChains(const Partition& partition, const uint64_t* hashes, size_t count,
                   Candidate* candidates);
// Both.
inline void FindCandidates(const Partition& partition, const uint64_t* hashes, size_t count,
                           Candidate* candidates) {
  BestMatch()(partition, hashes, count, candidates);
  ResolveChains(partition, hashes, count, candidates);
}

// Overlaps the misses of requests that follow each other on one partition. Of a stream of batches
// it is kept from batch to batch: the next batch's misses then overlap with this one's, if its
// hashes are known. Hashes that turn out to be others cost the misses that they should have saved,
// and nothing else: FindAt and PutAt check what a candidate says.
class alignas(64) Lookahead {
 public:
  // Requests are carried out in steps of kStep. Ahead of a step's end the buckets of kBuckets more
  // are fetched, the tags of kItems compared and their items fetched, and what lies in overflow
  // buckets is resolved for kChains. More win nothing; what lies nearer is not there in time.
  static constexpr size_t kStep = 16;
  static constexpr size_t kBuckets = 48;
  static constexpr size_t kItems = 32;
  static constexpr size_t kChains = 16;

  // Carries out `count` requests, as RunOverlapped does; `hash_of` also knows the `ahead` ones that
  // follow them.
  template <class Store, class Match, class HashOf, class Execute>
  void Run(const Store& partition, size_t count, size_t ahead, const Match& match,
           const HashOf& hash_of, const Execute& execute) {
    // Index memory that was given back must not be touched.
    if (clears_ != partition.clears()) Forget();
    clears_ = partition.clears();
    const uint64_t first = done_;
    const uint64_t known = first + count + ahead;
    for (uint64_t at = first; at < first + count;) {
      const uint64_t end = std::min(at + kStep, first + count);
      for (const uint64_t to = std::min(end + kBuckets, known); fetched_ < to; ++fetched_) {
        const uint64_t hash = hash_of(fetched_ - first);
        hashes_[fetched_ % kRoom] = hash;
        partition.PrefetchBucket(hash);
      }
      Advance(&matched_, std::min(end + kItems, known), partition, match);
      Advance(&resolved_, std::min(end + kChains, known), partition,
              [](const auto&... args) { ResolveChains(args...); });
      for (; at < end; ++at) execute(at - first, candidates_[at % kRoom]);
    }
    done_ = first + count;
  }

  // What comes next is not what was fetched.
  void Forget() { fetched_ = matched_ = resolved_ = done_; }

 private:
  static constexpr size_t kRoom = 64;
  static_assert(kRoom >= kBuckets + kStep);

  // In runs that do not wrap.
  template <class Store, class Step>
  void Advance(uint64_t* at, uint64_t to, const Store& partition, const Step& step) {
    while (*at < to) {
      const size_t index = *at % kRoom;
      const size_t size = std::min<uint64_t>(to - *at, kRoom - index);
      step(partition, &hashes_[index], size, &candidates_[index]);
      *at += size;
    }
  }

  uint64_t clears_ = 0;
  // How many of the stream's requests were carried out, and so on; each at least the one before.
  uint64_t done_ = 0;
  uint64_t resolved_ = 0;
  uint64_t matched_ = 0;
  uint64_t fetched_ = 0;
  std::array<uint64_t, kRoom> hashes_;
  std::array<Candidate, kRoom> candidates_;
};

// Calls `execute(i, candidate)` for `count` requests in turn, so that their misses overlap;
// `hash_of(i)` is the hash of the i-th one's key. Store: Partition, or what has the same calls
// (bench/rivals/kv/mica_cache.h), with a match function of its own.
template <class Store, class Match, class HashOf, class Execute>
inline void RunOverlapped(const Store& partition, size_t count, const Match& match,
                          const HashOf& hash_of, const Execute& execute) {
  Lookahead lookahead;  // Lookahead() would clear it
  lookahead.Run(partition, count, 0, match, hash_of, execute);
}

// `sink` is told of each request in turn:
//   Got(i, const Item*)       null when there is none; the item is valid during the call
//   Stored(i, Partition::Result)
//   Deleted(i, bool)
template <class Store, class Match, class Sink>
void ExecuteBatch(Store* partition, const BatchRequest* requests, size_t count, const Match& match,
                  Sink* sink) {
  RunOverlapped(
      *partition, count, match, [&](size_t i) { return requests[i].hash; },
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
