// What compactions cost transactions beside them: GTPC's on CPU 0, while the store compacts all of
// its relationships five times a second: by its own thread and threads on CPU 0, by a thread on CPU
// 1, by an agent on CPU 1. Section III-B of the DSA paper: what an engine frees is the processor.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/gtpc_clients.h"
#include "bench/macro/graph/gtpc_database.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "bench/macro/graph/merge_agent.h"
#include "fmt/format.h"
#include "services/graph/engines/engine_set.h"

namespace pulse::bench {
namespace {

using graph::engines::EngineKind;
using graph::engines::EngineSet;
using graph::engines::EngineSetOptions;

// One store, several engines: which one is in use is set between measurements.
class SwitchedEngines : public graph::EngineSource {
 public:
  void Use(graph::EngineSource* engines) {
    const std::lock_guard lock(mu_);
    now_ = engines;
  }
  absl::StatusOr<graph::EngineChoice> Choose(const graph::EngineWork& work) override {
    return Now()->Choose(work);
  }
  void Report(const graph::EngineWork& work, const graph::EngineOutcome& outcome) override {
    Now()->Report(work, outcome);
  }

 private:
  graph::EngineSource* Now() {
    const std::lock_guard lock(mu_);
    return now_;
  }
  std::mutex mu_;
  graph::EngineSource* now_ = graph::InlineEngines();
};

struct Variant {
  std::string name, key;
  std::unique_ptr<EngineSet> engines;  // null: no compactions
  std::vector<double> p50_s, p99_s, rate, compactions;
  uint64_t transactions = 0;
};

absl::StatusOr<Variant> MakeVariant(const std::string& name, const std::string& key,
                                    EngineSetOptions options) {
  Variant variant;
  variant.name = name;
  variant.key = key;
  PULSE_ASSIGN_OR_RETURN(variant.engines, EngineSet::Open(std::move(options)));
  return variant;
}

// Compacts so many times a second, as the same work beside the transactions, whoever does it: on
// the CPU of who makes it, until it is destroyed.
class Compactor {
 public:
  static constexpr int64_t kPeriodNanos = 200'000'000;
  explicit Compactor(graph::GraphStore* store) : thread_([this, store] { Run(store); }) {}
  ~Compactor() { Stop().IgnoreError(); }
  absl::Status Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  uint64_t done() const { return done_; }

 private:
  void Run(graph::GraphStore* store) {
    for (int64_t next = NowNanos(); !stop_ && status_.ok(); next += kPeriodNanos) {
      const int64_t early = next - NowNanos();
      if (early > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(early));
      status_ = store->Compact();
      ++done_;
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> done_{0};
  absl::Status status_;
  std::thread thread_;  // last
};

// The five transactions in turn, for so many seconds.
absl::Status MeasureVariant(Variant* variant, double seconds, bool keep, GtpcDatabase* database,
                            SwitchedEngines* engines, GtpcClients* clients) {
  std::unique_ptr<Compactor> compactor;
  if (variant->engines != nullptr) {
    engines->Use(variant->engines.get());
    compactor = std::make_unique<Compactor>(database->store());
  }
  std::vector<double> latencies;
  const Stretch all;
  for (size_t i = 0; all.seconds() < seconds; ++i) {
    const cypher::ValueMap parameters = clients->Next();
    const Stretch one;
    PULSE_RETURN_IF_ERROR(
        RunGtpcTransaction(GtpcOltp()[i % GtpcOltp().size()], parameters, database->service()));
    latencies.push_back(one.seconds());
  }
  const double took = all.seconds();
  const uint64_t done = compactor != nullptr ? compactor->done() : 0;
  if (compactor != nullptr) PULSE_RETURN_IF_ERROR(compactor->Stop());
  engines->Use(graph::InlineEngines());
  if (!keep) return absl::OkStatus();
  variant->transactions += latencies.size();
  variant->p50_s.push_back(Percentile(latencies, 0.5));
  variant->p99_s.push_back(Percentile(latencies, 0.99));
  variant->rate.push_back(static_cast<double>(latencies.size()) / took);
  variant->compactions.push_back(static_cast<double>(done) / took);
  return absl::OkStatus();
}

// By round: what drifts is in both.
std::vector<double> Ratios(const Variant& a, const Variant& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.p99_s.size(); ++i) ratios.push_back(a.p99_s[i] / b.p99_s[i]);
  return ratios;
}

// This thread, and those that it starts, on one CPU, and everywhere again.
class OnCpu {
 public:
  explicit OnCpu(int cpu) : before_(MyCpus()) { SetThreadAffinity({cpu}).IgnoreError(); }
  ~OnCpu() { SetThreadAffinity(before_).IgnoreError(); }

 private:
  const std::vector<int> before_;
};

}  // namespace

absl::Status RunBesidePart(GraphBench* bench) {
  const std::vector<int> cpus = MyCpus();
  if (cpus.size() < 2) {
    fmt::print("\nTransactions beside compactions: not measured, it takes two CPUs\n");
    return absl::OkStatus();
  }
  const int first = cpus[0], second = cpus[1];
  PULSE_ASSIGN_OR_RETURN(const auto agent, MergeAgentProcess::Start(bench->dir, second));
  std::vector<Variant> variants;
  variants.emplace_back();
  variants[0].name = "no compaction";
  variants[0].key = "none";
  EngineSetOptions options;
  options.kind = EngineKind::kThreads;
  options.cpus = absl::StrCat(first);
  PULSE_ASSIGN_OR_RETURN(
      variants.emplace_back(),
      MakeVariant(absl::StrCat("threads on CPU ", first), "threads_same", options));
  options.kind = EngineKind::kAgent;  // a thread of this process
  options.cpus = absl::StrCat(second);
  PULSE_ASSIGN_OR_RETURN(
      variants.emplace_back(),
      MakeVariant(absl::StrCat("a thread on CPU ", second), "thread_other", options));
  options.cpus.clear();
  options.agent_socket = agent->socket();
  PULSE_ASSIGN_OR_RETURN(
      variants.emplace_back(),
      MakeVariant(absl::StrCat("the agent on CPU ", second), "agent_other", options));

  const GtpcData data({.warehouses = 1, .tiny = bench->tiny, .seed = bench->seed});
  const std::string csv = bench->dir + "/beside-csv", path = bench->dir + "/beside";
  std::error_code ec;
  for (const std::string& directory : {csv, path}) {
    std::filesystem::remove_all(directory, ec);
    PULSE_RETURN_IF_ERROR(MakeDirectory(directory));
  }
  SwitchedEngines engines;
  const double seconds = bench->tiny ? 0.2 : 3;
  const int rounds = std::max(1, bench->rounds);
  {
    Progress progress(2);
    progress.Begin("loading");
    GtpcDatabase::MakeOptions make;
    make.store.sync = false;  // the processor is measured, not the device
    make.store.engines = &engines;
    make.store.background = false;  // flushes and compactions are those that are asked for
    PULSE_ASSIGN_OR_RETURN(
        const auto database,
        GtpcDatabase::Make(data, csv, path, make,
                           [&](const std::string&, uint64_t, uint64_t) { progress.Tick(); }));
    PULSE_RETURN_IF_ERROR(database->CreateIndexes());
    progress.End("done");
    progress.Begin("transactions");
    GtpcClients clients(data, bench->seed);
    const OnCpu pinned(first);
    for (int round = 0; round <= rounds; ++round) {
      for (size_t turn = 0; turn < variants.size(); ++turn) {
        Variant& variant = variants[(turn + static_cast<size_t>(round)) % variants.size()];
        PULSE_RETURN_IF_ERROR(MeasureVariant(&variant, round == 0 ? seconds / 3 : seconds,
                                             round > 0, database.get(), &engines, &clients));
        progress.Tick();
      }
    }
    progress.End("done");
  }
  if (!bench->keep) {
    std::filesystem::remove_all(csv, ec);
    std::filesystem::remove_all(path, ec);
  }
  TextTable table({"compactions by", "p50, us", "p99, us", "least", "most", "transactions/s",
                   "compactions/s", "fell back"});
  nlohmann::json rows = nlohmann::json::array();
  for (const Variant& v : variants) {
    const auto [least, most] = std::minmax_element(v.p99_s.begin(), v.p99_s.end());
    uint64_t fell_back = 0;
    if (v.engines != nullptr) {
      for (const auto& [name, use] : v.engines->uses()) fell_back += use.fell_back;
    }
    table.AddRow({v.name, fmt::format("{:.0f}", MedianOf(v.p50_s) * 1e6),
                  fmt::format("{:.0f}", MedianOf(v.p99_s) * 1e6),
                  fmt::format("{:.0f}", *least * 1e6), fmt::format("{:.0f}", *most * 1e6),
                  fmt::format("{:.0f}", MedianOf(v.rate)),
                  fmt::format("{:.1f}", MedianOf(v.compactions)), fmt::format("{}", fell_back)});
    rows.push_back({{"compactions_by", v.name},
                    {"key", v.key},
                    {"p50_s", MedianOf(v.p50_s)},
                    {"p99_s", MedianOf(v.p99_s)},
                    {"p99_s_all", v.p99_s},
                    {"transactions_per_s", MedianOf(v.rate)},
                    {"transactions", v.transactions},
                    {"compactions_per_s", MedianOf(v.compactions)},
                    {"fell_back", fell_back}});
  }
  const std::vector<double> same = Ratios(variants[3], variants[1]);
  const std::vector<double> other = Ratios(variants[3], variants[2]);
  bench->here["beside/same"] = MedianOf(same);
  bench->here["beside/other"] = MedianOf(other);
  fmt::print(
      "\nGTPC's transactions by one client on CPU {}, a warehouse, without sync, while the store\n"
      "compacts all relationships five times a second; flushes are on CPU {}. p99 with the agent "
      "by\n"
      "that with threads on CPU {}: {:.2f}; by that with a thread on CPU {}: {:.2f} (medians of\n"
      "ratios within a round)\n{}",
      first, first, first, MedianOf(same), second, MedianOf(other), table.Render());
  bench->report["beside"] = {{"rows", std::move(rows)},
                             {"p99_agent_by_threads_same", MedianOf(same)},
                             {"p99_agent_by_thread_other", MedianOf(other)}};
  return absl::OkStatus();
}

}  // namespace pulse::bench
