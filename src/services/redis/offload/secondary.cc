#include "services/redis/offload/secondary.h"

#include <pthread.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/table.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/redis/offload/page_cache_files.h"
#include "services/redis/open_database.h"

namespace pulse::redis {
namespace {

// Notices files that were not there: see secondary.h.
class WatchedFiles final : public rocksdb::FileSystemWrapper {
 public:
  explicit WatchedFiles(std::shared_ptr<rocksdb::FileSystem> files)
      : FileSystemWrapper(std::move(files)) {}

  const char* Name() const override { return "pulse-watched"; }

  rocksdb::IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewSequentialFile(name, options, file, debug);
    if (!status.ok()) complete_.store(false);
    return status;
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, file, debug);
    // Refused, not missing.
    return WithoutWaiting::on() ? status : RecordFailure(std::move(status));
  }
  // How 7.8 finds out whether a table is there.
  rocksdb::IOStatus GetFileSize(const std::string& name, const rocksdb::IOOptions& options,
                                uint64_t* size, rocksdb::IODebugContext* debug) override {
    return RecordFailure(FileSystemWrapper::GetFileSize(name, options, size, debug));
  }

  // An instance's opening looks for the tables of all versions that the MANIFEST tells of, and the
  // last are there if the MANIFEST has not changed since. Only later is a missing table news.
  void BeginWatching() { opened_.store(true); }
  bool complete() const { return complete_.load(); }

 private:
  rocksdb::IOStatus RecordFailure(rocksdb::IOStatus status) {
    // Before the caller can install what it has without the file.
    if (!status.ok() && opened_.load()) complete_.store(false);
    return status;
  }

  std::atomic<bool> opened_{false};
  std::atomic<bool> complete_{true};
};

constexpr uint32_t kReadsPerBlockKept = 8;
// Read together: by as many may a read of several exceed what one may have.
constexpr size_t kKeysAtOnce = 8;

// A block that exceeds its shard is not kept at all, and a table's index is one block: 2 MB for
// 300 MB of values that compress well. RocksDB's own choice is shards of 512 KiB and more.
int ShardBits(uint64_t cache_bytes) {
  constexpr uint64_t kLeastShard = uint64_t{16} << 20;
  int bits = 0;
  while (bits < 6 && (cache_bytes >> (bits + 1)) >= kLeastShard) ++bits;
  return bits;
}

rocksdb::Options MakeOptions(rocksdb::Env* env, std::shared_ptr<rocksdb::Cache> cache) {
  rocksdb::Options made;
  made.env = env;
  made.max_open_files = -1;
  // One line for each catch-up, else.
  made.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  made.max_log_file_size = 1 << 20;
  made.keep_log_file_num = 2;
  made.stats_dump_period_sec = 0;
  made.stats_persist_period_sec = 0;
  // RocksDB would take 16 to open tables, which nobody counts, nor keeps off requests.
  made.max_file_opening_threads = 1;
  // There is one for each log, and none is full here: the size is that of its blocks and filter.
  made.write_buffer_size = 4 << 20;
  // Most keys were not written lately, and a search for those in a memtable misses the CPU's caches
  // at each step.
  made.memtable_prefix_bloom_size_ratio = 0.02;
  made.memtable_whole_key_filtering = true;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = std::move(cache);
  // So that the next instance finds them there.
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  made.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return made;
}

}  // namespace

struct Secondary::Instance {
  uint64_t id = 0;
  std::string manifest;  // when it was opened
  std::shared_ptr<WatchedFiles> files;
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::DB> db;
};

absl::StatusOr<std::unique_ptr<Secondary>> Secondary::Open(const SecondaryOptions& options,
                                                           CatchUpClock* clock,
                                                           std::function<uint64_t()> wanted) {
  std::error_code failed;
  std::filesystem::create_directories(options.directory, failed);
  if (failed) {
    return ErrnoError(failed.value(), "making the secondary's directory", options.directory);
  }
  std::unique_ptr<Secondary> secondary(new Secondary(options, clock, std::move(wanted)));
  secondary->CatchUp();
  secondary->thread_ = std::thread([s = secondary.get()] { s->Run(); });
  return secondary;
}

Secondary::Secondary(const SecondaryOptions& options, CatchUpClock* clock,
                     std::function<uint64_t()> wanted)
    : options_(options),
      clock_(clock),
      wanted_(std::move(wanted)),
      cache_(rocksdb::NewLRUCache(options.cache_bytes, ShardBits(options.cache_bytes))),
      files_(std::make_shared<PageCacheFiles>(options.read_now != nullptr ? options.read_now
                                                                          : &preadv2)) {}

Secondary::~Secondary() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

absl::StatusOr<std::shared_ptr<Secondary::Instance>> Secondary::OpenInstance() {
  auto made = std::make_shared<Instance>();
  made->manifest = Manifest();
  made->files = std::make_shared<WatchedFiles>(files_);
  made->env = rocksdb::NewCompositeEnv(made->files);
  const rocksdb::Status status = OpenSecondaryAt(MakeOptions(made->env.get(), cache_), options_.db,
                                                 options_.directory, &made->db);
  if (!status.ok()) return absl::UnavailableError(status.ToString());
  made->files->BeginWatching();
  opened_.fetch_add(1, std::memory_order_relaxed);
  return made;
}

// Which MANIFEST there is, and how long it is. RocksDB writes to it before it deletes anything.
std::string Secondary::Manifest() const {
  std::ifstream current(options_.db + "/CURRENT");
  std::string name;
  std::getline(current, name);
  struct stat file;
  if (name.empty() || stat((options_.db + "/" + name).c_str(), &file) != 0) return "";
  return absl::StrCat(name, " ", file.st_ino, " ", file.st_size);
}

// Whether it counts.
bool Secondary::CatchUp() {
  const int64_t since = waiting_since_.exchange(0);
  const bool counts = CatchUpFrom(clock_->Begin());
  if (since == 0) return counts;
  if (!counts) {
    waiting_since_.store(since);
    return false;
  }
  // Of what has been settled, and caught up with, since.
  if (wanted_() <= clock_->finished()) waiting_since_.store(0);
  const auto lag = static_cast<uint64_t>(std::max<int64_t>(0, NowNanos() - since) / 1000);
  lag_us_.store(lag, std::memory_order_relaxed);
  if (lag > max_lag_us_.load(std::memory_order_relaxed)) {
    max_lag_us_.store(lag, std::memory_order_relaxed);
  }
  return true;
}

// The files are others, perhaps, than those of which something is remembered.
void Secondary::TrackManifest(const std::string& manifest) {
  std::string file = manifest.substr(0, manifest.rfind(' '));  // without its length
  if (file == manifest_file_) return;
  manifest_file_ = std::move(file);
  other_files_ = true;
  generation_.fetch_add(1);
}

bool Secondary::CatchUpFrom(uint64_t number) {
  const auto instance = std::atomic_load(&instance_);
  TrackManifest(Manifest());
  if (instance == nullptr || !instance->files->complete() || Manifest() != instance->manifest) {
    if (!ReplaceInstance()) return false;
    FinishCatchUp(number);
    return true;
  }
  const rocksdb::Status status = instance->db->TryCatchUpWithPrimary();
  if (!status.ok()) {
    // Closed for good; what it had may be half of something.
    std::atomic_store(&instance_, std::shared_ptr<Instance>());
    // Nobody holds the MANIFEST any more, so that another may look the same.
    TrackManifest("");
    if (!std::exchange(warned_, true)) {
      Log(LogLevel::kWarn,
          absl::StrCat("the secondary of ", options_.db, " cannot follow: ", status.ToString(),
                       "; it is opened anew, and the host answers what the agent does not "
                       "know meanwhile"));
    }
    return false;
  }
  if (!instance->files->complete() || Manifest() != instance->manifest) return false;
  FinishCatchUp(number);
  return true;
}

// A new instance, which has all that was in the files before; false, and the old one stays, if
// there is none to be had.
bool Secondary::ReplaceInstance() {
  auto opened = OpenInstance();
  if (!opened.ok()) {
    if (!std::exchange(warned_, true)) {
      Log(LogLevel::kWarn,
          absl::StrCat("the secondary of ", options_.db,
                       " cannot be opened: ", opened.status().message(),
                       "; until it can be, the host answers what was written since"));
    }
    return false;
  }
  std::shared_ptr<Instance> made = *std::move(opened);
  if (!made->files->complete() || made->manifest.empty() || Manifest() != made->manifest) {
    return false;
  }
  made->id = next_id_++;
  TrackManifest(made->manifest);
  std::atomic_store(&instance_, std::move(made));
  // Once more: who has seen this number reads of the new instance.
  if (std::exchange(other_files_, false)) generation_.fetch_add(1);
  warned_ = false;
  return true;
}

void Secondary::FinishCatchUp(uint64_t number) {
  clock_->Finish(number);
  catch_ups_.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Secondary::Validity() const {
  const auto instance = std::atomic_load(&instance_);
  return instance != nullptr && instance->files->complete() ? instance->id : 0;
}

void Secondary::Run() {
  pthread_setname_np(pthread_self(), options_.thread_name.substr(0, 15).c_str());
  SetThreadAffinity(options_.cpus).IgnoreError();  // checked by who made the list
  // Who answers requests on the same CPU does not wait for a catch-up, but leaves it a tenth.
  setpriority(PRIO_PROCESS, 0, options_.nice);
  int64_t pause_us = 0;
  while (true) {
    {
      std::unique_lock lock(mu_);
      const auto wanted = [&] { return wanted_() > clock_->finished(); };
      // Before each look: either Wake sees it, or what Wake was called for is seen here.
      wake_.wait_for(lock, std::chrono::milliseconds(options_.idle_interval_ms), [&] {
        asleep_.store(true);
        return stop_ || wanted() || Validity() == 0;
      });
      asleep_.store(false);
      if (wanted()) {
        wake_.wait_for(lock, std::chrono::microseconds(options_.max_interval_us), [&] {
          waiting_.store(true);
          return stop_ || CatchUpPaysOff() || Validity() == 0;
        });
      }
      waiting_.store(false);
      if (stop_) return;
    }
    missed_us_.store(0);
    // What it costs is the CPU of this thread, which others may keep from running.
    const int64_t began = NowNanos();
    const int64_t cpu_before = ThreadCpuNanos();
    const bool counts = CatchUp();
    const int64_t cpu_us = (ThreadCpuNanos() - cpu_before) / 1000;
    const int64_t took_us = (NowNanos() - began) / 1000;
    cost_us_.store(cpu_us);
    busy_us_.fetch_add(static_cast<uint64_t>(cpu_us), std::memory_order_relaxed);
    if (!counts) repeated_.fetch_add(1, std::memory_order_relaxed);
    // What cannot be opened is tried less and less often.
    pause_us = warned_ ? std::clamp<int64_t>(pause_us * 2, 10'000, 500'000) : 0;
    Pause(std::max({options_.min_interval_us, took_us, pause_us}));
  }
}

void Secondary::Pause(int64_t micros) {
  std::unique_lock lock(mu_);
  wake_.wait_for(lock, std::chrono::microseconds(micros), [&] { return stop_; });
}

void Secondary::Wake() {
  int64_t nothing = 0;
  if (waiting_since_.load(std::memory_order_relaxed) == 0) {
    waiting_since_.compare_exchange_strong(nothing, NowNanos());
  }
  if (!asleep_.exchange(false)) return;
  // With the lock, so that it does not fall between the thread's looking and its sleeping.
  std::lock_guard lock(mu_);
  wake_.notify_all();
}

void Secondary::NoteMiss() {
  missed_us_.fetch_add(options_.miss_us);
  // One of all who miss something.
  if (!CatchUpPaysOff() || !waiting_.exchange(false)) return;
  std::lock_guard lock(mu_);
  wake_.notify_all();
}

bool Secondary::ReadNow(const std::vector<std::string_view>& keys, std::vector<std::string>* values,
                        std::vector<Found>* found) {
  if (!files_->usable()) {
    ReadTier(keys, rocksdb::kBlockCacheTier, true, values, found);
    return false;
  }
  // Some of the kernel's blocks are put into our cache, which finds those that are often asked for
  // soon enough: what is asked for once, most of what other caches miss, would only evict them.
  // In no rhythm that a client could have, too: multiples of the golden ratio.
  thread_local uint32_t turn = 0;
  turn += 0x9E3779B9;
  const bool fill = turn < UINT32_MAX / kReadsPerBlockKept;
  const WithoutWaiting without_waiting;
  ReadTier(keys, rocksdb::kReadAllTier, fill, values, found);
  return without_waiting.has_read();
}

void Secondary::Read(const std::vector<std::string_view>& keys, std::vector<std::string>* values,
                     std::vector<Found>* found) {
  ReadTier(keys, rocksdb::kReadAllTier, true, values, found);
}

void Secondary::ReadTier(const std::vector<std::string_view>& keys, int tier, bool fill,
                         std::vector<std::string>* values, std::vector<Found>* found) {
  values->resize(keys.size());
  found->assign(keys.size(), Found::kUnknown);
  const auto instance = std::atomic_load(&instance_);
  if (instance == nullptr) return;
  rocksdb::ReadOptions options;
  options.read_tier = static_cast<rocksdb::ReadTier>(tier);
  options.fill_cache = fill;
  rocksdb::DB* const db = instance->db.get();
  uint64_t bytes = 0;
  const auto result = [&](size_t i, const rocksdb::Status& status,
                          const rocksdb::PinnableSlice& value) {
    if (status.ok()) {
      (*values)[i].assign(value.data(), value.size());
      (*found)[i] = Found::kYes;
      bytes += value.size();
    } else if (status.IsNotFound()) {
      (*found)[i] = Found::kNo;
    }
  };
  // In the block cache not by MultiGet, which (in RocksDB 7.8) reads from the device whatever the
  // tier. Without all of the keys, nobody is helped.
  if (keys.size() == 1 || options.read_tier == rocksdb::kBlockCacheTier) {
    for (size_t i = 0; i < keys.size() && bytes < options_.most_read_bytes; ++i) {
      rocksdb::PinnableSlice value;
      result(i,
             db->Get(options, db->DefaultColumnFamily(), {keys[i].data(), keys[i].size()}, &value),
             value);
      if ((*found)[i] == Found::kUnknown) return;
    }
    return;
  }
  for (size_t at = 0; at < keys.size() && bytes < options_.most_read_bytes; at += kKeysAtOnce) {
    const size_t count = std::min(kKeysAtOnce, keys.size() - at);
    rocksdb::Slice slices[kKeysAtOnce];
    rocksdb::PinnableSlice pinned[kKeysAtOnce];
    rocksdb::Status statuses[kKeysAtOnce];
    for (size_t i = 0; i < count; ++i) slices[i] = {keys[at + i].data(), keys[at + i].size()};
    db->MultiGet(options, db->DefaultColumnFamily(), count, slices, pinned, statuses);
    for (size_t i = 0; i < count; ++i) result(at + i, statuses[i], pinned[i]);
  }
}

SecondaryStats Secondary::stats() const {
  SecondaryStats stats;
  stats.catch_ups = catch_ups_.load(std::memory_order_relaxed);
  stats.repeated = repeated_.load(std::memory_order_relaxed);
  stats.opened = opened_.load(std::memory_order_relaxed);
  stats.lag_us = lag_us_.load(std::memory_order_relaxed);
  stats.max_lag_us = max_lag_us_.load(std::memory_order_relaxed);
  stats.busy_us = busy_us_.load(std::memory_order_relaxed);
  stats.valid = Validity() != 0;
  return stats;
}

}  // namespace pulse::redis
