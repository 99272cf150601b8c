#include "bench/macro/graph/engines.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/errors.h"
#include "bench/macro/faults/soak_trend.h"
#include "mover/dsa_copy_engine.h"
#include "mover/thread_copy_engine.h"
#include "vdpu/sim_copy_engine.h"

namespace pulse::bench {

const std::vector<EngineChoice>& CopyEngines() {
  static const std::vector<EngineChoice> all = [] {
    std::vector<EngineChoice> engines = {
        {"inline"}, {"threads-1", 1}, {"threads-2", 2}, {"sim (stand-in)", 0, true}};
    if (OpenDsaDevice().ok()) engines.push_back({"dsa", 0, false, true});
    return engines;
  }();
  return all;
}

absl::StatusOr<std::unique_ptr<CopyEngine>> MakeEngine(const EngineChoice& choice) {
  if (choice.simulated) return vdpu::CreateSimCopyEngine({});
  if (choice.dsa) {
    PULSE_ASSIGN_OR_RETURN(DsaDevice device, OpenDsaDevice());
    return CreateDsaCopyEngine(std::move(device.portal), device.options);
  }
  if (choice.threads == 0) return CreateInlineCopyEngine({});
  return CreateThreadCopyEngine({.threads = choice.threads});
}

int64_t CostMeter::CallerNanos() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

CopyCost CostMeter::Of(uint64_t bytes) const {
  const double gib = static_cast<double>(bytes) / kGiB;
  const double seconds = stretch_.seconds(), all = stretch_.cpu_seconds();
  const double caller = static_cast<double>(CallerNanos() - caller_) * 1e-9;
  return {gib / seconds, caller / gib, all / gib};
}

CopyCost MedianCost(const std::vector<CopyCost>& costs) {
  std::vector<double> rates, caller, all;
  for (const CopyCost& cost : costs) {
    rates.push_back(cost.gib_per_s);
    caller.push_back(cost.caller_cpu_s_per_gib);
    all.push_back(cost.all_cpu_s_per_gib);
  }
  return {MedianOf(rates), MedianOf(caller), MedianOf(all)};
}

nlohmann::json ToJson(const std::vector<CopyCost>& costs) {
  const CopyCost median = MedianCost(costs);
  double least = costs.empty() ? 0 : costs[0].gib_per_s, most = least;
  for (const CopyCost& cost : costs) {
    least = std::min(least, cost.gib_per_s);
    most = std::max(most, cost.gib_per_s);
  }
  return {{"gib_per_s", median.gib_per_s},
          {"gib_per_s_least", least},
          {"gib_per_s_most", most},
          {"caller_cpu_s_per_gib", median.caller_cpu_s_per_gib},
          {"all_cpu_s_per_gib", median.all_cpu_s_per_gib}};
}

CopyCost MeasureCopyRate(uint64_t bytes, int rounds) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  const std::vector<char> from(bytes, 'x');
  std::vector<char> to(bytes, 'y');
  CopyCost best;
  for (const bool past_caches : {false, true}) {
    std::vector<CopyCost> costs;
    for (int round = 0; round <= rounds; ++round) {
      const CostMeter meter;
      for (uint64_t at = 0; at < bytes; at += kPiece) {
        const uint64_t n = std::min(kPiece, bytes - at);
        if (past_caches) {
          CopyPastCaches(&to[at], &from[at], n);
        } else {
          std::memcpy(&to[at], &from[at], n);
        }
        asm volatile("" : : "r"(to.data()) : "memory");  // what was copied is needed
      }
      if (round > 0) costs.push_back(meter.Of(bytes));
    }
    const CopyCost cost = MedianCost(costs);
    if (cost.gib_per_s > best.gib_per_s) best = cost;
  }
  return best;
}

CopyCost MeasureMemcpy(uint64_t bytes, int rounds) {
  const std::vector<char> from(bytes, 'x');
  std::vector<char> to(std::min<uint64_t>(bytes, uint64_t{4} << 20));
  std::vector<CopyCost> costs;
  for (int round = 0; round <= rounds; ++round) {
    const CostMeter meter;
    for (uint64_t at = 0; at < bytes; at += to.size()) {
      std::memcpy(to.data(), from.data() + at, std::min<uint64_t>(to.size(), bytes - at));
      asm volatile("" : : "r"(to.data()) : "memory");  // what was copied is needed
    }
    if (round > 0) costs.push_back(meter.Of(bytes));
  }
  return MedianCost(costs);
}

}  // namespace pulse::bench
