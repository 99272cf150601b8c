// The YCSB workloads, run on one loaded database after the other. Main thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/macro/pair_stats.h"
#include "bench/macro/session.h"
#include "bench/macro/variant.h"
#include "bench/macro/ycsb/workload_spec.h"

namespace pulse::bench {

// Who has loaded the database that a workload begins with.
enum class YcsbLoad {
  kCopied,  // stock RocksDB, for all, and at rest
  kOwn      // the variant itself, as in the paper; its pending compactions run with the workload
};

inline constexpr size_t kUsualVariants = 3;  // PaperVariants()

struct YcsbPlan {
  std::vector<WorkloadSpec> workloads;
  uint64_t records = 0;
  uint64_t operations = 0;  // of each workload but the load, by all threads together
  uint64_t value_bytes = 1024;
  int threads = 10;
  int jobs = 4;                 // RocksDB's
  uint64_t memtable_bytes = 0;  // 0: the paper's
  YcsbLoad load = YcsbLoad::kCopied;
};

// Disk that the runs take at the most, and memory.
uint64_t YcsbSpace(const YcsbPlan& plan, size_t variants);
uint64_t YcsbMemory(const YcsbPlan& plan, bool tiny);

// What a report has to say of a plan.
nlohmann::json YcsbSettings(const YcsbPlan& plan, bool tiny);

// How many steps of progress RunYcsb() takes.
int YcsbSteps(const Session& session, const YcsbPlan& plan, size_t variants);

// The seconds that they take, about, on a usual processor (RunSeconds).
double YcsbSeconds(const Session& session, const YcsbPlan& plan, size_t variants);

// Runs all workloads with all variants and says the tables. `done` is given an object for each
// workload when it is finished; its error ends the runs.
//
// Every run works on a copy (tables as hard links) of a loaded database, so no workload sees what
// another one wrote. With kCopied stock RocksDB loads it once, on all CPUs, and waits until its
// compactions rest: a variant's own load tells only in the load. With kOwn each variant loads
// one, on its CPUs, and leaves it when the last record is written.
absl::Status RunYcsb(Session* session, const YcsbPlan& plan, const std::vector<Variant>& variants,
                     const std::function<absl::Status(nlohmann::json)>& done);

// One workload's tables; the same and the single figures into `section`.
std::string ReportYcsb(const WorkloadSpec& workload, const std::vector<Variant>& variants,
                       const Runs& runs, bool tiny, nlohmann::json* section);

}  // namespace pulse::bench
