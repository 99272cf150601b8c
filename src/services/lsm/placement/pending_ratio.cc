#include "services/lsm/placement/pending_ratio.h"

#include <algorithm>

namespace pulse::lsm {
namespace {

// Where the user has set no limit: a quarter of RocksDB's default.
constexpr uint64_t kNoLimitSet = uint64_t{16} << 30;
// Of a database with a column family whose options are not known: nothing may be deferred.
constexpr double kUnlimited = 1e9;

// A quarter of the bytes at which RocksDB begins to slow writers: from there on it has more threads
// compact itself. For other styles than level compaction it has no estimate.
uint64_t LimitOf(const Options& o, const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  if (o.placement != PlacementMode::kAdaptive || families.empty()) return 0;
  uint64_t most = Options::kAutoPendingLimit;
  for (const rocksdb::ColumnFamilyDescriptor& f : families) {
    if (f.options.compaction_style != rocksdb::kCompactionStyleLevel) return 0;
    const uint64_t hard = f.options.hard_pending_compaction_bytes_limit;
    uint64_t soft = f.options.soft_pending_compaction_bytes_limit;
    if (soft == 0 || (hard > 0 && hard < soft)) soft = hard;
    if (soft > 0) most = std::min(most, soft / 4);
  }
  if (o.pending_limit != Options::kAutoPendingLimit) return o.pending_limit;
  return most == Options::kAutoPendingLimit ? kNoLimitSet : most;
}

// Three quarters of the way from the trigger of a compaction to the slowdown of writers.
size_t StallingL0(const rocksdb::ColumnFamilyOptions& o) {
  const int64_t trigger = std::max(1, o.level0_file_num_compaction_trigger);
  const int64_t slowdown = std::max<int64_t>(trigger, o.level0_slowdown_writes_trigger);
  return static_cast<size_t>(trigger + (slowdown - trigger) * 3 / 4);
}

}  // namespace

PendingRatio::PendingRatio(const Options& options,
                           const std::vector<rocksdb::ColumnFamilyDescriptor>& families)
    : limit_(LimitOf(options, families)) {
  for (const rocksdb::ColumnFamilyDescriptor& f : families)
    stalling_l0_[f.name] = StallingL0(f.options);
}

bool PendingRatio::WillStallWriters(const rocksdb::CompactionJobInfo& info) const {
  const auto stalling = stalling_l0_.find(info.cf_name);
  if (stalling == stalling_l0_.end()) return false;
  const auto tables = std::count_if(info.input_file_infos.begin(), info.input_file_infos.end(),
                                    [](const auto& file) { return file.level == 0; });
  return static_cast<size_t>(tables) >= stalling->second;
}

void PendingRatio::Update(rocksdb::DB* db, const std::string& home, const std::string& family) {
  uint64_t bytes = 0;
  if (limit_ == 0 || !db->GetAggregatedIntProperty(
                         rocksdb::DB::Properties::kEstimatePendingCompactionBytes, &bytes)) {
    return;
  }
  std::lock_guard lock(mu_);
  double& ratio = ratios_[home];
  if (ratio == kUnlimited) return;
  ratio = stalling_l0_.count(family) == 0
              ? kUnlimited
              : static_cast<double>(bytes) / static_cast<double>(limit_);
}

void PendingRatio::Forget(const std::string& home) {
  std::lock_guard lock(mu_);
  ratios_.erase(home);
}

double PendingRatio::Get() const {
  std::lock_guard lock(mu_);
  double ratio = -1;
  for (const auto& [home, of_one] : ratios_) ratio = std::max(ratio, of_one);
  return ratio;
}

}  // namespace pulse::lsm
