// Opening a RocksDB the way the benchmarks want it: one shape for all variants, and on it the few
// settings that make a variant. Not thread-safe, but the DB inside is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/macro/variant.h"
#include "nlohmann/json.hpp"
#include "rocksdb/db.h"
#include "rocksdb/statistics.h"

namespace pulse::bench {

// What all variants share. 10-bit Bloom filters, fan-out 10, compaction read-ahead 2 MiB, 4
// background jobs in every case.
struct DbShape {
  uint64_t memtable_bytes = uint64_t{64} << 20;
  uint64_t file_bytes = uint64_t{64} << 20;
  uint64_t level1_bytes = uint64_t{256} << 20;
  int background_jobs = 4;
  bool auto_compactions = true;
  bool direct_reads = false;
  uint64_t block_cache_bytes = 0;  // 0: RocksDB's default
  std::string compression;         // of blocks, such as "zstd"; empty: none
  int compression_level = 3;
  uint64_t block_bytes = 0;  // 0: RocksDB's default
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DbShape, memtable_bytes, file_bytes, level1_bytes,
                                   background_jobs, auto_compactions, direct_reads,
                                   block_cache_bytes, compression, compression_level, block_bytes)

// A shape for `data_bytes`: the full one, or for --tiny one that still makes several files.
DbShape ShapeFor(bool tiny, bool auto_compactions);

// As the PulseDB paper has it (section IV.A): 4 background jobs, direct reads, and a block cache
// that is to `data_bytes` what its 2 GB are to 40 GB. `memtable_bytes`, unless 0, is the size of
// memtables and tables instead of 64 MiB, and level 1 has four times that.
DbShape PaperShapeFor(bool tiny, uint64_t data_bytes, uint64_t memtable_bytes);

// Memory that a run with this shape takes, about, where each output stream has a queue of
// `queue_bytes`.
uint64_t RunMemory(const DbShape& shape, uint64_t queue_bytes);
inline constexpr uint64_t kUsualQueueBytes = uint64_t{32} << 20;  // pulse://'s default

// "WHAT: RocksDB's message", with the status code that suits.
absl::Status FromRocks(const rocksdb::Status& status, const std::string& what);

class BenchDb {
 public:
  // Creates the database when it is missing, unless `read_only`.
  // As a job's "dir", "variant" and "shape" say.
  static absl::StatusOr<std::unique_ptr<BenchDb>> Open(const nlohmann::json& spec) {
    return Open(spec.at("dir").get<std::string>(), spec.at("variant").get<Variant>(),
                spec.at("shape").get<DbShape>());
  }
  static absl::StatusOr<std::unique_ptr<BenchDb>> Open(const std::string& dir,
                                                       const Variant& variant, const DbShape& shape,
                                                       bool read_only = false);
  ~BenchDb();
  BenchDb(const BenchDb&) = delete;
  BenchDb& operator=(const BenchDb&) = delete;

  rocksdb::DB* db() { return db_.get(); }
  uint64_t Ticker(uint32_t ticker) const { return statistics_->getTickerCount(ticker); }
  uint64_t Property(const std::string& name) const;  // 0 when there is none

  // Sums over the tables of the current version.
  struct Tables {
    uint64_t files = 0;
    uint64_t entries = 0;
  };
  absl::StatusOr<Tables> CountTables();
  // What a read may have to look into, and a scan has to merge: tables of level 0, and other levels
  // that have any.
  uint64_t SortedRuns() const;

  // CPU time of RocksDB's threads on an embedded agent's CPUs.
  struct OnAgent {
    double flush_seconds = 0;
    double compaction_seconds = 0;   // whole ones
    double compression_seconds = 0;  // of blocks
  };
  OnAgent TimeOnAgent() const;
  // What it has taken since `before` is the agent's in `result`, which has it as the host's.
  void CountOnAgent(const OnAgent& before, nlohmann::json* result) const;
  // Adds syncs and sync_ms, the median, of PulseDB's outputs to a result; stock has none.
  void AddSyncTimes(nlohmann::json* result) const;

  // Waits until no flush or compaction runs or is due. Needs automatic compactions: without them,
  // one may be due for ever.
  void WaitUntilSettled();

  absl::Status Close();

 private:
  BenchDb() = default;

  // Destroyed from the bottom up: the database before its environment.
  std::shared_ptr<rocksdb::Env> env_guard_;
  std::shared_ptr<rocksdb::Statistics> statistics_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace pulse::bench
