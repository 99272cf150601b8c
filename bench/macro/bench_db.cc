#include "bench/macro/bench_db.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/rivals/engines.h"
#include "nlohmann/json.hpp"
#include "pulse/rocksdb.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "services/lsm/core/options.h"
#include "services/lsm/plugin/pulse_file_system.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kReadahead = uint64_t{2} << 20;
constexpr uint64_t kLeastCache = uint64_t{1} << 20;

rocksdb::Options MakeOptions(const Variant& variant, const DbShape& shape) {
  rocksdb::Options o;
  o.create_if_missing = true;
  o.compression = rocksdb::kNoCompression;  // or as Compress says
  o.write_buffer_size = shape.memtable_bytes;
  o.target_file_size_base = shape.file_bytes;
  o.max_bytes_for_level_base = shape.level1_bytes;
  o.max_bytes_for_level_multiplier = 10;
  o.level_compaction_dynamic_level_bytes = false;
  o.max_background_jobs = shape.background_jobs;
  o.max_subcompactions = variant.subcompactions;
  o.compaction_readahead_size = kReadahead;
  o.disable_auto_compactions = !shape.auto_compactions;
  o.bytes_per_sync = variant.bytes_per_sync;
  o.strict_bytes_per_sync = variant.bytes_per_sync != 0;
  o.use_direct_io_for_flush_and_compaction = variant.direct_io;
  o.use_direct_reads = shape.direct_reads;
  o.compression_opts.level = shape.compression_level;
  o.compression_opts.parallel_threads = variant.parallel_threads;
  rocksdb::BlockBasedTableOptions table;
  if (shape.block_bytes != 0) table.block_size = shape.block_bytes;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  if (shape.block_cache_bytes != 0) {
    table.block_cache = rocksdb::NewLRUCache(shape.block_cache_bytes);
  }
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  o.statistics = rocksdb::CreateDBStatistics();
  return o;
}

// The block compression that the shape names, if this RocksDB has it.
absl::Status Compress(const DbShape& shape, rocksdb::Options* o) {
  if (shape.compression.empty()) return absl::OkStatus();
  constexpr std::pair<const char*, rocksdb::CompressionType> kTypes[] = {
      {"zstd", rocksdb::kZSTD},
      {"lz4", rocksdb::kLZ4Compression},
      {"zlib", rocksdb::kZlibCompression}};
  const std::vector<rocksdb::CompressionType> supported = rocksdb::GetSupportedCompressions();
  for (const auto& [name, type] : kTypes) {
    if (shape.compression != name) continue;
    if (std::find(supported.begin(), supported.end(), type) == supported.end()) break;
    o->compression = type;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--compression ", shape.compression,
                                                 ": this RocksDB has no such compression; choose "
                                                 "zstd, lz4 or zlib, as far as it was built with"));
}

// RocksDB turned its raw DB** results into unique_ptrs: take whichever this version has.
template <typename Db>
rocksdb::Status OpenAny(const rocksdb::Options& options, const std::string& dir, bool read_only,
                        std::unique_ptr<Db>* out) {
  if constexpr (requires { Db::Open(options, dir, out); }) {
    return read_only ? Db::OpenForReadOnly(options, dir, out) : Db::Open(options, dir, out);
  } else {
    Db* raw = nullptr;
    const rocksdb::Status status =
        read_only ? Db::OpenForReadOnly(options, dir, &raw) : Db::Open(options, dir, &raw);
    out->reset(raw);
    return status;
  }
}

// The file system of `uri` with a rival's I/O engine in its embedded agent.
absl::StatusOr<std::unique_ptr<rocksdb::Env>> EnvWithRival(const std::string& uri,
                                                           const std::string& engine) {
  PULSE_ASSIGN_OR_RETURN(auto options, lsm::ParseOptions(uri));
  if (!options.socket_path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "engine ", engine, " is measured in an embedded agent; leave the agent's socket out"));
  }
  PULSE_ASSIGN_OR_RETURN(options.backend_factory, rivals::FactoryOf(engine));
  PULSE_ASSIGN_OR_RETURN(auto fs,
                         lsm::PulseFileSystem::Open(options, rocksdb::FileSystem::Default()));
  return rocksdb::NewCompositeEnv(std::shared_ptr<rocksdb::FileSystem>(std::move(fs)));
}

}  // namespace

DbShape ShapeFor(bool tiny, bool auto_compactions) {
  DbShape shape;
  shape.auto_compactions = auto_compactions;
  if (tiny) {
    shape.memtable_bytes = shape.file_bytes = uint64_t{1} << 20;
    shape.level1_bytes = uint64_t{4} << 20;
  }
  return shape;
}

DbShape PaperShapeFor(bool tiny, uint64_t data_bytes, uint64_t memtable_bytes) {
  DbShape shape = ShapeFor(tiny, /*auto_compactions=*/true);
  if (memtable_bytes != 0) {
    shape.memtable_bytes = shape.file_bytes = memtable_bytes;
    shape.level1_bytes = 4 * memtable_bytes;
  }
  shape.direct_reads = true;
  shape.block_cache_bytes = std::max(kLeastCache, data_bytes / 20);
  return shape;
}

uint64_t RunMemory(const DbShape& shape, uint64_t queue_bytes) {
  // The program and the fetch stage; two memtables full and two being flushed; a flush and the
  // compactions, and as many outputs that are being synced.
  constexpr uint64_t kBase = uint64_t{512} << 20;
  constexpr uint64_t kMemtables = 4, kQueues = 8;
  return kBase + kMemtables * shape.memtable_bytes + kQueues * queue_bytes +
         shape.block_cache_bytes;
}

absl::Status FromRocks(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat(what, ": ", status.ToString());
  if (status.IsNotFound()) return absl::NotFoundError(text);
  if (status.IsInvalidArgument()) return absl::InvalidArgumentError(text);
  if (status.IsCorruption()) return absl::DataLossError(text);
  if (status.IsNoSpace()) {
    return absl::ResourceExhaustedError(text + "; make room, or choose a smaller --size");
  }
  return absl::UnavailableError(text);
}

absl::StatusOr<std::unique_ptr<BenchDb>> BenchDb::Open(const std::string& dir,
                                                       const Variant& variant, const DbShape& shape,
                                                       bool read_only) {
  std::unique_ptr<BenchDb> result(new BenchDb());
  rocksdb::Options options = MakeOptions(variant, shape);
  PULSE_RETURN_IF_ERROR(Compress(shape, &options));
  result->statistics_ = options.statistics;
  if (variant.IsPulse()) {
    PULSE_RETURN_IF_ERROR(FromRocks(RegisterRocksDb(), "registering pulse:// with RocksDB"));
    rocksdb::Env* env = nullptr;
    rocksdb::ConfigOptions strict;
    strict.ignore_unsupported_options = false;  // or an unknown scheme would pass as no error
    if (variant.rival_engine.empty()) {
      PULSE_RETURN_IF_ERROR(
          FromRocks(rocksdb::Env::CreateFromUri(strict, "", variant.uri, &env, &result->env_guard_),
                    absl::StrCat("opening the file system \"", variant.uri, "\"")));
    } else {
      PULSE_ASSIGN_OR_RETURN(result->env_guard_, EnvWithRival(variant.uri, variant.rival_engine));
      env = result->env_guard_.get();
    }
    options.env = env;
    if (!read_only) {
      PULSE_RETURN_IF_ERROR(FromRocks(PlaceCompactions(&options), "placing compactions"));
    }
  }
  PULSE_RETURN_IF_ERROR(FromRocks(OpenAny<rocksdb::DB>(options, dir, read_only, &result->db_),
                                  absl::StrCat("opening database ", dir, " as ", variant.name)));
  return result;
}

BenchDb::~BenchDb() = default;

uint64_t BenchDb::Property(const std::string& name) const {
  uint64_t value = 0;
  return db_->GetIntProperty(name, &value) ? value : 0;
}

absl::StatusOr<BenchDb::Tables> BenchDb::CountTables() {
  rocksdb::TablePropertiesCollection all;
  PULSE_RETURN_IF_ERROR(FromRocks(db_->GetPropertiesOfAllTables(&all), "reading table properties"));
  Tables tables;
  tables.files = all.size();
  for (const auto& [name, properties] : all) tables.entries += properties->num_entries;
  return tables;
}

uint64_t BenchDb::SortedRuns() const {
  rocksdb::ColumnFamilyMetaData meta;
  db_->GetColumnFamilyMetaData(&meta);
  uint64_t runs = 0;
  for (const rocksdb::LevelMetaData& level : meta.levels) {
    runs += level.level == 0 ? level.files.size() : !level.files.empty();
  }
  return runs;
}

BenchDb::OnAgent BenchDb::TimeOnAgent() const {
  Stats stats{};
  if (!GetStats(db_->GetFileSystem(), &stats)) return {};
  return {static_cast<double>(stats.agent_flush_nanos) / 1e9,
          static_cast<double>(stats.agent_compaction_nanos) / 1e9,
          static_cast<double>(stats.agent_compression_nanos) / 1e9};
}

void BenchDb::CountOnAgent(const OnAgent& before, nlohmann::json* result) const {
  const OnAgent now = TimeOnAgent();
  const double compressed = now.compression_seconds - before.compression_seconds;
  const double compacted = now.compaction_seconds - before.compaction_seconds + compressed;
  const double all = compacted + now.flush_seconds - before.flush_seconds;
  const auto add = [result](const char* metric, double seconds) {
    // Short-lived threads may have been missed by the meter, and here they are told exactly.
    (*result)[metric] = std::max(0.0, (*result)[metric].get<double>() + seconds);
  };
  add("compaction_cpu_s", -compacted);
  add("host_cpu_s", -all);
  add("agent_cpu_s", all);
  (*result)["compression_on_agent_s"] = compressed;
}

void BenchDb::AddSyncTimes(nlohmann::json* result) const {
  Stats stats{};
  if (!GetStats(db_->GetFileSystem(), &stats)) return;
  // Who has really done the work.
  (*result)["whole_compactions"] = stats.whole_compactions;
  (*result)["whole_returned"] = stats.whole_returned;
  (*result)["agent_flushes"] = stats.agent_flushes;
  (*result)["agent_flush_cpu_s"] = TimeOnAgent().flush_seconds;
  (*result)["inline_bytes"] = stats.bytes_inline;
  (*result)["agents_lost"] = stats.failovers;
  if (stats.syncs == 0) return;
  (*result)["syncs"] = stats.syncs;
  (*result)["sync_ms"] = static_cast<double>(stats.sync_median_nanos) / 1e6;
}

void BenchDb::WaitUntilSettled() {
  const char* const busy[] = {"rocksdb.mem-table-flush-pending", "rocksdb.compaction-pending",
                              "rocksdb.num-running-flushes", "rocksdb.num-running-compactions"};
  // Work may be between two of these states: believe in quiet only when seen three times running.
  for (int quiet = 0; quiet < 3;) {
    bool any = false;
    for (const char* property : busy) any = any || Property(property) != 0;
    quiet = any ? 0 : quiet + 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

absl::Status BenchDb::Close() { return FromRocks(db_->Close(), "closing the database"); }

}  // namespace pulse::bench
