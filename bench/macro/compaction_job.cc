#include <chrono>
#include <thread>

#include "base/errors.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/measured_run.h"
#include "nlohmann/json.hpp"
#include "rocksdb/options.h"

namespace pulse::bench {
namespace {

constexpr std::chrono::milliseconds kRest{250};

}  // namespace

absl::StatusOr<nlohmann::json> RunCompactionJob(const nlohmann::json& spec) {
  const Variant variant = spec.at("variant").get<Variant>();
  PULSE_ASSIGN_OR_RETURN(auto opened, BenchDb::Open(spec));
  BenchDb& db = *opened;
  // What opening has begun comes to its end, for every variant: a database in service is at rest.
  std::this_thread::sleep_for(kRest);
  PULSE_ASSIGN_OR_RETURN(auto meter, RunMeter::Create(variant));

  rocksdb::CompactRangeOptions range;
  range.exclusive_manual_compaction = true;
  range.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  range.max_subcompactions = variant.subcompactions;
  const BenchDb::OnAgent before = db.TimeOnAgent();
  PULSE_RETURN_IF_ERROR(meter->Start());
  const rocksdb::Status status = db.db()->CompactRange(range, nullptr, nullptr);
  meter->StopWall();
  nlohmann::json result;
  PULSE_RETURN_IF_ERROR(meter->Stop(&result));
  PULSE_RETURN_IF_ERROR(FromRocks(status, "compacting the database as " + variant.name));

  db.CountOnAgent(before, &result);
  db.AddSyncTimes(&result);
  result["read_bytes"] = db.Ticker(rocksdb::COMPACT_READ_BYTES);
  result["write_bytes"] = db.Ticker(rocksdb::COMPACT_WRITE_BYTES);
  PULSE_ASSIGN_OR_RETURN(const auto tables, db.CountTables());
  result["entries"] = tables.entries;
  result["files"] = tables.files;
  std::string level0;
  if (db.db()->GetProperty("rocksdb.num-files-at-level0", &level0) && level0 != "0") {
    return absl::InternalError("the manual compaction left " + level0 + " files in level 0");
  }
  PULSE_RETURN_IF_ERROR(db.Close());
  return result;
}

}  // namespace pulse::bench
