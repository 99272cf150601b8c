#include "powercut/workload.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "powercut/recording_backend.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "services/lsm/core/options.h"
#include "services/lsm/plugin/pulse_file_system.h"
#include "store/store.h"

namespace pulse::powercut {
namespace {

using rocksdb::Status;

class JoinOperator : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "pulse.powercut.Join"; }
  bool Merge(const rocksdb::Slice&, const rocksdb::Slice* existing, const rocksdb::Slice& value,
             std::string* out, rocksdb::Logger*) const override {
    *out = existing == nullptr ? value.ToString() : existing->ToString() + "," + value.ToString();
    return true;
  }
};

// Keeps RocksDB from writing a LOG file.
class NullLogger : public rocksdb::Logger {
 public:
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
};

rocksdb::Options CommonOptions() {
  rocksdb::Options o;
  o.merge_operator = std::make_shared<JoinOperator>();
  o.info_log = std::make_shared<NullLogger>();
  o.compression = rocksdb::kNoCompression;
  o.skip_stats_update_on_db_open = true;
  o.max_file_opening_threads = 1;
  o.stats_dump_period_sec = 0;
  o.stats_persist_period_sec = 0;
  return o;
}

constexpr char kPoolName[] = "/pool";

std::unique_ptr<rocksdb::Env> MakeEnv(const RunConfig& config, const std::string& root,
                                      std::mt19937_64* rng) {
  if (config.engine == Engine::kStock) return nullptr;
  std::string uri =
      "pulse://?engine=threads&queue=1M&fetch_memory=1M&fetch_chunk=64K&readahead=64K&spin_us=0";
  uri += (*rng)() % 2 == 0 ? "&io=direct" : "&io=buffered";
  uri += (*rng)() % 2 == 0 ? "&write_threshold=4K&sync_interval=16K" : "&write_threshold=64K";
  if ((*rng)() % 4 == 0) uri += "&streams=1";
  if ((*rng)() % 4 == 0) uri += "&fetch=off";
  uri += config.uri_options;
  if (config.pool) uri += PoolOptions(root);
  auto options = lsm::ParseOptions(uri);
  if (!options.ok()) return nullptr;
  if (config.engine == Engine::kUring) {
    options->engine = EngineKind::kUring;
    options->backend_factory = RecordingFactory(EngineKind::kUring);
  }
  auto fs = lsm::PulseFileSystem::Open(*options, rocksdb::FileSystem::Default());
  if (!fs.ok()) return nullptr;
  return rocksdb::NewCompositeEnv(*std::move(fs));
}

class Workload {
 public:
  Workload(const RunConfig& config, std::string root)
      : config_(config), root_(std::move(root)), rng_(config.seed) {}

  RecordedRun Go();

 private:
  size_t now() { return SimDisk::Get().position(); }
  bool OneIn(uint64_t n) { return rng_() % n == 0; }
  // Keeps the first failure, and says whether all is well.
  bool Ok(const Status& s, const char* what) {
    if (!s.ok() && run_.failure.empty()) run_.failure = std::string(what) + ": " + s.ToString();
    return s.ok();
  }
  std::string Key() { return "key" + std::to_string(10'000 + rng_() % keys_); }
  std::string Value(size_t limit);
  rocksdb::ColumnFamilyHandle* Any() { return handles_[rng_() % handles_.size()]; }

  void ChooseOptions(rocksdb::Env* env);
  bool Open();
  void Close();
  bool Step();
  bool WriteBatch(bool sync);
  bool FlushAll();
  // What has been written is durable.
  bool Settle();
  bool Compact();
  bool Ingest();
  bool MakeCheckpoint();
  bool CreateFamily();
  bool DropFamily();

  const RunConfig config_;
  const std::string root_;
  std::mt19937_64 rng_;
  RecordedRun run_;
  rocksdb::Options options_;
  bool no_wal_ = false;
  uint64_t keys_ = 300;
  int names_ = 0;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

std::string Workload::Value(size_t limit) {
  const size_t n = 8 + rng_() % limit;
  std::string v(n, '\0');
  for (size_t i = 0; i < n; i += 8) {
    const uint64_t r = rng_();
    v.replace(i, std::min<size_t>(8, n - i), reinterpret_cast<const char*>(&r),
              std::min<size_t>(8, n - i));
  }
  return v;
}

void Workload::ChooseOptions(rocksdb::Env* env) {
  rocksdb::Options& o = options_;
  o = CommonOptions();
  if (env != nullptr) o.env = env;
  o.create_if_missing = true;
  o.write_buffer_size = 64 << 10;
  o.arena_block_size = 8 << 10;
  o.target_file_size_base = OneIn(2) ? 24 << 10 : 64 << 10;
  o.max_bytes_for_level_base = 128 << 10;
  o.max_bytes_for_level_multiplier = 4;
  o.level0_file_num_compaction_trigger = 2;
  o.level0_slowdown_writes_trigger = 12;
  o.level0_stop_writes_trigger = 16;
  o.max_background_jobs = 1 + static_cast<int>(rng_() % 4);
  o.max_subcompactions = OneIn(2) ? 1 : 4;
  o.max_write_buffer_number = 3;
  if (OneIn(4)) o.compaction_style = rocksdb::kCompactionStyleUniversal;
  if (OneIn(2)) o.max_manifest_file_size = 2 << 10;
  if (OneIn(3)) {
    o.enable_blob_files = true;
    o.min_blob_size = 400;
    o.blob_file_size = 64 << 10;
    o.enable_blob_garbage_collection = true;
    o.blob_garbage_collection_age_cutoff = 0.5;
  }
  if (OneIn(3)) o.use_fsync = true;
  if (OneIn(3)) o.enable_pipelined_write = true;
  if (OneIn(3)) o.wal_bytes_per_sync = 16 << 10;
  o.atomic_flush = OneIn(4);
  no_wal_ = o.atomic_flush && OneIn(2);
  if (o.atomic_flush) {
    o.enable_pipelined_write = false;
    // Then flushes are asked for, and none comes by itself: where both meet, an assertion of
    // RocksDB 7.8 fails (AtomicFlushMemTablesToOutputFiles wants one reason for all column
    // families).
    o.write_buffer_size = 8 << 20;
  }
  run_.two_paths = OneIn(4);
  if (run_.two_paths) o.db_paths = {{root_ + "/db", 256 << 10}, {root_ + "/db2", 1 << 30}};
  run_.wal_dir = OneIn(5);
  if (run_.wal_dir) o.wal_dir = root_ + "/wal";
}

bool Workload::Open() {
  std::vector<rocksdb::ColumnFamilyDescriptor> families{{"default", options_}};
  for (const std::string& name : run_.history.families()) families.emplace_back(name, options_);
  rocksdb::DB* db = nullptr;
  if (!Ok(rocksdb::DB::Open(options_, root_ + "/db", families, &handles_, &db), "opening")) {
    return false;
  }
  db_.reset(db);
  run_.history.Opened(now());
  return true;
}

void Workload::Close() {
  if (db_ == nullptr) return;
  for (auto* h : handles_) Ok(db_->DestroyColumnFamilyHandle(h), "releasing a column family");
  handles_.clear();
  Ok(db_->Close(), "closing");
  db_.reset();
}

bool Workload::WriteBatch(bool sync) {
  rocksdb::WriteBatch batch;
  History& history = run_.history;
  const uint32_t state = history.BeginStep(now(), true);
  for (int n = 1 + static_cast<int>(rng_() % 4); n > 0; --n) {
    rocksdb::ColumnFamilyHandle* const h = Any();
    const std::string& family = h->GetName();
    const std::string key = Key();
    const uint64_t kind = rng_() % 100;
    Status s;
    if (kind < 70) {
      const std::string value = Value(OneIn(10) ? 3000 : 600);
      s = batch.Put(h, key, value);
      history.Put(family, key, value);
    } else if (kind < 84) {
      s = batch.Delete(h, key);
      history.Delete(family, key);
    } else if (kind < 98) {
      const std::string operand = Value(60);
      s = batch.Merge(h, key, operand);
      history.Merge(family, key, operand);
    } else {
      const std::string other = Key();
      s = batch.DeleteRange(h, std::min(key, other), std::max(key, other));
      history.DeleteRange(family, std::min(key, other), std::max(key, other));
    }
    if (!Ok(s, "filling a batch")) return false;
  }
  if (!Ok(batch.Put(kStateKey, std::to_string(state)), "filling a batch")) return false;
  rocksdb::WriteOptions w;
  w.disableWAL = no_wal_;
  w.sync = sync && !no_wal_;
  if (!Ok(db_->Write(w, &batch), "writing")) return false;
  if (w.sync) history.Promise(now());
  return true;
}

bool Workload::FlushAll() {
  if (!Ok(db_->Flush(rocksdb::FlushOptions(), handles_), "flushing all")) return false;
  run_.history.Promise(now());
  return true;
}

bool Workload::Settle() {
  if (no_wal_) return FlushAll();
  if (!Ok(db_->SyncWAL(), "syncing the log")) return false;
  run_.history.Promise(now());
  return true;
}

bool Workload::Compact() {
  rocksdb::CompactRangeOptions o;
  o.exclusive_manual_compaction = OneIn(2);
  if (OneIn(2)) o.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  const std::string a = Key();
  const std::string b = Key();
  const rocksdb::Slice from = std::min(a, b);
  const rocksdb::Slice to = std::max(a, b);
  const bool all = OneIn(2);
  return Ok(db_->CompactRange(o, Any(), all ? nullptr : &from, all ? nullptr : &to), "compacting");
}

bool Workload::Ingest() {
  // Its own durability is that of the MANIFEST, not of the log: what is before it has to be durable
  // for it to be the next state.
  if (!Settle()) return false;
  rocksdb::ColumnFamilyHandle* const h = Any();
  const std::string path = root_ + "/ingest-" + std::to_string(++names_) + ".sst";
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
  if (!Ok(writer.Open(path), "creating a file to ingest")) return false;
  std::map<std::string, std::string> content;
  for (int n = 5 + static_cast<int>(rng_() % 30); n > 0; --n) content[Key()] = Value(400);
  run_.history.BeginStep(now(), false);
  for (const auto& [key, value] : content) {
    if (!Ok(writer.Put(key, value), "writing a file to ingest")) return false;
    run_.history.Put(h->GetName(), key, value);
  }
  rocksdb::IngestExternalFileOptions o;
  o.move_files = OneIn(2);
  if (!Ok(writer.Finish(), "finishing a file to ingest") ||
      !Ok(db_->IngestExternalFile(h, {path}, o), "ingesting")) {
    return false;
  }
  run_.history.Promise(now());
  options_.env->DeleteFile(path).PermitUncheckedError();  // gone already when it was moved
  return true;
}

bool Workload::MakeCheckpoint() {
  if (run_.two_paths) return true;  // RocksDB has no checkpoints of these
  rocksdb::Checkpoint* made = nullptr;
  if (!Ok(rocksdb::Checkpoint::Create(db_.get(), &made), "preparing a checkpoint")) return false;
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  const std::string name = "checkpoint-" + std::to_string(++names_);
  if (!Ok(checkpoint->CreateCheckpoint(root_ + "/" + name), "checkpoint")) return false;
  run_.history.AddCheckpoint(name, now());
  return true;
}

bool Workload::CreateFamily() {
  const std::string name = "family" + std::to_string(++names_);
  run_.history.BeginCreateFamily(name, now());
  rocksdb::ColumnFamilyHandle* h = nullptr;
  if (!Ok(db_->CreateColumnFamily(options_, name, &h), "creating a column family")) return false;
  run_.history.EndCreateFamily(name, now());
  handles_.push_back(h);
  return true;
}

bool Workload::DropFamily() {
  if (handles_.size() <= 2) return true;
  const size_t i = 1 + rng_() % (handles_.size() - 1);
  rocksdb::ColumnFamilyHandle* const h = handles_[i];
  const std::string name = h->GetName();
  run_.history.BeginDropFamily(name, now());
  if (!Ok(db_->DropColumnFamily(h), "dropping a column family")) return false;
  run_.history.EndDropFamily(name, now());
  handles_.erase(handles_.begin() + static_cast<ptrdiff_t>(i));
  return Ok(db_->DestroyColumnFamilyHandle(h), "releasing a column family");
}

bool Workload::Step() {
  const uint64_t dice = rng_() % 1000;
  if (dice < 6) return FlushAll();
  // Without a log a column family flushed alone would run ahead of the others.
  if (dice < 12 && no_wal_) return FlushAll();
  if (dice < 12) return Ok(db_->Flush(rocksdb::FlushOptions(), Any()), "flushing");
  if (dice < 16) return Compact();
  if (dice < 20) return Ingest();
  if (dice < 22) return MakeCheckpoint();
  if (dice < 25 && handles_.size() < 5) return CreateFamily();
  if (dice < 27) return DropFamily();
  if (dice < 29) {
    Close();
    return run_.failure.empty() && Open();
  }
  if (dice < 35) return Settle();
  return WriteBatch(/*sync=*/dice < 100);
}

RecordedRun Workload::Go() {
  run_.pool = config_.pool;
  run_.root = root_;
  for (const char* dir : {"/db", "/db2", "/wal"}) {
    rocksdb::Env::Default()->CreateDirIfMissing(root_ + dir).PermitUncheckedError();
  }
  if (config_.pool && !MakePool(root_)) {
    run_.failure = "no pool";
    return std::move(run_);
  }
  SimDiskOptions disk = config_.disk;
  disk.seed = rng_();
  SimDisk::Get().Start(root_, disk);
  run_.begin = SimDisk::Get().position();
  // A pool is opened on the disk, so that its writes are seen.
  const std::unique_ptr<rocksdb::Env> env = MakeEnv(config_, root_, &rng_);
  if (env == nullptr && config_.engine != Engine::kStock) {
    SimDisk::Get().Stop();
    run_.failure = "no file system";
    return std::move(run_);
  }
  ChooseOptions(env.get());
  if (Open() && CreateFamily()) {
    for (int i = 0; i < config_.steps && Step(); ++i) {
    }
  }
  Close();
  run_.log = SimDisk::Get().Stop();
  return std::move(run_);
}

}  // namespace

std::string RunConfig::ToString() const {
  static constexpr const char* kEngines[] = {"stock", "threads", "io_uring"};
  return std::string(kEngines[static_cast<int>(engine)]) + (pool ? ", pool" : "") + ", seed " +
         std::to_string(seed);
}

std::string PoolOptions(const std::string& root) { return "&layout=pool&pool=" + root + kPoolName; }

// Small segments, so that tables have several, and are soon used again.
bool MakePool(const std::string& root) {
  store::CreateOptions options;
  options.size = uint64_t{40} << 20;
  options.segment_bytes = uint64_t{16} << 10;
  options.prefill = false;
  return store::Create(root + kPoolName, options).ok();
}

std::unique_ptr<rocksdb::Env> OpenPool(const std::string& root, std::string* why) {
  auto options = lsm::ParseOptions(
      "pulse://?engine=threads&queue=1M&write_threshold=64K&fetch=off" + PoolOptions(root));
  if (options.ok()) {
    auto fs = lsm::PulseFileSystem::Open(*options, rocksdb::FileSystem::Default());
    if (fs.ok()) return rocksdb::NewCompositeEnv(*std::move(fs));
    *why = std::string(fs.status().message());
  } else {
    *why = std::string(options.status().message());
  }
  return nullptr;
}

rocksdb::Options StockOptions() {
  rocksdb::Options o = CommonOptions();
  o.disable_auto_compactions = true;
  o.paranoid_checks = true;
  return o;
}

RecordedRun RunWorkload(const RunConfig& config, const std::string& root) {
  return Workload(config, root).Go();
}

}  // namespace pulse::powercut
