#include "services/lsm/placement/compaction_debt.h"

#include <algorithm>

namespace pulse::lsm {
namespace {

constexpr uint64_t kWithoutLimits = uint64_t{16} << 30;  // of RocksDB's default limit
constexpr double kTooMuch = 1e9;

// A quarter of what RocksDB begins to slow writers at: there it sees pressure itself, and has more
// threads compact. It does not tell what other styles than level compaction have to do.
uint64_t MostDebt(const Options& o, const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  if (o.placement != PlacementMode::kAdaptive || families.empty()) return 0;
  uint64_t most = Options::kAutoDebt;
  for (const rocksdb::ColumnFamilyDescriptor& f : families) {
    if (f.options.compaction_style != rocksdb::kCompactionStyleLevel) return 0;
    const uint64_t hard = f.options.hard_pending_compaction_bytes_limit;
    uint64_t soft = f.options.soft_pending_compaction_bytes_limit;
    if (soft == 0 || (hard > 0 && hard < soft)) soft = hard;
    if (soft > 0) most = std::min(most, soft / 4);
  }
  if (o.debt != Options::kAutoDebt) return o.debt;
  return most == Options::kAutoDebt ? kWithoutLimits : most;
}

// Three quarters of the way from their compaction to slow writers.
size_t ManyL0(const rocksdb::ColumnFamilyOptions& o) {
  const int64_t trigger = std::max(1, o.level0_file_num_compaction_trigger);
  const int64_t slowdown = std::max<int64_t>(trigger, o.level0_slowdown_writes_trigger);
  return static_cast<size_t>(trigger + (slowdown - trigger) * 3 / 4);
}

}  // namespace

CompactionDebt::CompactionDebt(const Options& options,
                               const std::vector<rocksdb::ColumnFamilyDescriptor>& families)
    : limit_(MostDebt(options, families)) {
  for (const rocksdb::ColumnFamilyDescriptor& f : families) many_l0_[f.name] = ManyL0(f.options);
}

bool CompactionDebt::IsPressing(const rocksdb::CompactionJobInfo& info) const {
  const auto many = many_l0_.find(info.cf_name);
  if (many == many_l0_.end()) return false;
  const auto tables = std::count_if(info.input_file_infos.begin(), info.input_file_infos.end(),
                                    [](const auto& file) { return file.level == 0; });
  return static_cast<size_t>(tables) >= many->second;
}

void CompactionDebt::Note(rocksdb::DB* db, const std::string& home, const std::string& family) {
  uint64_t bytes = 0;
  if (limit_ == 0 || !db->GetAggregatedIntProperty(
                         rocksdb::DB::Properties::kEstimatePendingCompactionBytes, &bytes)) {
    return;
  }
  std::lock_guard lock(mu_);
  double& owed = owed_[home];
  if (owed == kTooMuch) return;
  owed = many_l0_.count(family) == 0 ? kTooMuch
                                     : static_cast<double>(bytes) / static_cast<double>(limit_);
}

void CompactionDebt::Forget(const std::string& home) {
  std::lock_guard lock(mu_);
  owed_.erase(home);
}

double CompactionDebt::Owed() const {
  std::lock_guard lock(mu_);
  double owed = -1;
  for (const auto& [home, of_one] : owed_) owed = std::max(owed, of_one);
  return owed;
}

}  // namespace pulse::lsm
