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

#include <array>
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
#include "base/clock.h"
#include "rocksdb/db.h"
#include "services/redis/commands/keyspace.h"
#include "services/redis/cursors.h"
#include "services/redis/hot_tier.h"
#include "services/redis/key_locks.h"
#include "services/redis/key_sampler.h"
#include "services/redis/serve.h"
#include "services/redis/store_log.h"
#include "services/redis/store_view.h"

namespace pulse::redis {

struct StoreOptions {
  std::string path;
  std::string uri;  // pulse://..., or empty
  uint64_t cache_bytes = uint64_t{256} << 20;
  uint64_t hot_bytes = uint64_t{64} << 20;  // of HotTier; 0: none
  SyncMode sync = SyncMode::kEverySecond;
  DamagedLog damaged_log = DamagedLog::kRefuse;
  std::function<int64_t()> clock = &WallMillis;  // milliseconds since 1970
  KeyspaceLimits limits;
  // Of keys and values that one transaction writes; beyond it, none of it is carried out.
  uint64_t max_transaction = uint64_t{256} << 20;
  uint64_t seed = std::random_device{}();  // of the keys that RANDOMKEY returns
};

class Store final : public Keyspace {
 public:
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);
  ~Store() override;
  // Makes all writes durable and closes the database. Once; no call is under way or follows.
  absl::Status Close() override;

  RunResult Run(const CommandInfo& command, const Arguments& args, bool may_block,
                ReplyWriter* reply, CommandCounts* counts) override;
  RunResult RunGets(const Request* requests, size_t count, uint64_t most_bytes, bool may_block,
                    ReplyWriter* reply, std::vector<size_t>* ends, CommandCounts* counts) override;
  // By one write: all of them or none.
  RunResult RunSets(absl::Span<const Request* const> sets, bool may_block,
                    absl::Span<std::string> errors) override;
  bool CollectsSets() const override { return options_.sync != SyncMode::kAlways; }
  void RunTransaction(const std::vector<Queued>& commands, const WatchTable::Set& watches,
                      const Answer& answer, ReplyWriter* reply, CommandCounts* counts) override;
  bool Watch(const std::string_view* keys, size_t count, bool may_block, WatchTable::Set* watches,
             std::string* error) override;
  bool SizeOfValue(std::string_view key, bool may_block, uint64_t* bytes) override;
  int64_t now_ms() const override { return options_.clock(); }
  const KeyspaceLimits& limits() const override { return options_.limits; }
  void AddInfo(std::string_view section, std::string* out) const override;
  std::string_view section_name() const override { return "RocksDB"; }
  std::vector<Setting> Settings() const override;
  void ResetCounters() override { expired_at_reset_ = expired_dropped(); }

  CursorTable& cursors() { return cursors_; }
  KeySampler& key_sampler() { return key_sampler_; }
  const StoreOptions& options() const { return options_; }
  uint64_t KeysEstimate() const;
  // A property of RocksDB's that is a number; 0 when there is none.
  uint64_t Property(const char* name) const;
  uint64_t expired_dropped() const { return expired_dropped_->load(std::memory_order_relaxed); }
  rocksdb::DB* db() { return db_.get(); }

 private:
  friend class StoreView;
  explicit Store(const StoreOptions& options) : options_(options), key_sampler_(options.seed) {}
  absl::Status OpenDatabase();
  absl::Status CheckFormat();
  // Writes what the view holds. False: it was held back, and nothing was written.
  bool Commit(StoreView* view);
  bool Write(rocksdb::WriteBatch* batch, StoreView* view);
  // The same, with the hot tier told of it.
  bool WriteThrough(rocksdb::WriteBatch* batch, StoreView* view);
  template <class Use>
  static void ForEachChanged(const StoreView& view, const Use& use);
  void TouchWatched(const StoreView& view);
  // A read has met a key that has expired, and lies in the database until a compaction: who listens
  // is told once, about.
  void TellOfExpiry(std::string_view key, int64_t expires_ms);
  void Housekeeping();
  void CompactAfterFlushes();

  StoreOptions options_;
  std::shared_ptr<std::atomic<uint64_t>> expired_dropped_ =
      std::make_shared<std::atomic<uint64_t>>(0);
  std::atomic<uint64_t> expired_at_reset_{0};
  std::shared_ptr<LogWatch> log_watch_ = std::make_shared<LogWatch>();
  std::shared_ptr<void> env_guard_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<HotTier> hot_;  // null: none
  KeyLocks locks_;
  // Hashes of keys and expiries that were told of, by their last bits: one that another has taken
  // the place of is told of again.
  std::array<std::atomic<uint64_t>, 4096> told_expired_{};
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

// The reply to a command that RocksDB failed.
std::string DatabaseError(const rocksdb::Status& error);

// The options that both the primary's and other openers of its files need to agree on.
rocksdb::Options DatabaseOptions(uint64_t cache_bytes);

}  // namespace pulse::redis
