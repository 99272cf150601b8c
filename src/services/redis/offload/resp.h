// OffloadedResp: the director's application that answers a Redis client's reads on the agent, from
// a secondary of the host's RocksDB, and passes everything else to the host. The client sees one
// server, which is linearizable and keeps each connection's order. DDS sections 5, 6 and 8.
//
// What is answered here: GET, MGET, EXISTS, TOUCH, STRLEN, TTL, PTTL, EXPIRETIME, PEXPIRETIME and
// TYPE of keys that are clean, or of which it is known what they hold (dirty_table.h has the
// proofs; value_cache.h), outside of MULTI, once the host has answered a read of this connection
// since it last said who it is (or everyone may read).
//
// Order within a connection. Commands take effect in the order in which the client sent them, as on
// a server, although some go to the host:
// - A read waits until the host has answered all that was forwarded before it; its reply could not
//   leave earlier anyway. What would have to be forwarded behind such reads waits for them in turn,
//   if it only concerns keys, and they are more than a few: a round trip to the host costs less
//   than their reading there. Few are forwarded before it, and so are all before what concerns the
//   connection (MULTI, AUTH, ...), and when too much waits.
// - A read takes effect at its check, so that what is forwarded later comes later. But its second
//   check may fail, and then the host is to answer it: so nothing behind it is forwarded before it
//   is answered, or forwarded itself. Then the device's answers are dropped.
// Nothing leaves the queue but from its front. A write that waits is not marked: it was not sent.
// A write that waits for reads before it is lost when its client's connection is reset meanwhile,
// as one that was still on its way would be: it was not acknowledged. So each connection's history
// is in program order, and all together is linearizable.
//
// Expiry is looked at with the clock as of the check. Host and agent have the same clock, so that a
// key that has expired for one has for the other afterwards. Dropping an expired value from the
// files (lazily, by compaction) changes no answer; it needs no mark. With clocks that differ, a
// margin sends reads of values that are about to expire to the host. A clock that is set back
// brings expired values back, as with any server.
//
// The host lost. Whether a command that was sent will still be carried out is not known: its keys
// stay dirty until the host says that no command of that connection is left (offload_fence.h), and
// a catch-up. Reads of clean and of known keys go on; everything else gets an error, and works
// again as soon as the host does. A client in MULTI or WATCH is disconnected, as half a transaction
// must not run. When the agent starts, everything is dirty until commands of connections that were
// before are through.
//
// All writes must come through this director: whatever else writes to the database makes reads
// stale. The host's private socket is the only other way in, of mode 0600.
//
// Threads: Open and destruction by one thread, after the director's end. The rest is thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/application.h"
#include "services/redis/commands/codec.h"
#include "services/redis/offload/secondary.h"
#include "services/redis/serve.h"

namespace pulse::redis {

struct OffloadShared;

struct OffloadOptions {
  std::string host;  // the host server's private listener: "unix:/path" or "address:port"
  SecondaryOptions secondary;
  Limits limits;
  bool needs_auth = false;      // nothing is answered before the host has answered a read
  bool wants_password = false;  // the server, of whom it does not know: else its refusals tell
  int readers = 2;              // threads for reads that wait for the device
  std::vector<int> cpus;        // of these; empty: all
  size_t queue = 1024;          // batches that wait for one; then the host answers
  size_t dirty_words = size_t{1} << 18;
  size_t value_cache_bytes = size_t{32} << 20;  // what keys are known to hold; 0: nothing

  // For what keys hold, and for blocks of the files.
  // A write ends what is known of all keys of its word, so that there are more words than keys; 4
  // MiB of words at least, which are beside the rest where that is little.
  void DivideMemory(uint64_t bytes) {
    const uint64_t values = bytes / 4 * 3;
    secondary.cache_bytes = bytes - values;
    dirty_words = std::clamp(std::bit_ceil(values / 256), dirty_words, size_t{1} << 26);
    value_cache_bytes = values - std::min<uint64_t>(values / 2, dirty_words * 16);
  }
  int64_t skew_ms = 0;  // by how much the host's clock may differ
  // For tests: a view instead of the secondary (its clock in hand), and a table that forgets.
  std::function<std::unique_ptr<ReadView>(CatchUpClock*, std::function<uint64_t()> wanted)> view;
  bool broken = false;
};

// Since the start. By reason: of those forwarded, reads that might have been answered here.
struct OffloadCounters {
  std::atomic<uint64_t> offloaded{0};
  std::atomic<uint64_t> known{0};            // of these: the agent knew what the keys hold
  std::atomic<uint64_t> from_page_cache{0};  // of these: the kernel's, and nothing was waited for
  std::atomic<uint64_t> from_device{0};      // of these: by a thread that may wait
  std::atomic<uint64_t> forwarded{0};        // all commands
  std::atomic<uint64_t> dirty{0};
  std::atomic<uint64_t> changed{0};  // while it was read
  std::atomic<uint64_t> order{0};    // something behind it had to be, and not to wait
  std::atomic<uint64_t> not_permitted{0};
  std::atomic<uint64_t> no_view{0};
  std::atomic<uint64_t> full{0};
  std::atomic<uint64_t> fences{0};
  std::atomic<uint64_t> lost{0};  // commands whose outcome is not known
};

// What else there is to watch.
struct OffloadNumbers {
  uint64_t writes_in_flight = 0;  // now: keys that are marked for them
  uint64_t fences = 0;            // that the host has answered
  uint64_t known_bytes = 0;       // memory for what keys are known to hold
  SecondaryStats secondary;       // all zero where a test has put another view in its place
};

class OffloadedResp final : public net::Application {
 public:
  static absl::StatusOr<std::unique_ptr<OffloadedResp>> Open(const OffloadOptions& options);
  ~OffloadedResp() override;

  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override;

  const OffloadCounters& counters() const;
  OffloadNumbers numbers() const;

 private:
  explicit OffloadedResp(std::shared_ptr<OffloadShared> shared) : shared_(std::move(shared)) {}
  std::shared_ptr<OffloadShared> shared_;
};

// For Server::Open: the agent within the server's process.
OffloadFactory EmbeddedOffload();

}  // namespace pulse::redis
