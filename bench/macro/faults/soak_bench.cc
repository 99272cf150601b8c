// `pulse bench soak`: a mixed load for a long time, on an agent that is killed, stopped, slowed and
// restarted all the while; then every key is checked without the plug-in.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/progress.h"
#include "base/clock.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/faults/scan_check.h"
#include "bench/macro/faults/soak_report.h"
#include "bench/macro/report_program.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr int64_t kSoakMilli = 1'000'000;
constexpr int64_t kSoakSecond = 1'000 * kSoakMilli;
// Longer than any wait that the product may have: an operation that takes as long hangs.
constexpr int64_t kHangNanos = 120 * kSoakSecond;
constexpr int64_t kSettleLimit = 900 * kSoakSecond;
constexpr char kDbName[] = "run";
constexpr char kLogName[] = "agent.log";
constexpr char kLedgerOfSoak[] = "ledger";

std::string_view View(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

// Small memtables and files, so that flushes and compactions never rest.
DbShape SoakShape(bool tiny) {
  DbShape shape;
  shape.memtable_bytes = shape.file_bytes = uint64_t{tiny ? 256u : 2048u} << 10;
  shape.level1_bytes = 4 * shape.file_bytes;
  return shape;
}

// Queues are small unless --uri says otherwise: a full one belongs to the load, and how many there
// are at a time must not hide a trend of the memory.
std::string UriOptions(const BenchArgs& args) {
  const std::string& given = args.common.uri_options;
  std::string options = absl::StrCat("agent_deadline=", args.Get<int64_t>("agent_deadline_ms"));
  for (const char* small : {"queue=4M", "fetch_memory=8M"}) {
    const std::string name(small, std::strchr(small, '=') + 1);
    if (!absl::StrContains("&" + given, "&" + name)) absl::StrAppend(&options, "&", small);
  }
  if (!given.empty()) absl::StrAppend(&options, "&", given);
  return options;
}

class Soak {
 public:
  Soak(Session* session, const BenchArgs& args)
      : session_(*session),
        args_(args),
        values_(args.Get<size_t>("value_bytes"), args.common.seed),
        agent_(session->dir().Sub("agent.sock"), session->dir().Sub(kLogName)) {}

  // An error means that the soak could not be held; what it found is in the outcome.
  absl::Status Run() {
    PULSE_RETURN_IF_ERROR(Open());
    PULSE_RETURN_IF_ERROR(Load());
    PULSE_RETURN_IF_ERROR(InjectFaults());
    PULSE_RETURN_IF_ERROR(CloseDb());
    return CheckOnStock();
  }

  absl::Status Report() {
    outcome_.trends = JudgeTrends(samples_);
    for (const NamedTrend& t : outcome_.trends) {
      if (t.trend.grows) Note(absl::StrCat(t.name, " grows"));
    }
    outcome_.speeds = SpeedsOf(samples_);
    for (const SoakSample& s : samples_) {
      outcome_.worst_write_ms = std::max(outcome_.worst_write_ms, s.worst_write_ms);
    }
    session_.report()["result"] = ToJson(outcome_);
    session_.Say("\n" + Render(session_.report()["result"]) + "\n");
    session_.report()["samples"] = samples_;
    nlohmann::json& events = session_.report()["events"] = nlohmann::json::array();
    for (const AgentFaultEvent& e : events_) {
      nlohmann::json event = {{"kind", AgentFaultName(e.kind)},
                              {"begin_s", static_cast<double>(e.begin - start_) / 1e9}};
      if (e.end != 0) event["end_s"] = static_cast<double>(e.end - start_) / 1e9;
      events.push_back(std::move(event));
    }
    PULSE_RETURN_IF_ERROR(session_.WriteReport());
    const auto svg = args_.Get<std::string>("svg");
    PULSE_RETURN_IF_ERROR(
        WriteResultChart(session_.json_file(), svg.empty() ? session_.dir().Sub("soak.svg") : svg));
    if (Passed(outcome_)) return absl::OkStatus();
    return absl::DataLossError(fmt::format("the soak failed; repeat with --seed {}{}",
                                           args_.common.seed, args_.common.tiny ? " --tiny" : ""));
  }

 private:
  void Note(std::string problem) { outcome_.problems.push_back(std::move(problem)); }

  absl::Status Open() {
    auto ledger =
        CrashLedger::Create(session_.dir().Sub(kLedgerOfSoak), args_.Get<uint64_t>("keys"));
    if (!ledger.ok()) return ledger.status();
    ledger_ = *std::move(ledger);
    PULSE_RETURN_IF_ERROR(agent_.Start());
    PULSE_RETURN_IF_ERROR(agent_.WaitReady());
    PulseTarget target;
    target.agent_socket = agent_.socket();
    target.extra = UriOptions(args_);
    auto db = BenchDb::Open(session_.dir().Sub(kDbName), PulseVariant(target, {}),
                            SoakShape(args_.common.tiny));
    if (!db.ok()) return db.status();
    db_ = *std::move(db);
    const SoakLoad::Plan plan{args_.Get<int>("threads"), args_.Get<size_t>("value_bytes"),
                              args_.common.seed, /*round=*/0};
    load_ = std::make_unique<SoakLoad>(db_->db(), ledger_.get(), plan);
    return absl::OkStatus();
  }

  // Runs `work` in another thread and shows that it goes on. What does not end within the limit
  // cannot be waited for in any way: the report is written, and the process ends.
  absl::Status Bounded(const std::string& what, int64_t limit,
                       const std::function<absl::Status()>& work) {
    auto done = std::async(std::launch::async, work);
    const int64_t begin = NowNanos();
    while (done.wait_for(std::chrono::seconds(5)) != std::future_status::ready) {
      const int64_t took = NowNanos() - begin;
      if (took > limit)
        GiveUp(fmt::format("{} hangs: no end after {} s", what, limit / kSoakSecond));
      fmt::print(stderr, "{}: {} s\n", what, took / kSoakSecond);
    }
    return done.get();
  }

  [[noreturn]] void GiveUp(const std::string& problem) {
    Note(problem);
    Gather();
    Finish(Report());
    agent_.Signal(SIGKILL);
    std::fflush(nullptr);
    _exit(1);
  }

  // What the load and the file system have counted so far.
  void Gather() {
    if (gathered_) return;
    gathered_ = true;
    if (load_ != nullptr) {
      outcome_.figures = load_->figures();
      const auto problems = load_->problems();
      outcome_.problems.insert(outcome_.problems.end(), problems.begin(), problems.end());
    }
    if (sampler_ != nullptr) samples_ = sampler_->samples();
    if (injector_ != nullptr) {
      events_ = injector_->events();
      for (size_t i = 0; i < kAgentFaults; ++i) {
        outcome_.faults[i] = injector_->Count(static_cast<AgentFault>(i));
      }
      const auto& problems = injector_->problems();
      outcome_.problems.insert(outcome_.problems.end(), problems.begin(), problems.end());
    }
    if (db_ != nullptr) GetStats(FileSystem(), &outcome_.stats);
  }

  const rocksdb::FileSystem* FileSystem() const { return db_->db()->GetFileSystem(); }

  absl::Status Load() {
    load_->Start();
    const int64_t begin = NowNanos();
    int64_t said = begin;
    while (!load_->loaded() && !load_->hopeless()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (load_->OldestNanos() > kHangNanos) GiveUp("an operation hangs while loading");
      if (NowNanos() - said < 5 * kSoakSecond) continue;
      said = NowNanos();
      fmt::print(stderr, "loading: {} of {} keys\n", load_->figures().total(), ledger_->keys());
    }
    return absl::OkStatus();
  }

  absl::Status InjectFaults() {
    start_ = NowNanos();
    const int64_t end = start_ + static_cast<int64_t>(args_.Get<double>("minutes") * 60e9);
    const auto every = static_cast<int64_t>((args_.common.tiny ? 0.2 : 1.0) * 1e9);
    FaultInjector::Plan plan;
    plan.seed = args_.common.seed;
    plan.deadline_nanos = args_.Get<int64_t>("agent_deadline_ms") * kSoakMilli;
    plan.mean_gap_nanos = static_cast<int64_t>(args_.Get<double>("mean_gap_s") * 1e9);
    for (const std::string& name : args_.Get<std::vector<std::string>>("events")) {
      PULSE_ASSIGN_OR_RETURN(const auto kind, ParseAgentFault(name));
      plan.allowed.push_back(kind);
    }
    injector_ = std::make_unique<FaultInjector>(&agent_, plan);
    sampler_ = std::make_unique<SoakSampler>(start_, FileSystem(), &agent_, load_.get());

    int64_t sample_at = start_ + every;
    int64_t say_at = start_ + 5 * kSoakSecond;
    bool disturbed = false;
    for (int64_t now = start_; now < end && !load_->hopeless(); now = NowNanos()) {
      PULSE_ASSIGN_OR_RETURN(const auto next, injector_->Tick(now));
      disturbed = disturbed || injector_->at_work();
      if (now >= sample_at) {
        sampler_->Take(now, disturbed);
        disturbed = injector_->at_work();
        sample_at += every * std::max<int64_t>(1, (now - sample_at) / every + 1);
        if (load_->OldestNanos() > kHangNanos) {
          GiveUp(fmt::format("an operation hangs: no end after {} s", kHangNanos / kSoakSecond));
        }
      }
      if (now >= say_at) {
        say_at += 5 * kSoakSecond;
        Say(now, end);
      }
      const int64_t wake = std::min({next, sample_at, end});
      std::this_thread::sleep_for(
          std::chrono::nanoseconds(std::clamp<int64_t>(wake - NowNanos(), 0, 100 * kSoakMilli)));
    }
    outcome_.seconds = static_cast<double>(NowNanos() - start_) / 1e9;
    return absl::OkStatus();
  }

  void Say(int64_t now, int64_t end) const {
    const Stats stats = sampler_->stats();
    const SoakLoad::Figures f = load_->figures();
    const double ops = sampler_->samples().empty() ? 0 : sampler_->samples().back().ops_per_s;
    fmt::print(stderr,
               "{}: {:.0f} ops/s, {} events, {} failovers, {} reconnects, {} failed, {} wrong; "
               "{} left\n",
               FormatDuration(static_cast<double>(now - start_) / 1e9), ops,
               injector_->events().size(), stats.failovers, stats.reconnects, f.failed, f.wrong,
               FormatDuration(static_cast<double>(end - now) / 1e9));
  }

  // The agent is let alone from here on; its pending compactions come to their end.
  absl::Status CloseDb() {
    PULSE_RETURN_IF_ERROR(injector_->Finish());
    PULSE_RETURN_IF_ERROR(Bounded("ending the load", kHangNanos, [this] {
      load_->Stop();
      return absl::OkStatus();
    }));
    // A database in its error state never settles.
    if (!load_->hopeless()) {
      PULSE_RETURN_IF_ERROR(Bounded("waiting for compactions", kSettleLimit, [this] {
        db_->WaitUntilSettled();
        return absl::OkStatus();
      }));
    }
    // Once settled, the agent is still there unless something ended it.
    if (!agent_.Runs()) Note("the agent ended while compactions came to their end");
    CheckQueuesAreEmpty();
    Gather();
    const absl::Status closed =
        Bounded("closing the database", kHangNanos, [this] { return db_->Close(); });
    if (!closed.ok()) Note(std::string(closed.message()));
    load_.reset();
    sampler_.reset();
    return Bounded("leaving the file system", kHangNanos, [this] {
      db_.reset();
      return absl::OkStatus();
    });
  }

  // At rest no output has a queue, and nothing waits in one: what is left would be a leak.
  void CheckQueuesAreEmpty() {
    Stats stats = {};
    const int64_t limit = NowNanos() + 5 * kSoakSecond;
    do {
      GetStats(FileSystem(), &stats);
      if (stats.streams + stats.queued_bytes + stats.queued_requests == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (NowNanos() < limit && !load_->hopeless());
    Note(fmt::format("at rest {} streams are taken, with {} bytes and {} requests", stats.streams,
                     stats.queued_bytes, stats.queued_requests));
  }

  absl::Status CheckOnStock() {
    agent_.Signal(SIGKILL);
    agent_.WaitForEnd();
    Variant stock;
    stock.name = kStockDefault;
    auto db = BenchDb::Open(session_.dir().Sub(kDbName), stock, SoakShape(args_.common.tiny));
    if (!db.ok()) {
      Note(std::string(db.status().message()));
      return absl::OkStatus();
    }
    return Bounded("checking on stock RocksDB", kSettleLimit, [&] {
      ReadBack(db->get());
      (*db)->WaitUntilSettled();
      const absl::Status closed = (*db)->Close();
      if (!closed.ok()) Note(std::string(closed.message()));
      LookForLeftOvers();
      return absl::OkStatus();
    });
  }

  void ReadBack(BenchDb* db) {
    const rocksdb::Status sums = db->db()->VerifyChecksum();
    if (!sums.ok()) Note("VerifyChecksum: " + sums.ToString());
    ScanCheck check(ledger_.get(), &values_, 0);
    const std::unique_ptr<rocksdb::Iterator> it(db->db()->NewIterator(rocksdb::ReadOptions()));
    for (it->SeekToFirst(); it->Valid(); it->Next()) check.See(View(it->key()), View(it->value()));
    const rocksdb::Status scan = it->status();
    if (!scan.ok()) Note("reading everything back: " + scan.ToString());
    check.End(ledger_->keys());
    outcome_.keys_checked = check.checked();
    outcome_.keys_wrong = check.wrong();
    outcome_.checked = sums.ok() && scan.ok() && check.checked() == ledger_->keys();
    for (const std::string& problem : check.problems()) Note("at the end: " + problem);
  }

  // A failover that moves a file to another inode must not leave its temporary one behind.
  void LookForLeftOvers() {
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(session_.dir().Sub(kDbName), ec)) {
      if (entry.path().extension() == ".dbtmp") {
        Note("left over: " + entry.path().filename().string());
      }
    }
  }

  Session& session_;
  const BenchArgs& args_;
  const ValueMaker values_;
  SoakAgent agent_;
  std::unique_ptr<CrashLedger> ledger_;
  std::unique_ptr<BenchDb> db_;
  std::unique_ptr<SoakLoad> load_;
  std::unique_ptr<FaultInjector> injector_;
  std::unique_ptr<SoakSampler> sampler_;
  int64_t start_ = 0;
  std::vector<SoakSample> samples_;
  std::vector<AgentFaultEvent> events_;
  SoakOutcome outcome_;
  bool gathered_ = false;
};

}  // namespace

absl::Status RunSoakBench(BenchArgs args) {
  const auto keys = args.Get<uint64_t>("keys"), value_bytes = args.Get<uint64_t>("value_bytes");
  PULSE_RETURN_IF_ERROR(CheckValueBytes(value_bytes, CrashLedger::kMinValueBytes));
  PULSE_RETURN_IF_ERROR(CheckKeys(keys, args.Get<int>("threads")));
  QuietLostAgents();
  // The data, its compactions' copies, and the logs.
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, keys * (value_bytes + kKeyBytes) * 4 +
                                                               (uint64_t{256} << 20)));
  Session& s = *session;
  PULSE_RETURN_IF_ERROR(s.dir().Remove(kLogName));
  s.report()["settings"]["uri_options"] = UriOptions(args);
  s.Say(fmt::format(
      "Soak of {}: {} threads on {} keys with values of {} B; agent_deadline {} ms; events {}, "
      "every {:g} s on average; seed {}.\n",
      FormatDuration(args.Get<double>("minutes") * 60), args.Get<int>("threads"), keys, value_bytes,
      args.Get<int64_t>("agent_deadline_ms"),
      absl::StrJoin(args.Get<std::vector<std::string>>("events"), ", "),
      args.Get<double>("mean_gap_s"), args.common.seed));
  Soak soak(&s, args);
  PULSE_RETURN_IF_ERROR(soak.Run());
  const absl::Status verdict = soak.Report();
  // What went wrong is kept for inspection.
  if (!verdict.ok() || args.common.keep) return verdict;
  return RemoveUnlessKept(s, {kDbName, kLedgerOfSoak});
}

}  // namespace pulse::bench
