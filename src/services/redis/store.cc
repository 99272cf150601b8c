#include "services/redis/store.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"
#include "services/redis/expiry_filter.h"
#include "services/redis/rocksdb_slice.h"
#include "services/redis/store_log.h"

namespace pulse::redis {
namespace {

constexpr size_t kMemtableBytes = size_t{4} << 20;
// With longer values, memtables are as RocksDB has them.
constexpr uint64_t kMostInSmallMemtables = uint64_t{32} << 20;

}  // namespace

rocksdb::Options DatabaseOptions(uint64_t cache_bytes) {
  rocksdb::Options options;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.optimize_filters_for_memory = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // Most reads find that the memtable does not have their key; this says so for a few bits a key.
  options.memtable_prefix_bloom_size_ratio = 0.02;
  options.memtable_whole_key_filtering = true;
  const auto known = rocksdb::GetSupportedCompressions();
  if (std::find(known.begin(), known.end(), rocksdb::kLZ4Compression) != known.end()) {
    options.compression = rocksdb::kLZ4Compression;
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  std::unique_ptr<Store> store(new Store(options));
  PULSE_RETURN_IF_ERROR(store->OpenDatabase());
  PULSE_RETURN_IF_ERROR(store->CheckFormat());
  if (options.hot_bytes > 0) {
    PULSE_ASSIGN_OR_RETURN(store->hot_, HotTier::Open(options.hot_bytes));
  }
  store->housekeeper_ = std::thread([s = store.get()] { s->Housekeeping(); });
  pthread_setname_np(store->housekeeper_.native_handle(), "pulse-host-sync");
  store->compactor_ = std::thread([s = store.get()] { s->CompactAfterFlushes(); });
  pthread_setname_np(store->compactor_.native_handle(), "pulse-host-comp");
  return store;
}

absl::Status Store::OpenDatabase() {
  rocksdb::Options options = DatabaseOptions(options_.cache_bytes);
  options.create_if_missing = true;
  options.max_background_jobs = 4;
  options.bytes_per_sync = 1 << 20;
  // A SET is mostly a search in the memtable: in one that fits in a core's caches it takes half the
  // time. A flush merges four of them. A value may fill one by itself, so that their number
  // bounds memory to some 400 MiB with values of 32 MiB.
  if (options_.limits.max_value <= kMostInSmallMemtables) {
    options.write_buffer_size = kMemtableBytes;
    options.min_write_buffer_number_to_merge = 4;
    options.max_write_buffer_number = 12;
    options.level0_slowdown_writes_trigger = 40;
    options.level0_stop_writes_trigger = 72;
  }
  options.avoid_unnecessary_blocking_io = true;  // no loop deletes files
  options.level_compaction_dynamic_level_bytes = true;
  options.compaction_filter_factory = NewExpiryFilterFactory(options_.clock, expired_dropped_);
  options.listeners.push_back(log_watch_);
  if (!options_.uri.empty()) {
    auto env = OpenEnv(options_.uri);
    if (!env.ok()) return env.status();
    options.env = env->get();
    env_guard_ = *env;
  }
  return OpenWithLog(options, options_.path, options_.damaged_log, &db_);
}

// A database of something else would be read as errors, and written to.
absl::Status Store::CheckFormat() {
  rocksdb::ReadOptions how;
  how.fill_cache = false;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(how));
  it->SeekToFirst();
  Value value;
  if (it->Valid() && !DecodeValue(ViewOf(it->value()), &value)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--db ", options_.path,
                     " is a database of another program: its values have not been written by "
                     "pulse serve; choose another directory"));
  }
  if (!it->status().ok()) {
    return absl::DataLossError(
        absl::StrCat("reading --db ", options_.path, ": ", it->status().ToString()));
  }
  return absl::OkStatus();
}

Store::~Store() { Close().IgnoreError(); }  // who wants to know has called it before

absl::Status Store::Close() {
  if (db_ == nullptr) return absl::OkStatus();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  db_->DisableManualCompaction();
  if (housekeeper_.joinable()) housekeeper_.join();
  if (compactor_.joinable()) compactor_.join();
  rocksdb::Status status;
  if (!log_watch_->failed()) status = db_->SyncWAL();
  if (const rocksdb::Status closed = db_->Close(); status.ok()) status = closed;
  db_.reset();
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("closing --db ", options_.path, ": ", status.ToString()));
}

void Store::Housekeeping() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; });
    if (compact_) wake_.notify_all();
    lock.unlock();
    const bool syncs = options_.sync == SyncMode::kEverySecond && !log_watch_->failed();
    if (syncs && unsynced_.exchange(false)) {
      // A failure stops the database, which writes then say.
      db_->SyncWAL().PermitUncheckedError();
    }
    lock.lock();
  }
}

// On a thread of its own, as it may take minutes, in which syncs go on.
void Store::CompactAfterFlushes() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || compact_; });
    if (stopping_) return;
    compact_ = false;
    lock.unlock();
    // Refused, or ended, by DisableManualCompaction.
    rocksdb::CompactRangeOptions how;
    how.exclusive_manual_compaction = false;
    db_->CompactRange(how, nullptr, nullptr).PermitUncheckedError();
    lock.lock();
  }
}

void Store::TellOfExpiry(std::string_view key, int64_t expires_ms) {
  if (!watch_.active()) return;
  const uint64_t hash =
      std::hash<std::string_view>()(key) ^ (static_cast<uint64_t>(expires_ms) * 0x9E3779B97F4A7C15);
  std::atomic<uint64_t>& told = told_expired_[hash % told_expired_.size()];
  if (told.exchange(hash, std::memory_order_relaxed) != hash) watch_.TellOfExpiry(key);
}

uint64_t Store::Property(const char* name) const {
  uint64_t value = 0;
  db_->GetIntProperty(name, &value);
  return value;
}

uint64_t Store::KeysEstimate() const { return Property("rocksdb.estimate-num-keys"); }

void Store::AddInfo(std::string_view section, std::string* out) const {
  const auto add = [&](absl::string_view name, const auto& value) {
    absl::StrAppend(out, name, ":", value, "\r\n");
  };
  if (section == "memory") {
    add("block_cache_bytes", Property("rocksdb.block-cache-usage"));
    if (hot_ != nullptr) {
      const kv::PartitionNumbers hot = hot_->numbers();
      add("hot_keys", hot.items);
      add("hot_bytes", hot.used_bytes);
    }
    add("memtable_bytes", Property("rocksdb.cur-size-all-mem-tables"));
    add("maxmemory", 0);
    add("maxmemory_policy", "noeviction");
  } else if (section == "persistence") {
    add("aof_enabled", 1);  // RocksDB's log is what an append-only file is to Redis
    add("background_errors", Property("rocksdb.background-errors"));
  } else if (section == "stats") {
    add("expired_keys", expired_dropped() - expired_at_reset_);
  } else if (section == "keyspace") {
    // RocksDB's estimate: counting would read everything, as it would of those that expire.
    if (const uint64_t keys = KeysEstimate(); keys > 0) {
      add("db0", absl::StrCat("keys=", keys, ",expires=0,avg_ttl=0"));
    }
  } else if (section == section_name()) {
    add("live_sst_bytes", Property("rocksdb.live-sst-files-size"));
    add("estimate_keys", KeysEstimate());
    add("running_compactions", Property("rocksdb.num-running-compactions"));
    add("running_flushes", Property("rocksdb.num-running-flushes"));
    add("pending_compaction_bytes", Property("rocksdb.estimate-pending-compaction-bytes"));
    add("write_stopped", Property("rocksdb.is-write-stopped"));
    add("delayed_write_rate", Property("rocksdb.actual-delayed-write-rate"));
  }
}

std::vector<Keyspace::Setting> Store::Settings() const {
  const char* const sync = options_.sync == SyncMode::kAlways        ? "always"
                           : options_.sync == SyncMode::kEverySecond ? "everysec"
                                                                     : "no";
  return {{"appendfsync", sync},
          {"appendonly", "yes"},
          {"dir", options_.path},
          {"maxmemory", "0"},
          {"maxmemory-policy", "noeviction"}};
}

}  // namespace pulse::redis
