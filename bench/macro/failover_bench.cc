// `pulse bench failover`: what writers feel while agents die and come back, against stock RocksDB.
#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/text_table.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/common_options.h"
#include "bench/macro/soak_agent.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kFailoverSize = uint64_t{2} << 30;
constexpr uint64_t kFailoverSlack = uint64_t{256} << 20;
constexpr char kFlapping[] = "pulse-flapping";
constexpr char kOrphan[] = "pulse-orphan";

struct FailoverArgs {
  CommonArgs common;
  uint64_t value_bytes = 1024;
};

class Failover {
 public:
  Failover(Session* session, const FailoverArgs& args, uint64_t num)
      : session_(session),
        args_(args),
        num_(num),
        shape_(ShapeFor(args.common.tiny, /*auto_compactions=*/true)),
        agent_(session->dir().Sub("agent.sock"), session->dir().Sub("agent.log"),
               session->args().agent_cpus) {
    shape_.background_jobs = 2;
  }

  std::vector<Opponent> Opponents() const {
    const auto& host = session_->host_cpus();
    PulseTarget target = session_->pulse_target();
    target.agent_socket = agent_.socket();
    Opponent steady = PulseOpponent(target, host);
    steady.agent_socket.clear();  // its CPU time cannot be followed through its deaths
    steady.meaning = "PulseDB with an external agent that is let alone";
    Opponent flapping = steady, orphan = steady;
    flapping.name = kFlapping;
    flapping.meaning =
        "the same; the agent is killed and started again all the time, a second each";
    orphan.name = kOrphan;
    orphan.meaning = "the same; the agent is killed after half a second, for good";
    return {StockOpponents(host).front(), steady, flapping, orphan,
            StockOnBothProcessors(session_->both_cpus()).front()};
  }

  absl::StatusOr<nlohmann::json> RunOne(const Opponent& opponent, const std::string& label, bool) {
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    if (opponent.IsPulse()) {
      if (!agent_.Runs()) PULSE_RETURN_IF_ERROR(agent_.Start());
      PULSE_RETURN_IF_ERROR(agent_.WaitReady());
    }
    session_->CoolDown();
    int ticks = 0, kills = 0;
    absl::Status status;
    session_->OnTick([&] {  // each half second
      ++ticks;
      const bool runs = agent_.Runs();
      if (opponent.IsPulse()) status.Update(agent_.CheckNotCrashed());
      const bool down =
          opponent.name == kFlapping ? ticks % 4 == 1 || ticks % 4 == 2 : opponent.name == kOrphan;
      if (down && runs) {
        agent_.Kill();
        ++kills;
      } else if (!down && !runs && opponent.IsPulse()) {
        status.Update(agent_.Start());
      }
    });
    auto result = session_->Step(label,
                                 {{"job", "fill"},
                                  {"dir", session_->dir().Sub("run")},
                                  {"shape", ToJson(shape_)},
                                  {"opponent", ToJson(opponent)},
                                  {"num", num_},
                                  {"value_bytes", args_.value_bytes},
                                  {"threads", 1},
                                  {"seed", args_.common.seed},
                                  {"key_seed", args_.common.seed}},
                                 opponent.cpus, [&kills](const nlohmann::json& r) {
                                   return fmt::format("{:.0f} ops/s, max {:.0f} ms, {} kills",
                                                      r.value("ops_per_s", 0.0),
                                                      r.value("max_us", 0.0) / 1e3, kills);
                                 });
    session_->OnTick(nullptr);
    PULSE_RETURN_IF_ERROR(status);
    if (!result.ok()) return result.status();
    const bool must_kill = opponent.name == kFlapping || opponent.name == kOrphan;
    if (must_kill && kills == 0 && !args_.common.tiny) {
      return absl::FailedPreconditionError(
          "the run ended before an agent was killed; choose a larger --size");
    }
    (*result)["agent_kills"] = kills;
    PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
    return result;
  }

 private:
  Session* const session_;
  const FailoverArgs& args_;
  const uint64_t num_;
  DbShape shape_;
  SoakAgent agent_;
};

std::string Table(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"opponent (medians)", "ops/s", "p99 us", "p99.9 us", "max ms", "stalled",
                   "host CPU s", "agents killed"});
  for (const Opponent& o : opponents) {
    const auto median = [&](const char* metric) { return runs.Of(o.name, metric).median; };
    table.AddRow({o.name, fmt::format("{:.0f}", median("ops_per_s")),
                  fmt::format("{:.0f}", median("p99_us")),
                  fmt::format("{:.0f}", median("p99.9_us")),
                  fmt::format("{:.0f}", median("max_us") / 1e3),
                  fmt::format("{:.1f} %", 100 * median("stall_share")),
                  fmt::format("{:.2f}", median("host_cpu_s")),
                  o.IsPulse() ? fmt::format("{:.0f}", median("agent_kills")) : "-"});
  }
  return table.Render();
}

std::vector<RatioRow> Ratios(const RunSet& runs, bool tiny) {
  std::vector<RatioRow> rows;
  std::optional<Target> target;
  if (!tiny) target = Target{Target::Kind::kAtLeast, 1.0};
  for (const char* name : {kPulse, kFlapping, kOrphan}) {
    for (const char* stock : {kStockDefault, kStock2Cpu}) {
      if (!runs.Has(name) || !runs.Has(stock)) continue;
      const bool judged = std::string(stock) == kStockDefault;
      rows.push_back({absl::StrCat("throughput, ", name, " / ", stock),
                      runs.Ratio(name, stock, "ops_per_s"), judged ? target : std::nullopt});
    }
  }
  return rows;
}

absl::Status RunFailoverBench(const FailoverArgs& args) {
  PULSE_RETURN_IF_ERROR(CheckValueBytes(args.value_bytes, kStampBytes));
  if (!args.common.agent_socket.empty()) {
    return absl::InvalidArgumentError(
        "--agent: this benchmark kills agents, so it starts its own; leave --agent out");
  }
  QuietLostAgents();
  const auto size = SizeOf(args.common, kFailoverSize);
  if (!size.ok()) return size.status();
  const uint64_t each = kKeyBytes + args.value_bytes;
  const uint64_t num = std::max<uint64_t>(1, *size / each);
  auto session = Session::Open("failover", args.common, num * each * 5 / 2 + kFailoverSlack);
  if (!session.ok()) return session.status();
  Session& s = **session;
  PULSE_RETURN_IF_ERROR(s.dir().Remove("agent.log"));
  // Starting agents is this program's work, and not to slow the host.
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(s.agent_cpus()));
  Failover failover(&s, args, num);
  const auto opponents = Select(failover.Opponents(), args.common.opponents);
  if (!opponents.ok()) return opponents.status();
  s.Say(Legend(s, *opponents));
  s.ExpectSteps(static_cast<int>(opponents->size()) * s.rounds());
  nlohmann::json raw = nlohmann::json::array();
  const auto runs = s.RunRounds(
      *opponents, "failover",
      [&failover](const Opponent& o, const std::string& label, bool first) {
        return failover.RunOne(o, label, first);
      },
      &raw);
  if (!runs.ok()) return runs.status();
  const std::vector<RatioRow> ratios = Ratios(*runs, args.common.tiny);
  s.Say("\n" + Table(*opponents, *runs));
  if (!ratios.empty()) s.Say("\n" + RenderRatios(ratios));
  s.report()["settings"]["num"] = num;
  s.report()["settings"]["value_bytes"] = args.value_bytes;
  s.report()["opponents"] =
      SpreadsJson(*runs, *opponents,
                  {"ops_per_s", "p99_us", "p99.9_us", "max_us", "stall_share", "host_cpu_s"});
  s.report()["ratios"] = ToJson(ratios);
  s.report()["runs"] = std::move(raw);
  return s.WriteReport();
}

}  // namespace

void AddFailoverBench(CLI::App& bench) {
  auto args = std::make_shared<FailoverArgs>();
  CLI::App* cmd = bench.add_subcommand(
      "failover", "Write at random while the agent is killed and restarted: throughput, tail");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--size", args->common.size,
                  "Keys and values to write, such as 512M; powers of 1024 [2G]");
  cmd->add_option("--value", args->value_bytes, "Value size in bytes")->capture_default_str();
  cmd->add_option("--host-cpus", args->common.host_cpus,
                  "CPUs of RocksDB, the same for all [the first that may be used]");
  cmd->add_option("--agent-cpus", args->common.agent_cpus,
                  "CPUs of the agent processes [the second]");
  cmd->footer(
      "As `pulse bench fill`, with an agent process of the benchmark's own. An operation that "
      "fails "
      "ends the benchmark with its error.");
  cmd->callback([args] { Finish(RunFailoverBench(*args)); });
}

}  // namespace pulse::bench
