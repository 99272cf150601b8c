// `pulse bench fill`: random writes with automatic compaction, and what they feel of it.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/common_options.h"
#include "bench/workload.h"
#include "commands.h"
#include "fmt/format.h"
#include "util/disk.h"
#include "util/text_table.h"

namespace pulse::bench {
namespace {

// Enough for compactions to reach the levels where they fall behind a writer that never pauses.
constexpr uint64_t kFullSize = uint64_t{8} << 30;
constexpr uint64_t kSlack = uint64_t{256} << 20;

struct FillArgs {
  CommonArgs common;
  uint64_t value_bytes = 1024;
  uint64_t num = 0;  // 0: as many as --size holds
  int threads = 1;
  int jobs = 2;
  bool both_cpus = false;
};

class Filler {
 public:
  Filler(Session* session, const FillArgs& args, uint64_t num, uint64_t pool_bytes)
      : session_(session),
        args_(args),
        num_(num),
        pool_bytes_(pool_bytes),
        shape_(ShapeFor(args.common.tiny, /*auto_compactions=*/true)) {
    shape_.background_jobs = args.jobs;
  }

  absl::StatusOr<nlohmann::json> RunOne(const Opponent& opponent, const std::string& label,
                                        bool first) {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    if (!opponent.pool.empty()) PULSE_RETURN_IF_ERROR(session_->ReadyPool(pool_bytes_));
    session_->CoolDown();
    auto result =
        session_->Step(label,
                       {{"job", "fill"},
                        {"dir", session_->dir().Sub("run")},
                        {"shape", ToJson(shape_)},
                        {"opponent", ToJson(opponent)},
                        {"num", num_},
                        {"value_bytes", args_.value_bytes},
                        {"threads", args_.threads},
                        {"seed", args_.common.seed}},
                       opponent.cpus, [](const nlohmann::json& r) {
                         return fmt::format("{:.0f} ops/s, p99.9 {:.0f} us",
                                            r.value("ops_per_s", 0.0), r.value("p99.9_us", 0.0));
                       });
    if (!result.ok()) return result.status();
    if (first) PULSE_RETURN_IF_ERROR(Check(label, opponent));
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    return result;
  }

 private:
  // Reads the database back and compares it with what the first opponent left. Which of two threads
  // wrote a key last is chance, so with several only the keys are compared (and each value on its
  // own).
  absl::Status Check(const std::string& label, const Opponent& opponent) {
    auto seen = session_->Verify(label, "run", shape_, args_.value_bytes, opponent);
    if (!seen.ok()) return seen.status();
    if (!contents_) contents_ = *seen;
    const bool same =
        args_.threads == 1 ? seen->sum == contents_->sum : seen->keys == contents_->keys;
    if (same && seen->entries == contents_->entries) return absl::OkStatus();
    return absl::DataLossError(fmt::format(
        "wrong contents after the writes: {} entries with checksum {}, where the first opponent "
        "left {} with {}",
        seen->entries, seen->sum, contents_->entries, contents_->sum));
  }

  Session* const session_;
  const FillArgs& args_;
  const uint64_t num_;
  const uint64_t pool_bytes_;
  DbShape shape_;
  std::optional<Contents> contents_;
};

std::string SpeedTable(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"opponent (medians)", "ops/s", "MiB/s", "settle s", "stalled", "delayed",
                   "stopped", "host CPU s", "agent CPU s", "sync ms"});
  for (const Opponent& o : opponents) {
    const auto share = [&](const char* metric) {
      return fmt::format("{:.1f} %", 100 * runs.Of(o.name, metric).median);
    };
    table.AddRow({o.name, fmt::format("{:.0f}", runs.Of(o.name, "ops_per_s").median),
                  fmt::format("{:.1f}", runs.Of(o.name, "mib_per_s").median),
                  fmt::format("{:.1f}", runs.Of(o.name, "settle_s").median), share("stall_share"),
                  share("delayed_share"), share("stopped_share"),
                  fmt::format("{:.2f}", runs.Of(o.name, "host_cpu_s").median),
                  o.IsPulse() ? fmt::format("{:.2f}", runs.Of(o.name, "agent_cpu_s").median) : "-",
                  o.IsPulse() ? fmt::format("{:.2f}", runs.Of(o.name, "sync_ms").median) : "-"});
  }
  return table.Render();
}

std::string LatencyTable(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"write latency, us (medians)", "mean", "p50", "p99", "p99.9", "p99.99", "max"});
  for (const Opponent& o : opponents) {
    std::vector<std::string> cells = {o.name};
    for (const char* metric : {"mean_us", "p50_us", "p99_us", "p99.9_us", "p99.99_us", "max_us"}) {
      const double us = runs.Of(o.name, metric).median;
      cells.push_back(us < 100 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us));
    }
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

std::vector<RatioRow> Ratios(const RunSet& runs, bool tiny) {
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
  (*report)["opponents"] =
      SpreadsJson(runs, opponents,
                  {"ops_per_s", "mib_per_s", "wall_s", "settle_s", "mean_us", "p50_us", "p99_us",
                   "p99.9_us", "p99.99_us", "max_us", "stall_share", "delayed_share",
                   "stopped_share", "host_cpu_s", "agent_cpu_s", "syncs", "sync_ms"});
  (*report)["ratios"] = ToJson(Ratios(runs, args.common.tiny));
  (*report)["runs"] = std::move(raw);
}

absl::Status RunFillBench(FillArgs args) {
  PULSE_RETURN_IF_ERROR(CheckValueBytes(args.value_bytes, kStampBytes));
  args.common.agent_on_host_cpus = args.both_cpus;
  const auto size = SizeOf(args.common, kFullSize);
  if (!size.ok()) return size.status();
  const uint64_t each = kKeyBytes + args.value_bytes;
  const uint64_t num = args.num != 0 ? args.num : std::max<uint64_t>(1, *size / each);
  // The data, as much again while it is compacted, and the log.
  const uint64_t need = num * each * 5 / 2 + kSlack;
  auto session = Session::Open("fill", args.common, need * (args.common.pool ? 2 : 1));
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
  Filler filler(&s, args, num, need);
  nlohmann::json raw = nlohmann::json::array();
  const auto runs = s.RunRounds(
      *opponents, "fill",
      [&filler](const Opponent& o, const std::string& label, bool first) {
        return filler.RunOne(o, label, first);
      },
      &raw);
  if (!runs.ok()) return runs.status();
  s.Say(fmt::format("\n{} random writes of {} B by {} thread{}, {} background jobs, {} pair{}\n",
                    num, args.value_bytes, args.threads, args.threads == 1 ? "" : "s", args.jobs,
                    s.pairs(), s.pairs() == 1 ? "" : "s"));
  s.Say(SpeedTable(*opponents, *runs) + "\n" + LatencyTable(*opponents, *runs));
  if (runs->Has(kPulse)) s.Say("\n" + RenderRatios(Ratios(*runs, args.common.tiny)));
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
