// The copy engines that the figures compare, and what copies cost. Main thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/graph/graph_bench.h"
#include "mover/copy_engine.h"
#include "services/graph/runs/copy_plan.h"

namespace pulse::bench {

struct EngineChoice {
  std::string name;
  int threads = 0;  // 0: the caller copies
  bool simulated = false;
  bool dsa = false;
  int engines = 1;  // that share a plan, in Figure 3
};

// "inline", "threads-1", "threads-2", "sim (stand-in)"; "dsa" where this machine has one.
const std::vector<EngineChoice>& CopyEngines();
absl::StatusOr<std::unique_ptr<CopyEngine>> MakeEngine(const EngineChoice& choice);

// Of a stretch in which `bytes` were moved: the caller's CPU, which is what an engine is to save,
// and that of all threads.
struct CopyCost {
  double gib_per_s = 0;
  double caller_cpu_s_per_gib = 0;
  double all_cpu_s_per_gib = 0;
};

class CostMeter {
 public:
  CostMeter() : caller_(CallerNanos()) {}
  CopyCost Of(uint64_t bytes) const;

 private:
  static int64_t CallerNanos();
  const Stretch stretch_;
  const int64_t caller_;
};

// The medians, for JSON: "gib_per_s" and so on.
nlohmann::json ToJson(const std::vector<CopyCost>& costs);
CopyCost MedianCost(const std::vector<CopyCost>& costs);

// Copies `bytes` once from memory to other memory, both there before, in pieces of 1 MiB, by memcpy
// or past the caches, whichever is faster: the machine's rate with one thread.
CopyCost MeasureCopyRate(uint64_t bytes, int rounds);

// Copies `bytes` once, by memcpy, in pieces of 4 MiB into the same 4 MiB: what no merge can beat.
CopyCost MeasureMemcpy(uint64_t bytes, int rounds);

inline constexpr double kGiB = 1073741824.0;

}  // namespace pulse::bench
