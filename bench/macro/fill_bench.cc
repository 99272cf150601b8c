// `pulse bench fill`: random writes with automatic compaction, and what they feel of it.
#include <algorithm>

#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/fill_runs.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// Enough for compactions to reach the levels where they fall behind a writer that never pauses.
constexpr uint64_t kFillSize = uint64_t{8} << 30;

}  // namespace

absl::Status RunFillBench(BenchArgs args) {
  FillSettings settings;
  settings.value_bytes = args.Get<uint64_t>("value_bytes");
  PULSE_RETURN_IF_ERROR(CheckValueBytes(settings.value_bytes, kStampBytes));
  const auto size = SizeOf(args.common, kFillSize);
  if (!size.ok()) return size.status();
  settings.num = args.Get<uint64_t>("num");
  if (settings.num == 0) {
    settings.num = std::max<uint64_t>(1, *size / (kKeyBytes + settings.value_bytes));
  }
  settings.threads = args.Get<int>("threads");
  settings.shape = ShapeFor(args.common.tiny, /*auto_compactions=*/true);
  settings.shape.background_jobs = args.Get<int>("background_jobs");
  PULSE_ASSIGN_OR_RETURN(auto session,
                         Session::Open(args, settings.space() * (args.common.pool ? 2 : 1)));
  Session& s = *session;
  std::vector<Variant> all = StockVariants(s.host_cpus());
  all.push_back(PulseVariant(s.pulse_target(), s.host_cpus()));
  if (args.common.pool) {
    all.push_back(PulsePoolVariant(s.pulse_target(), s.host_cpus(), s.pool_path()));
  }
  PULSE_ASSIGN_OR_RETURN(const auto variants, Select(std::move(all), args.common.variants));

  s.Say(Legend(s, variants));
  s.ExpectSteps(static_cast<int>(variants.size()) * s.rounds());
  PULSE_ASSIGN_OR_RETURN(const auto runs, FillRuns(&s, settings).Run(variants, "fill"));
  s.Say(fmt::format("\n{} random writes of {} B by {} thread(s), {} background jobs, {} pair(s)\n",
                    settings.num, settings.value_bytes, settings.threads,
                    settings.shape.background_jobs, s.pairs()));
  const auto ratios = RatiosOf(DataOf("fill").at("ratios"), runs, !args.common.tiny);
  s.Say(FillTables(variants, runs));
  if (!ratios.empty()) s.Say("\n" + RenderRatios(ratios));
  s.report()["settings"]["num"] = settings.num;
  s.report().update(Section(runs, variants));
  s.report()["ratios"] = ToJson(ratios);
  return s.WriteReport();
}

}  // namespace pulse::bench
