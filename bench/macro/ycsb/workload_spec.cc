#include "bench/macro/ycsb/workload_spec.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pulse::bench {

Operation WorkloadSpec::Pick(Random* random) const {
  uint64_t dice = random->Below(100);
  const auto hit = [&dice](unsigned share) {
    if (dice < share) return true;
    dice -= share;
    return false;
  };
  if (hit(read)) return Operation::kRead;
  if (hit(update)) return Operation::kUpdate;
  if (hit(insert)) return Operation::kInsert;
  if (hit(scan)) return Operation::kScan;
  return Operation::kReadModifyWrite;
}

uint64_t PickScanLength(Random* random) { return 1 + random->Below(kMaxScanLength); }

const std::vector<WorkloadSpec>& AllWorkloads() {
  static const std::vector<WorkloadSpec>* const all = [] {
    const auto zipf = Distribution::kScrambledZipfian;
    return new std::vector<WorkloadSpec>{
        {"load", "inserts only", 0, 0, 100, 0, 0, Distribution::kUniform},
        {"A", "50 % reads, 50 % updates, zipfian", 50, 50, 0, 0, 0, zipf},
        {"B", "95 % reads, 5 % updates, zipfian", 95, 5, 0, 0, 0, zipf},
        {"C", "reads only, zipfian", 100, 0, 0, 0, 0, zipf},
        {"F", "50 % reads, 50 % read-modify-writes, zipfian", 50, 0, 0, 0, 50, zipf},
        {"D", "95 % reads of the latest, 5 % inserts", 95, 0, 5, 0, 0, Distribution::kLatest},
        {"E", "95 % scans of 1 to 100 records, 5 % inserts, zipfian", 0, 0, 5, 95, 0, zipf},
    };
  }();
  return *all;
}

absl::StatusOr<std::vector<WorkloadSpec>> SelectWorkloads(const std::vector<std::string>& names) {
  const std::vector<WorkloadSpec>& all = AllWorkloads();
  if (names.empty()) return all;
  const auto same = [](const WorkloadSpec& spec, const std::string& name) {
    return absl::EqualsIgnoreCase(spec.name, name);
  };
  for (const std::string& name : names) {
    if (std::any_of(all.begin(), all.end(), [&](const auto& spec) { return same(spec, name); })) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--workloads: there is no \"", name, "\"; choose from ",
        absl::StrJoin(all, ", ",
                      [](std::string* out, const WorkloadSpec& spec) { out->append(spec.name); })));
  }
  std::vector<WorkloadSpec> chosen;
  for (const WorkloadSpec& spec : all) {
    if (std::any_of(names.begin(), names.end(), [&](const auto& n) { return same(spec, n); })) {
      chosen.push_back(spec);
    }
  }
  return chosen;
}

}  // namespace pulse::bench
