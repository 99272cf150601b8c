// Store: Redis's strings in a RocksDB. Each command is atomic: it takes the locks of the keys that
// it changes (key_locks.h), reads, decides, and writes once. A transaction does the same for all
// its commands together. Values carry their expiry (value.h): what has expired does not exist, and
// compactions drop it.
//
// Threads: all calls are thread-safe. Blocking: with `may_block` false, a command that would have
// to read from the device, to wait for a lock, or for a write that RocksDB holds back, says
// kWouldBlock and has done nothing; the caller runs it again where it may wait.
//
// Errors: what a client did wrong, and what RocksDB says, become replies. Open says what failed, on
// which directory, and the remedy.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "services/redis/codec.h"
#include "services/redis/commands.h"
#include "services/redis/cursors.h"
#include "services/redis/key_locks.h"
#include "services/redis/key_sampler.h"
#include "services/redis/serve.h"
#include "services/redis/store_view.h"
#include "services/redis/watch.h"

namespace pulse::redis {

using Arguments = std::vector<std::string_view>;

// Counted by one thread, added to the store's now and then.
struct CommandCounts {
  uint64_t commands = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t errors = 0;  // replies that are errors
  uint64_t waited = 0;  // commands that had to leave their loop
};

struct StoreOptions {
  std::string path;
  std::string uri;  // pulse://..., or empty
  uint64_t cache_bytes = uint64_t{256} << 20;
  SyncMode sync = SyncMode::kEverySecond;
  std::function<int64_t()> clock = &WallMillis;  // milliseconds since 1970
  uint64_t max_value = uint64_t{32} << 20;       // bytes that APPEND and the like may make
  // Of one reply of many keys or values, and of a transaction's; beyond it, an error instead.
  uint64_t max_reply = uint64_t{128} << 20;
  // Of keys and values that one transaction writes; beyond it, none of it is carried out.
  uint64_t max_transaction = uint64_t{256} << 20;
  uint64_t seed = std::random_device{}();  // of the keys that RANDOMKEY returns
};

class Store;

// One command under way.
struct Call {
  const CommandInfo& command;
  const Arguments& args;
  View& view;
  ReplyWriter& reply;
  Store& store;
  CommandCounts& counts;
};

class Store {
 public:
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);
  ~Store();
  // Makes all writes durable and closes the database. Once; no call is under way or follows.
  absl::Status Close();

  enum class RunResult { kDone, kWouldBlock };
  // A command that reads or writes keys, and whose arity fits. Appends one reply.
  RunResult Run(const CommandInfo& command, const Arguments& args, bool may_block,
                ReplyWriter* reply, CommandCounts* counts);

  // Plain GETs that follow each other, read together and each answered: the first ones, as many as
  // have about `most_bytes` of values between them; at least one. `ends` grows by as many as were
  // answered.
  RunResult RunGets(const Request* requests, size_t count, uint64_t most_bytes, bool may_block,
                    ReplyWriter* reply, std::vector<size_t>* ends, CommandCounts* counts);
  // SETs without options, by one write. Where `status` is an error, none of them was carried out.
  RunResult RunSets(absl::Span<const Request* const> sets, bool may_block, rocksdb::Status* status);

  // All commands of a transaction, or none of them: then the reply is the null array, as a watched
  // key has changed. `other` carries out what does not concern keys. Blocks.
  struct Queued {
    const CommandInfo* command;
    const Arguments* args;
  };
  void RunTransaction(const std::vector<Queued>& commands, const WatchTable::Set& watches,
                      const std::function<void(const Queued&, ReplyWriter*)>& other,
                      ReplyWriter* reply, CommandCounts* counts);
  // Begins to watch `keys`. False when it would block.
  bool Watch(const std::string_view* keys, size_t count, bool may_block, WatchTable::Set* watches,
             std::string* error);

  WatchTable* watch_table() { return &watch_; }
  CursorTable& cursors() { return cursors_; }
  KeySampler& key_sampler() { return key_sampler_; }
  int64_t now_ms() const { return options_.clock(); }
  const StoreOptions& options() const { return options_; }
  uint64_t KeysEstimate() const;
  // A property of RocksDB's that is a number; 0 when there is none.
  uint64_t Property(const char* name) const;
  uint64_t expired_dropped() const { return expired_dropped_->load(std::memory_order_relaxed); }
  rocksdb::DB* db() { return db_.get(); }

 private:
  friend class View;
  explicit Store(const StoreOptions& options) : options_(options), key_sampler_(options.seed) {}
  absl::Status OpenDatabase();
  absl::Status CheckFormat();
  // Writes what the view holds. False: it was held back, and nothing was written.
  bool Commit(View* view);
  bool Write(rocksdb::WriteBatch* batch, View* view);
  void TouchWatched(const View& view);
  void Housekeeping();
  void CompactAfterFlushes();

  StoreOptions options_;
  std::shared_ptr<std::atomic<uint64_t>> expired_dropped_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  std::shared_ptr<void> env_guard_;
  std::unique_ptr<rocksdb::DB> db_;
  KeyLocks locks_;
  WatchTable watch_;
  CursorTable cursors_;
  KeySampler key_sampler_;

  std::atomic<bool> unsynced_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool compact_ = false;     // after FLUSHALL; looked at each second
  std::thread housekeeper_;  // syncs
  std::thread compactor_;
};

// Appends the reply to a command that RocksDB failed.
void ReplyError(const rocksdb::Status& error, ReplyWriter* reply);

// The options that both the primary's and other openers of its files need to agree on.
rocksdb::Options DatabaseOptions(uint64_t cache_bytes);

}  // namespace pulse::redis
