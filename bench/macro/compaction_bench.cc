#include "bench/macro/compaction_bench.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/disk.h"
#include "base/errors.h"
#include "bench/macro/common_options.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kFullSize = uint64_t{3} << 29;  // 1.5 GiB
constexpr uint64_t kDemoSize = uint64_t{1} << 30;
constexpr int kDemoPairs = 3;
constexpr uint64_t kSlack = uint64_t{128} << 20;

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::vector<Opponent> EveryOpponent(const Session& session) {
  std::vector<Opponent> all = StockOpponents(session.host_cpus());
  all.push_back(PulseOpponent(session.pulse_target(), session.host_cpus()));
  if (session.args().pool) {
    all.push_back(
        PulsePoolOpponent(session.pulse_target(), session.host_cpus(), session.pool_path()));
  }
  for (Opponent& o : StockOnBothProcessors(session.both_cpus())) all.push_back(std::move(o));
  return all;
}

// One value size: its frozen level 0 and the runs on copies of it.
class Probe {
 public:
  Probe(Session* session, const CompactionArgs& args, uint64_t value_bytes, uint64_t size)
      : session_(session), shape_(ShapeFor(args.common.tiny, /*auto_compactions=*/false)) {
    frozen_.name = absl::StrCat("frozen-", value_bytes, "B");
    frozen_.value_bytes = value_bytes;
    frozen_.num = std::max<uint64_t>(1, size / (kKeyBytes + value_bytes));
    load_ = {{"job", "load"},
             {"dir", session->dir().Sub(frozen_.name)},
             {"shape", ToJson(shape_)},
             {"num", frozen_.num},
             {"value_bytes", value_bytes},
             {"seed", args.common.seed},
             {"unique_keys", args.unique_keys}};
  }

  const Frozen& frozen() const { return frozen_; }

  // Takes the frozen database of an earlier run if it is the same, else makes it.
  absl::Status Freeze() {
    const auto made = session_->Prepared(
        frozen_.name, Label() + ", loading", load_,
        [](const nlohmann::json& r) { return fmt::format("{} files", r.value("files", 0)); });
    if (!made.ok()) return made.status();
    frozen_.files = made->at("files").get<uint64_t>();
    frozen_.table_bytes = BytesIn(session_->dir().Sub(frozen_.name), ".sst");
    return absl::OkStatus();
  }

  absl::StatusOr<nlohmann::json> RunOne(const Opponent& opponent, const std::string& label,
                                        bool first) {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    PULSE_RETURN_IF_ERROR(session_->dir().CloneDb(frozen_.name, "run"));
    // The frozen tables are files for all; what is made of them goes into the pool.
    if (!opponent.pool.empty()) {
      PULSE_RETURN_IF_ERROR(session_->ReadyPool(frozen_.table_bytes * 3 / 2 + kSlack));
    }
    session_->CoolDown();
    auto result = session_->Step(label,
                                 {{"job", "compaction"},
                                  {"dir", session_->dir().Sub("run")},
                                  {"shape", ToJson(shape_)},
                                  {"opponent", ToJson(opponent)}},
                                 opponent.cpus, [this](const nlohmann::json& r) {
                                   return fmt::format("{:.2f} s, {:.0f} MiB/s",
                                                      r.value("wall_s", 0.0), MibPerSecond(r));
                                 });
    if (!result.ok()) return result.status();
    PULSE_RETURN_IF_ERROR(Check(*result, label, opponent, first));
    (*result)["mib_per_s"] = MibPerSecond(*result);
    (*result)["host_cpu_s_per_gib"] = result->value("host_cpu_s", 0.0) / Gib(frozen_.table_bytes);
    (*result)["agent_cpu_s_per_gib"] = result->value("agent_cpu_s", 0.0) / Gib(frozen_.table_bytes);
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    return result;
  }

  absl::Status CleanUp() {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    if (session_->args().keep) return absl::OkStatus();
    return session_->dir().RemoveAll(frozen_.name);
  }

  std::string Label() const { return fmt::format("values of {} B", frozen_.value_bytes); }

 private:
  double MibPerSecond(const nlohmann::json& result) const {
    const double wall = result.value("wall_s", 0.0);
    return wall > 0 ? static_cast<double>(frozen_.table_bytes) / (1 << 20) / wall : 0;
  }

  // An opponent's first run is read back as a whole, the others by their number of entries.
  absl::Status Check(const nlohmann::json& result, const std::string& label,
                     const Opponent& opponent, bool first) {
    if (first) {
      auto seen = session_->Verify(label, "run", shape_, frozen_.value_bytes, opponent);
      if (!seen.ok()) return seen.status();
      if (!contents_) contents_ = *seen;
      if (seen->sum != contents_->sum || seen->entries != contents_->entries) {
        return absl::DataLossError(
            fmt::format("wrong contents after the compaction: {} entries with checksum {}, where "
                        "the first opponent left {} with {}",
                        seen->entries, seen->sum, contents_->entries, contents_->sum));
      }
    }
    const uint64_t entries = result.value("entries", uint64_t{0});
    if (entries != contents_->entries) {
      return absl::DataLossError(fmt::format("{} entries after the compaction instead of {}",
                                             entries, contents_->entries));
    }
    return absl::OkStatus();
  }

  Session* const session_;
  const DbShape shape_;
  Frozen frozen_;
  nlohmann::json load_;
  std::optional<Contents> contents_;
};

absl::Status RunSizes(Session* session, const CompactionArgs& args,
                      const std::vector<Opponent>& opponents, uint64_t size) {
  for (const uint64_t value_bytes : args.values) {
    Probe probe(session, args, value_bytes, size);
    PULSE_RETURN_IF_ERROR(probe.Freeze());
    nlohmann::json raw = nlohmann::json::array();
    const auto runs = session->RunRounds(
        opponents, probe.Label(),
        [&probe](const Opponent& o, const std::string& label, bool first) {
          return probe.RunOne(o, label, first);
        },
        &raw);
    if (!runs.ok()) return runs.status();
    nlohmann::json section;
    const std::string text = ReportCompaction(*session, probe.frozen(), opponents, *runs, &section);
    section["runs"] = std::move(raw);
    session->report()["value_sizes"].push_back(std::move(section));
    session->Say(text);
    PULSE_RETURN_IF_ERROR(probe.CleanUp());
  }
  return absl::OkStatus();
}

absl::Status CheckArgs(const CompactionArgs& args) {
  for (const uint64_t v : args.values) {
    if (v < 8 || v > (uint64_t{1} << 20)) {
      return absl::InvalidArgumentError(
          fmt::format("--values {}: give sizes from 8 to 1048576 bytes", v));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunCompactionBench(const CompactionArgs& args) {
  PULSE_RETURN_IF_ERROR(CheckArgs(args));
  const auto size = SizeOf(args.common, kFullSize);
  if (!size.ok()) return size.status();
  // The frozen database, one opponent's output, and the tables' own overhead on both.
  const uint64_t frozen = args.common.keep ? args.values.size() : 1;
  const uint64_t pool = args.common.pool ? 2 : 0;
  auto session =
      Session::Open("compaction", args.common, *size / 4 * 5 * (frozen + 1 + pool) + kSlack);
  if (!session.ok()) return session.status();
  Session& s = **session;
  const auto opponents = Select(EveryOpponent(s), args.common.opponents);
  if (!opponents.ok()) return opponents.status();
  if (!args.common.keep) PULSE_RETURN_IF_ERROR(s.dir().RemoveAll("frozen-"));
  s.report()["settings"]["size_bytes"] = *size;
  s.report()["settings"]["unique_keys"] = args.unique_keys;
  s.Say(Legend(s, *opponents));
  const size_t per_size = 1 + opponents->size() * static_cast<size_t>(s.rounds());
  s.ExpectSteps(static_cast<int>(args.values.size() * per_size));
  PULSE_RETURN_IF_ERROR(RunSizes(&s, args, *opponents, *size));
  return s.WriteReport();
}

uint64_t FrozenSpace(uint64_t size) { return size / 4 * 5 * 2 + kSlack; }

absl::StatusOr<nlohmann::json> RunFrozen(Session* session, uint64_t size, const std::string& label,
                                         const std::vector<Opponent>& opponents) {
  constexpr uint64_t kValueBytes = 1024;
  CompactionArgs args;
  args.common = session->args();
  if (!args.common.keep) PULSE_RETURN_IF_ERROR(session->dir().RemoveAll("frozen-"));
  Probe probe(session, args, kValueBytes, size);
  PULSE_RETURN_IF_ERROR(probe.Freeze());
  nlohmann::json raw = nlohmann::json::array();
  const auto runs = session->RunRounds(
      opponents, label,
      [&probe](const Opponent& o, const std::string& what, bool first) {
        return probe.RunOne(o, what, first);
      },
      &raw);
  if (!runs.ok()) return runs.status();
  PULSE_RETURN_IF_ERROR(probe.CleanUp());
  return nlohmann::json{{"label", label},
                        {"num", probe.frozen().num},
                        {"value_bytes", kValueBytes},
                        {"opponents", SpreadsJson(*runs, opponents,
                                                  {"wall_s", "mib_per_s", "host_cpu_s_per_gib",
                                                   "agent_cpu_s_per_gib"})},
                        {"runs", std::move(raw)}};
}

void AddCpuOptions(CLI::App* cmd, CommonArgs* args) {
  cmd->add_option("--host-cpu", args->host_cpus,
                  "CPU of the host: RocksDB and all it does [the first that may be used]");
  cmd->add_option("--agent-cpu", args->agent_cpus,
                  "CPU of the embedded agent; it stands for the DPU [the second]");
}

void AddCompactionBench(CLI::App& bench) {
  auto args = std::make_shared<CompactionArgs>();
  CLI::App* cmd = bench.add_subcommand(
      "compaction", "Time one manual compaction of a frozen level 0, for several value sizes");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--values", args->values, "Value sizes in bytes")
      ->delimiter(',')
      ->capture_default_str();
  cmd->add_option("--size", args->common.size,
                  "Keys and values written into level 0, such as 512M; powers of 1024 [1.5G]");
  AddCpuOptions(cmd, &args->common);
  AddPoolOption(cmd, &args->common);
  cmd->add_flag("--unique-keys", args->unique_keys,
                "Write each key once; otherwise keys are drawn at random, as db_bench fillrandom "
                "does, and about a third are overwritten");
  cmd->footer(
      "Keys of 16 B, no compression, Bloom filters of 10 bits, memtable and files of 64 MiB, level "
      "1 of 256 MiB. The best tuned opponent is the fastest of stock-default, stock-bps and "
      "stock-direct. The third line gives stock RocksDB both CPUs, so that nobody mistakes a "
      "second "
      "core for a better design.");
  cmd->callback([args] { Finish(RunCompactionBench(*args)); });
}

void AddDemo(CLI::App& bench) {
  auto args = std::make_shared<CompactionArgs>();
  args->values = {1024};
  args->common.pairs = kDemoPairs;
  CLI::App* cmd = bench.add_subcommand(
      "demo", "A short look: stock RocksDB against PulseDB on one compaction of 1 KiB values");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--size", args->common.size, "Keys and values written into level 0 [1G]");
  AddCpuOptions(cmd, &args->common);
  cmd->callback([args] {
    CompactionArgs demo = *args;
    if (demo.common.size.empty() && !demo.common.tiny) demo.common.size = absl::StrCat(kDemoSize);
    const absl::Status status = RunCompactionBench(demo);
    if (status.ok()) {
      fmt::print(
          "\nMeasured: one manual compaction of the same {} of data, stock RocksDB against the "
          "same "
          "RocksDB on pulse://, in fresh processes with a cold page cache. Look at the third line "
          "too: it gives stock RocksDB the agent's core as well.\n",
          demo.common.tiny ? "few MB" : FormatBytes(*SizeOf(demo.common, kDemoSize)));
    }
    Finish(status);
  });
}

}  // namespace pulse::bench
