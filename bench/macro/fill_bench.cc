// `pulse bench fill`: random writes with automatic compaction, and what they feel of it.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/common_options.h"
#include "bench/macro/fill_runs.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// Enough for compactions to reach the levels where they fall behind a writer that never pauses.
constexpr uint64_t kFillSize = uint64_t{8} << 30;

struct FillArgs {
  CommonArgs common;
  uint64_t value_bytes = 1024;
  uint64_t num = 0;  // 0: as many as --size holds
  int threads = 1;
  int jobs = 2;
  bool both_cpus = false;
};

std::vector<RatioRow> FillRatios(const RunSet& runs, bool tiny) {
  std::vector<RatioRow> rows;
  if (!runs.Has(kPulse)) return rows;
  if (runs.Has(kPulsePool)) {
    std::optional<Target> fill, sync;
    if (!tiny) {
      fill = Target{Target::Kind::kAtLeast, 1.04};
      sync = Target{Target::Kind::kAtMost, 0.5};
    }
    rows.push_back(
        {"throughput, pulse-pool / pulse", runs.Ratio(kPulsePool, kPulse, "ops_per_s"), fill});
    rows.push_back({"final sync of a table, pulse-pool / pulse",
                    runs.Ratio(kPulsePool, kPulse, "sync_ms"), sync});
  }
  // A tiny run's figures mean nothing, so it has no targets.
  std::optional<Target> tail, speed;
  if (!tiny) {
    tail = Target{Target::Kind::kAtMost, 0.6};
    speed = Target{Target::Kind::kAtLeast, 1.0};
  }
  for (const char* stock : {kStockDefault, kStockBps, kStockDirect}) {
    if (!runs.Has(stock)) continue;
    rows.push_back({absl::StrCat("write p99.9, pulse / ", stock),
                    runs.Ratio(kPulse, stock, "p99.9_us"), tail});
    rows.push_back({absl::StrCat("throughput, pulse / ", stock),
                    runs.Ratio(kPulse, stock, "ops_per_s"), speed});
    rows.push_back({absl::StrCat("host CPU, pulse / ", stock),
                    runs.Ratio(kPulse, stock, "host_cpu_s"), std::nullopt});
  }
  return rows;
}

void AddToReport(const FillArgs& args, uint64_t num, const std::vector<Opponent>& opponents,
                 const RunSet& runs, nlohmann::json raw, nlohmann::json* report) {
  nlohmann::json& settings = (*report)["settings"];
  settings["num"] = num;
  settings["value_bytes"] = args.value_bytes;
  settings["threads"] = args.threads;
  settings["background_jobs"] = args.jobs;
  (*report)["opponents"] = FillSpreads(opponents, runs);
  (*report)["ratios"] = ToJson(FillRatios(runs, args.common.tiny));
  (*report)["runs"] = std::move(raw);
}

absl::Status RunFillBench(FillArgs args) {
  PULSE_RETURN_IF_ERROR(CheckValueBytes(args.value_bytes, kStampBytes));
  args.common.agent_on_host_cpus = args.both_cpus;
  const auto size = SizeOf(args.common, kFillSize);
  if (!size.ok()) return size.status();
  const uint64_t each = kKeyBytes + args.value_bytes;
  const uint64_t num = args.num != 0 ? args.num : std::max<uint64_t>(1, *size / each);
  FillSettings settings;
  settings.num = num;
  settings.value_bytes = args.value_bytes;
  settings.threads = args.threads;
  settings.shape = ShapeFor(args.common.tiny, /*auto_compactions=*/true);
  settings.shape.background_jobs = args.jobs;
  auto session = Session::Open("fill", args.common, settings.space() * (args.common.pool ? 2 : 1));
  if (!session.ok()) return session.status();
  Session& s = **session;
  std::vector<Opponent> all = StockOpponents(s.host_cpus());
  all.push_back(PulseOpponent(s.pulse_target(), s.host_cpus()));
  if (args.common.pool) {
    all.push_back(PulsePoolOpponent(s.pulse_target(), s.host_cpus(), s.pool_path()));
  }
  const auto opponents = Select(std::move(all), args.common.opponents);
  if (!opponents.ok()) return opponents.status();

  s.Say(Legend(s, *opponents));
  s.ExpectSteps(static_cast<int>(opponents->size()) * s.rounds());
  nlohmann::json raw = nlohmann::json::array();
  const auto runs = FillRuns(&s, settings).Run(*opponents, "fill", &raw);
  if (!runs.ok()) return runs.status();
  s.Say(fmt::format("\n{} random writes of {} B by {} thread{}, {} background jobs, {} pair{}\n",
                    num, args.value_bytes, args.threads, args.threads == 1 ? "" : "s", args.jobs,
                    s.pairs(), s.pairs() == 1 ? "" : "s"));
  s.Say(FillSpeedTable(*opponents, *runs) + "\n" + FillLatencyTable(*opponents, *runs));
  if (runs->Has(kPulse)) s.Say("\n" + RenderRatios(FillRatios(*runs, args.common.tiny)));
  AddToReport(args, num, *opponents, *runs, std::move(raw), &s.report());
  return s.WriteReport();
}

}  // namespace

void AddFillBench(CLI::App& bench) {
  auto args = std::make_shared<FillArgs>();
  args->common.usual_host_cpus = 2;
  CLI::App* cmd = bench.add_subcommand(
      "fill", "Write at random with automatic compaction: throughput, latency tail, stalls");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--size", args->common.size,
                  "Keys and values to write, such as 512M; powers of 1024 [8G]");
  cmd->add_option("--num", args->num, "Number of writes, instead of --size");
  cmd->add_option("--value", args->value_bytes, "Value size in bytes")->capture_default_str();
  cmd->add_option("--threads", args->threads, "Writing threads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  AddPoolOption(cmd, &args->common);
  cmd->add_option("--jobs", args->jobs,
                  "RocksDB's max_background_jobs: 2 is its default, 4 what the PulseDB paper uses")
      ->check(CLI::Range(2, 256))
      ->capture_default_str();
  cmd->add_option("--host-cpus", args->common.host_cpus,
                  "CPUs of RocksDB, the same for all [the first two]");
  CLI::Option* agent_cpus = cmd->add_option("--agent-cpus", args->common.agent_cpus,
                                            "CPUs of the embedded agent; keep them among "
                                            "--host-cpus, so that PulseDB has no core more than "
                                            "stock [the second]");
  cmd->add_flag("--both-cpus", args->both_cpus, "Let the agent use all of --host-cpus")
      ->excludes(agent_cpus);
  cmd->footer(
      "Write-ahead log without sync, memtable and files of 64 MiB, level 0 "
      "triggers as RocksDB has them. Writers go as fast as they are let (a closed loop). stalled: "
      "share of the run in which RocksDB's write stalls held writers up; delayed, stopped: share "
      "of "
      "samples, one each 10 ms, in which writes were slowed down or held. settle: from the last "
      "write until compactions rest; CPU time includes it. sync: from the request to sync and "
      "close "
      "a table until the host has taken the answer, median.");
  cmd->callback([args] { Finish(RunFillBench(*args)); });
}

}  // namespace pulse::bench
