// memcached's commands, text and meta, on a KvStore: what memcached 1.6.18 answers, byte for byte,
// but for:
//
// - mg l counts from the last time that an item was stored, read, touched or counted; memcached's
//   time of an item moves more seldom, and also with an add that fails. What others than
//   memcached's clients have stored or changed knows no use: h is 0, l is -1. me does not tell cls,
//   its size is this store's, and exp is not negative.
// - ms, ma and md I also know E (the version to give the item), from later releases; not 0.
// - Without `b`, k returns the key as it is: the store does not remember that it was set with `b`.
// - incr and decr leave no blanks behind a number that gets shorter, which is a new item for h when
//   it gets longer again; and a number is all digits: "5 apples" is none.
// - Numbers that do not fit are refused, and not cut off. Times may have 64 bits.
// - The data block behind a line that is refused is thrown away where the line says how long it is,
//   also where memcached takes it for requests: somebody may have chosen it for that.
// - Of an item that a meta command has just given an expiry in the past, t tells 0. memcached tells
//   a number of about 2^32.
// - A value may have --max-value bytes: memcached's limit (-I) counts the key and more.
// - The binary protocol is not served: its clients get a line with an error, and are disconnected.
// - append and prepend say why they failed: SERVER_ERROR, not NOT_STORED.
// - A flush_all with a delay is forgotten when the server ends.
// - shutdown, slabs, lru, lru_crawler, watch and cache_memlimit are not served, and statistics are
//   those that the store and the server have: of connections and bytes, Redis's clients' are among
//   them. `stats items`, `stats slabs` and `stats sizes` are empty, as there are no slab classes.
// - An item that is stale, or that a client was told to make anew, stays so while it is counted up
//   or down, also where the number gets longer.
// - Where mg with N and b makes an item, the reply's k holds the key in base64, followed by b, as
//   the reply for an item that was there does.
//
// config get cluster, which memcached does not know, lists the endpoints as Amazon's ElastiCache
// does, for the clients that ask for it.
//
// An item that a Redis client has written has no version until one is asked for, by gets or c.
// Where there is no memory for it, they tell one that no item has, and a cas with it says EXISTS.
//
// Threads: an Executor is thread-safe. Blocking: Run only if it may. Errors: all are replies.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "services/kv/memcached/codec.h"
#include "services/kv/memcached/operations.h"
#include "services/kv/store.h"
#include "services/redis/serve.h"

namespace pulse::kv::memcached {

inline constexpr std::string_view kVersion = "1.6.18";  // of memcached, whose commands these are

// Counts up; `stats reset` begins anew, for memcached's clients alone.
class Counter {
 public:
  void Add(uint64_t n) { total_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t total() const { return total_.load(std::memory_order_relaxed); }
  uint64_t since_reset() const { return total() - base_.load(std::memory_order_relaxed); }
  void Reset() { base_.store(total(), std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> total_{0};
  std::atomic<uint64_t> base_{0};
};

// Of all connections. Thread-safe.
struct Counters {
  Counter commands;
  Counter hits;  // keys of get, gets, gat, gats, mg
  Counter misses;
  Counter stores;   // requests to store, whatever became of them
  Counter touches;  // keys of touch, gat, gats, mg with T
  Counter flushes;
  // Of them, those that compare.
  Counter cas_hits;
  Counter cas_misses;
  Counter cas_badval;

  void CountStore(bool compares, Outcome outcome) {
    stores.Add(1);
    if (!compares) return;
    if (outcome == Outcome::kDone) cas_hits.Add(1);
    if (outcome == Outcome::kNotFound) cas_misses.Add(1);
    if (outcome == Outcome::kExists) cas_badval.Add(1);
  }
  void Reset() {
    for (Counter* counter : {&commands, &hits, &misses, &stores, &touches, &flushes, &cas_hits,
                             &cas_misses, &cas_badval}) {
      counter->Reset();
    }
  }
  redis::CommandCounts Totals() const { return {commands.total(), hits.total(), misses.total()}; }
};

struct ExecutorOptions {
  uint64_t max_value = uint64_t{1} << 20;     // bytes; what RequestSplitter was given
  int64_t started_ms = 0;                     // for uptime
  const redis::Cluster* endpoints = nullptr;  // outlives the executor; null: not known
  int threads = 0;                            // that serve connections; 0: not told
  // Of the server as a whole; any thread. None while it ends; null: not told.
  std::function<std::optional<redis::ServerNumbers>()> server = {};
};

class Executor {
 public:
  // Both outlive it.
  Executor(KvStore* store, Counters* counters, const ExecutorOptions& options)
      : store_(store), counters_(counters), options_(options) {}

  // Carries one request out and appends the reply, if it has one. False: it would have blocked;
  // nothing was done, and it is to be run again with `may_block`.
  bool Run(const Request& request, bool may_block, std::string* out) const;
  // Whether the values of the reply, or the one that is made beside the store's memory, may be more
  // than kSmallReply.
  bool MayBeLarge(const Request& request) const;
  // How many bytes these will have, about. False: it would block.
  bool SizeOfReply(const Request& request, bool may_block, uint64_t* bytes) const;
  const ExecutorOptions& options() const { return options_; }

 private:
  bool RunCommand(const Request& request, bool may_block, std::string* out) const;
  bool Get(const Request& request, bool cas, bool touch, bool may_block, std::string* out) const;
  bool Set(const Request& request, StoreMode mode, bool cas, bool may_block,
           std::string* out) const;
  bool Increment(const Request& request, bool increment, bool may_block, std::string* out) const;
  bool TouchKey(const Request& request, bool may_block, std::string* out) const;
  bool DeleteKey(const Request& request, bool may_block, std::string* out) const;
  bool FlushAll(const Request& request, bool may_block, std::string* out) const;
  bool Stats(const Request& request, bool may_block, std::string* out) const;
  bool Config(const Request& request, std::string* out) const;

  // meta_commands.cc
  bool MetaGet(const Request& request, bool may_block, std::string* out) const;
  bool MetaSet(const Request& request, bool may_block, std::string* out) const;
  bool MetaDelete(const Request& request, bool may_block, std::string* out) const;
  bool MetaArithmetic(const Request& request, bool may_block, std::string* out) const;
  bool MetaDebug(const Request& request, bool may_block, std::string* out) const;

  KvStore* const store_;
  Counters* const counters_;
  const ExecutorOptions options_;
};

inline constexpr std::string_view kBadLine = "CLIENT_ERROR bad command line format";
inline constexpr std::string_view kBadChunk = "CLIENT_ERROR bad data chunk";
inline constexpr std::string_view kNotNumeric =
    "CLIENT_ERROR cannot increment or decrement non-numeric value";
inline constexpr std::string_view kObjectTooLarge = "SERVER_ERROR object too large for cache";
inline constexpr std::string_view kOutOfMemory = "SERVER_ERROR out of memory storing object";

// meta_commands.cc: the key that mg or ms names; in `decoded`, where it is in base64.
std::string_view KeyOfMeta(const Request& request, std::string* decoded);

inline void AppendLine(std::string_view line, std::string* out) {
  out->append(line).append("\r\n");
}
// A reply that noreply does not leave out. Always true: done.
inline bool Refuse(std::string_view line, std::string* out) {
  AppendLine(line, out);
  return true;
}

}  // namespace pulse::kv::memcached
