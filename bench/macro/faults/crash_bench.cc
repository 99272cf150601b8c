// `pulse bench crash`: processes are killed under load, databases and agents alike; what they leave
// is opened, timed against stock RocksDB on a copy, and compared key by key with what was promised.
#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/clock.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/child_runner.h"
#include "bench/macro/faults/crash_ledger.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr char kRunName[] = "run";
constexpr char kCopyName[] = "run-stock";
constexpr char kLedgerName[] = "ledger";
constexpr char kAgentLog[] = "agent.log";
// A restart may cost little more than stock RocksDB's.
constexpr double kRecoveryTarget = 1.10;

struct CrashOutcome {
  int embedded_kills = 0, external_kills = 0, agent_kills = 0;
  uint64_t operations = 0;
  uint64_t checked = 0;
  uint64_t wrong = 0;
  std::string problem;  // the first
  RunSet recoveries;
};

class Crash {
 public:
  Crash(Session* session, const BenchArgs& args)
      : session_(*session),
        args_(args),
        kills_(args.Get<int>("kills")),
        keys_(args.Get<uint64_t>("keys")),
        dice_(args.common.seed),
        agent_(session->dir().Sub("agent.sock"), session->dir().Sub(kAgentLog)) {
    // So small that flushes and compactions are always under way, so large that there is a log to
    // recover.
    shape_.memtable_bytes = uint64_t{args.common.tiny ? 1u : 16u} << 20;
    shape_.file_bytes = shape_.memtable_bytes / 4;
    shape_.level1_bytes = shape_.memtable_bytes;
  }

  absl::Status Run() {
    PULSE_ASSIGN_OR_RETURN(ledger_, CrashLedger::Create(session_.dir().Sub(kLedgerName), keys_));
    if (args_.own.at("agents") != "embedded") PULSE_RETURN_IF_ERROR(StartAgent());
    const int64_t begin = NowNanos();
    int64_t said = begin;
    for (int round = 0; round < kills_ && outcome_.problem.empty(); ++round) {
      const bool external = args_.own.at("agents") == "external" ||
                            (args_.own.at("agents") == "both" && round % 2 == 1);
      PULSE_RETURN_IF_ERROR(LoadAndKill(round, external));
      if (outcome_.problem.empty()) PULSE_RETURN_IF_ERROR(Recover(round, external));
      if (outcome_.problem.empty()) PULSE_RETURN_IF_ERROR(Check());
      if (NowNanos() - said < 5'000'000'000) continue;
      said = NowNanos();
      const double took = static_cast<double>(said - begin) / 1e9;
      fmt::print(stderr, "{} of {} kills, {} agents killed, {} operations, {} wrong; {} left\n",
                 round + 1, kills_, outcome_.agent_kills, ledger_->operations(), outcome_.wrong,
                 FormatDuration(took / (round + 1) * (kills_ - round - 1)));
    }
    outcome_.operations = ledger_->operations();
    return absl::OkStatus();
  }

  absl::Status Report() {
    const int kills = outcome_.embedded_kills + outcome_.external_kills;
    TextTable table({"", "embedded agent", "external agent", "together"});
    table.AddRow({"host processes killed", absl::StrCat(outcome_.embedded_kills),
                  absl::StrCat(outcome_.external_kills), absl::StrCat(kills)});
    table.AddRow({"agent processes killed under load", "-", absl::StrCat(outcome_.agent_kills),
                  absl::StrCat(outcome_.agent_kills)});
    table.AddRow({"operations acknowledged", "", "", absl::StrCat(outcome_.operations)});
    table.AddRow({"keys compared", "", "", absl::StrCat(outcome_.checked)});
    table.AddRow({"lost or wrong", "", "", absl::StrCat(outcome_.wrong)});
    session_.Say("\n" + table.Render());
    std::vector<RatioRow> rows;
    if (kills > 0 && outcome_.problem.empty()) {
      const Spread stock = outcome_.recoveries.Of(kStockDefault, "open_s");
      const Spread pulse = outcome_.recoveries.Of(kPulse, "open_s");
      session_.Say(fmt::format(
          "\nRecovery (opening what was left, the same for both): stock {:.0f} ms, PulseDB {:.0f} "
          "ms (medians)\n",
          1e3 * stock.median, 1e3 * pulse.median));
      std::optional<Target> target;
      if (!args_.common.tiny) target = Target{Target::Kind::kAtMost, kRecoveryTarget};
      rows.push_back({"recovery time, pulse / stock-default",
                      outcome_.recoveries.Ratio(kPulse, kStockDefault, "open_s"), target});
      session_.Say(RenderRatios(rows));
      session_.report()["recovery"] = {{kStockDefault, ToJson(stock)}, {kPulse, ToJson(pulse)}};
      session_.report()["ratios"] = ToJson(rows);
    }
    session_.report()["result"] = {{"embedded_kills", outcome_.embedded_kills},
                                   {"external_kills", outcome_.external_kills},
                                   {"agent_kills", outcome_.agent_kills},
                                   {"operations", outcome_.operations},
                                   {"keys_checked", outcome_.checked},
                                   {"wrong", outcome_.wrong},
                                   {"problem", outcome_.problem}};
    PULSE_RETURN_IF_ERROR(session_.WriteReport());
    if (outcome_.problem.empty()) return absl::OkStatus();
    return absl::DataLossError(fmt::format("{}; the database is in {}, repeat with --seed {}{}",
                                           outcome_.problem, session_.dir().Sub(kRunName),
                                           args_.common.seed, args_.common.tiny ? " --tiny" : ""));
  }

 private:
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(dice_() % static_cast<uint64_t>(high - low + 1));
  }

  absl::Status StartAgent() {
    PULSE_RETURN_IF_ERROR(agent_.CheckNotCrashed());
    if (!agent_.Runs()) PULSE_RETURN_IF_ERROR(agent_.Start());
    return agent_.WaitReady();
  }

  Variant Pulse(bool external) const {
    PulseTarget target = session_.pulse_target();
    if (external) target.agent_socket = agent_.socket();
    // Small queues: a full one belongs to the load.
    target.extra =
        absl::StrCat("queue=4M&fetch_memory=8M", target.extra.empty() ? "" : "&", target.extra);
    return PulseVariant(target, session_.host_cpus());
  }

  nlohmann::json Spec(const char* job, const char* dir) const {
    return {{"job", job},
            {"dir", session_.dir().Sub(dir)},
            {"ledger", session_.dir().Sub(kLedgerName)},
            {"shape", shape_},
            {"value_bytes", args_.own.at("value_bytes")},
            {"seed", args_.common.seed}};
  }

  // The agent of an external round is killed twice meanwhile, and may be away when the host dies.
  absl::Status LoadAndKill(int round, bool external) {
    nlohmann::json spec = Spec("crash-load", kRunName);
    spec["variant"] = Pulse(external);
    spec["threads"] = args_.own.at("threads");
    spec["round"] = round;
    const int64_t life_ms = Between(300, args_.common.tiny ? 600 : 1800);
    struct Event {
      int64_t at_ms;
      bool kill;
    };
    std::vector<Event> events;
    if (external) {
      for (const int64_t part : {life_ms / 4, life_ms * 2 / 3}) {
        const int64_t at = part + Between(0, life_ms / 8);
        events.push_back({at, true});
        events.push_back({at + Between(0, life_ms / 4), false});
      }
    }
    if (external) PULSE_RETURN_IF_ERROR(StartAgent());
    const uint64_t operations = ledger_->operations();
    ledger_->SetStarted(false);
    int64_t begin = 0;  // of its life: when it has opened the database
    size_t next = 0;
    absl::Status agent_status;
    ChildOptions options;
    options.cpus = session_.host_cpus();
    options.timeout_seconds = args_.common.timeout_seconds;
    options.tick_millis = 5;
    options.enough = [&] { return begin != 0 && NowNanos() - begin > life_ms * 1'000'000; };
    options.tick = [&] {
      if (external) agent_status.Update(agent_.CheckNotCrashed());
      if (begin == 0 && ledger_->started()) begin = NowNanos();
      if (begin == 0) return;
      const int64_t now_ms = (NowNanos() - begin) / 1'000'000;
      for (; next < events.size() && events[next].at_ms <= now_ms; ++next) {
        if (!events[next].kill) {
          if (!agent_.Runs()) agent_status.Update(agent_.Start());
        } else if (agent_.Runs()) {
          agent_.Kill();
          ++outcome_.agent_kills;
        }
      }
    };
    const auto result = RunChild(spec, options);
    PULSE_RETURN_IF_ERROR(agent_status);
    if (result.ok() || !absl::IsAborted(result.status())) {
      outcome_.problem = absl::StrCat("under load: ", result.status().message());
      return absl::OkStatus();
    }
    if (ledger_->operations() == operations) {
      outcome_.problem = "no operation was acknowledged in a whole life";
      return absl::OkStatus();
    }
    ++(external ? outcome_.external_kills : outcome_.embedded_kills);
    outcome_.problem = ledger_->problem();
    return absl::OkStatus();
  }

  // Both open the same: stock a copy. They take turns in being first.
  absl::Status Recover(int round, bool external) {
    if (external) PULSE_RETURN_IF_ERROR(StartAgent());
    PULSE_RETURN_IF_ERROR(session_.dir().Remove(kCopyName));
    PULSE_RETURN_IF_ERROR(session_.dir().CloneDb(kRunName, kCopyName));
    Variant stock;
    stock.name = kStockDefault;
    stock.cpus = session_.host_cpus();
    const Variant pulse = Pulse(external);
    struct One {
      const Variant* variant;
      const char* dir;
    };
    std::vector<One> both = {{&stock, kCopyName}, {&pulse, kRunName}};
    if (round % 4 >= 2) std::swap(both[0], both[1]);
    for (const One& one : both) {
      nlohmann::json spec = Spec("crash-open", one.dir);
      spec["variant"] = *one.variant;
      ChildOptions options;
      options.cpus = session_.host_cpus();
      options.timeout_seconds = args_.common.timeout_seconds;
      const auto result = RunChild(spec, options);
      if (!result.ok()) {
        outcome_.problem = absl::StrCat("opening with ", one.variant->name, " after kill ",
                                        round + 1, ": ", result.status().message());
        return absl::OkStatus();
      }
      outcome_.recoveries.Add(one.variant->name, round, *result);
    }
    return session_.dir().Remove(kCopyName);
  }

  absl::Status Check() {
    ChildOptions options;
    options.timeout_seconds = args_.common.timeout_seconds;
    const auto result = RunChild(Spec("crash-check", kRunName), options);
    if (!result.ok()) {
      outcome_.problem = absl::StrCat("reading back: ", result.status().message());
      return absl::OkStatus();
    }
    outcome_.checked += result->at("checked").get<uint64_t>();
    outcome_.wrong += result->at("wrong").get<uint64_t>();
    outcome_.problem = result->at("problem").get<std::string>();
    return absl::OkStatus();
  }

  Session& session_;
  const BenchArgs& args_;
  const int kills_;
  const uint64_t keys_;
  std::mt19937_64 dice_;
  DbShape shape_;
  SoakAgent agent_;
  std::unique_ptr<CrashLedger> ledger_;
  CrashOutcome outcome_;
};

}  // namespace

absl::Status RunCrashBench(BenchArgs args) {
  const auto keys = args.Get<uint64_t>("keys"), value_bytes = args.Get<uint64_t>("value_bytes");
  PULSE_RETURN_IF_ERROR(CheckValueBytes(value_bytes, CrashLedger::kMinValueBytes));
  PULSE_RETURN_IF_ERROR(CheckKeys(keys, args.Get<int>("threads")));
  QuietLostAgents();
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, keys * (value_bytes + kKeyBytes) * 4 +
                                                               (uint64_t{512} << 20)));
  Session& s = *session;
  PULSE_RETURN_IF_ERROR(s.dir().Remove(kAgentLog));
  s.Say(fmt::format(
      "{} hosts killed under {} threads on {} keys of {} B; host on CPU {}, embedded agent on CPU "
      "{}, external agents anywhere; {}, seed {}\n",
      args.Get<int>("kills"), args.Get<int>("threads"), keys, value_bytes, s.args().host_cpus,
      s.args().agent_cpus, s.dir().file_system(), args.common.seed));
  Crash crash(&s, args);
  PULSE_RETURN_IF_ERROR(crash.Run());
  PULSE_RETURN_IF_ERROR(crash.Report());
  if (args.common.keep) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(s.dir().Remove(kLedgerName));
  return s.dir().RemoveAll(kRunName);
}

}  // namespace pulse::bench
