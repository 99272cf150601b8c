// Figure 5 of the DSA paper: compaction, of blocks of 1 to 512 KiB that do not meet, and of R-MAT
// with a tenth of the nodes in several inputs. Figure 7: a column of a sorted run added up by
// threads.
#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/graph/engines.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/merge_agent.h"
#include "bench/macro/graph/rmat.h"
#include "fmt/format.h"
#include "services/graph/runs/merge.h"

namespace pulse::bench {
namespace {

using Run = std::shared_ptr<const graph::RunReader>;
constexpr graph::Token kKey = 3;

// Runs in memory that the agent may map, too.
struct Runs {
  std::vector<Run> readers;
  std::vector<UniqueFd> files;
  uint64_t bytes() const {
    uint64_t all = 0;
    for (const Run& run : readers) all += run->info().bytes;
    return all;
  }
};
absl::Status AddRun(graph::StringSink* sink, Runs* runs) {
  PULSE_ASSIGN_OR_RETURN(SharedRun run, ShareRun(sink->bytes()));
  runs->readers.push_back(std::move(run.reader));
  runs->files.push_back(std::move(run.file));
  return absl::OkStatus();
}

// Four runs of `bytes` together: nodes with blocks of 1 to 512 KiB, each node in one run.
absl::StatusOr<Runs> LargeBlocks(uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  Runs runs;
  std::vector<graph::NodeId> others;
  std::vector<graph::EdgeId> edges;
  for (graph::NodeId part = 0; part < 4; ++part) {
    graph::StringSink sink;
    PULSE_ASSIGN_OR_RETURN(const auto builder, graph::RunBuilder::Create({}, &sink));
    uint64_t written = 0;
    for (graph::NodeId node = part * 64; written < bytes / 4; node += 256) {
      others.clear();
      edges.clear();
      const uint64_t block =
          std::min<uint64_t>(1024 + random() % (511 * 1024), std::max<uint64_t>(bytes / 8, 1024));
      graph::NodeId other = 0;
      for (uint64_t i = 0; i < block / 4; ++i) {  // four bytes each, about
        others.push_back(other += random() % (uint64_t{1} << 32));
        edges.push_back(node * 1'000'000 + i);
      }
      const graph::ListInput list{1, others, edges, {}};
      PULSE_RETURN_IF_ERROR(builder->Add(node, {&list, 1}));
      written += block;
    }
    PULSE_RETURN_IF_ERROR(builder->Finish().status());
    PULSE_RETURN_IF_ERROR(AddRun(&sink, &runs));
  }
  return runs;
}

// Of sorted edges, those that `mine` wants, with a property of 0 to 99.
template <typename Mine>
absl::Status AddRmatRun(const std::vector<RmatEdge>& edges, uint64_t first_id, Mine mine,
                        Runs* runs) {
  graph::StringSink sink;
  PULSE_ASSIGN_OR_RETURN(const auto builder, graph::RunBuilder::Create({}, &sink));
  std::vector<graph::NodeId> others;
  std::vector<graph::EdgeId> ids;
  std::vector<int64_t> values;
  for (size_t i = 0; i < edges.size();) {
    const graph::NodeId node = edges[i].source;
    others.clear();
    ids.clear();
    values.clear();
    for (; i < edges.size() && edges[i].source == node; ++i) {
      others.push_back(edges[i].target);
      ids.push_back(first_id + i);
      values.push_back(static_cast<int64_t>(i * 0x9E3779B97F4A7C15 >> 32) % 100);
    }
    if (!mine(node)) continue;
    const graph::ListInput list{1, others, ids, {}};
    PULSE_RETURN_IF_ERROR(builder->Add(node, {&list, 1}));
    PULSE_RETURN_IF_ERROR(builder->AppendInts(kKey, values));
  }
  PULSE_RETURN_IF_ERROR(builder->Finish().status());
  return AddRun(&sink, runs);
}

struct Merged {
  std::vector<CopyCost> costs;
  graph::MergeStats stats;
  uint64_t bytes = 0;
  std::vector<double> waited_s;
  double share_copied() const {
    const auto copied = static_cast<double>(stats.bytes_copied + stats.column_bytes_copied);
    const auto encoded = static_cast<double>(stats.bytes_encoded + stats.column_bytes_encoded);
    return copied + encoded > 0 ? copied / (copied + encoded) : 0;
  }
};

// The copy engines, and the agent as the last.
std::vector<std::string> MergerNames() {
  std::vector<std::string> names;
  for (const EngineChoice& choice : CopyEngines()) names.push_back(choice.name);
  names.emplace_back("agent");
  return names;
}

// With each engine in turns. All write into the same memory.
absl::StatusOr<std::vector<Merged>> MergeByEngines(const Runs& runs, int rounds,
                                                   MergeAgentProcess* agent, Progress* progress) {
  const size_t engines = CopyEngines().size();
  std::vector<Merged> all(engines + 1);
  PULSE_ASSIGN_OR_RETURN(const auto sink, ArenaSink::Create(runs.bytes() * 5 / 4 + (8 << 20)));
  std::vector<int> files;
  for (const UniqueFd& file : runs.files) files.push_back(file.get());
  graph::MergeOptions options;
  options.bottom = true;
  std::string first;
  for (int round = 0; round <= rounds; ++round) {
    for (size_t e = 0; e < all.size(); ++e) {
      sink->Clear();
      const int64_t agent_cpu = agent->CpuNanos();
      std::unique_ptr<CopyEngine> engine;
      if (e < engines) {
        PULSE_ASSIGN_OR_RETURN(engine, MakeEngine(CopyEngines()[e]));
      }
      const CostMeter meter;
      uint64_t bytes = 0;
      if (e < engines) {
        PULSE_ASSIGN_OR_RETURN(const auto result,
                               graph::MergeRuns(runs.readers, options, engine.get(), sink.get()));
        all[e].stats = result.stats;
        bytes = result.info.bytes;
      } else {
        graph::MergeJob job;
        job.runs = runs.readers;
        job.files = files;
        job.options = options;
        job.sink = sink.get();
        job.output = sink->fd();
        PULSE_ASSIGN_OR_RETURN(all[e].stats, agent->merger()->Merge(job));
        bytes = all[0].bytes;  // compared below
      }
      CopyCost cost = meter.Of(bytes);
      cost.all_cpu_s_per_gib += static_cast<double>(agent->CpuNanos() - agent_cpu) * 1e-9 /
                                (static_cast<double>(bytes) / kGiB);
      progress->Tick();
      all[e].bytes = bytes;
      if (round == 0) {
        std::string made(sink->data(), bytes);
        if (e == 0)
          first = std::move(made);
        else if (made != first) {
          return absl::InternalError("two engines have made different runs");
        }
        continue;
      }
      all[e].costs.push_back(cost);
      all[e].waited_s.push_back(static_cast<double>(all[e].stats.waited_ns) * 1e-9);
    }
    first.clear();
  }
  return all;
}

void AddMerged(const std::string& label, uint64_t bytes, const std::vector<Merged>& merged,
               TextTable* table, nlohmann::json* rows) {
  const std::vector<std::string> names = MergerNames();
  for (size_t e = 0; e < merged.size(); ++e) {
    const Merged& one = merged[e];
    const CopyCost cost = MedianCost(one.costs);
    table->AddRow({e == 0 ? label : "", names[e], fmt::format("{:.2f}", cost.gib_per_s),
                   fmt::format("{:.3f}", cost.caller_cpu_s_per_gib),
                   fmt::format("{:.3f}", cost.all_cpu_s_per_gib),
                   fmt::format("{:.1f}", 100 * one.share_copied()),
                   fmt::format("{:.1f}", 100 - 100 * one.share_copied()),
                   fmt::format("{:.1f}", MedianOf(one.waited_s) * 1e3)});
    nlohmann::json row = ToJson(one.costs);
    row.update({{"input", label},
                {"bytes", bytes},
                {"engine", names[e]},
                {"share_copied", one.share_copied()},
                {"share_encoded", 1 - one.share_copied()},
                {"nodes_copied", one.stats.nodes_copied},
                {"nodes_merged", one.stats.nodes_merged},
                {"engine_bytes", one.stats.copies.engine_bytes},
                {"waited_s", MedianOf(one.waited_s)}});
    rows->push_back(std::move(row));
  }
}

// Adds the column up, segments shared by the threads through a counter.
absl::StatusOr<int64_t> SumByThreads(const graph::RunReader& run, int threads) {
  std::atomic<size_t> next = 0;
  std::vector<absl::StatusOr<int64_t>> sums(static_cast<size_t>(threads), int64_t{0});
  std::vector<std::thread> workers;
  const auto work = [&](absl::StatusOr<int64_t>* sum) {
    std::vector<int64_t> values;
    while (true) {
      const size_t s = next.fetch_add(1, std::memory_order_relaxed);
      if (s >= run.segments()) return;
      const auto segment = run.Segment(kKey, s);
      if (!segment.ok()) {
        *sum = segment.status();
        return;
      }
      values.resize(segment->count());
      segment->ReadInts(0, segment->count(), values.data());
      for (const int64_t value : values) **sum += value;
    }
  };
  for (int i = 1; i < threads; ++i) workers.emplace_back(work, &sums[static_cast<size_t>(i)]);
  work(sums.data());
  for (std::thread& worker : workers) worker.join();
  int64_t all = 0;
  for (const auto& sum : sums) {
    if (!sum.ok()) return sum.status();
    all += *sum;
  }
  return all;
}

}  // namespace

absl::Status RunMergePart(GraphBench* bench) {
  double agent_rate = 0;
  std::vector<uint64_t> sizes;
  for (uint64_t size = uint64_t{256} << 10; size < bench->most_bytes; size *= 8) {
    sizes.push_back(size);
  }
  sizes.push_back(bench->most_bytes);
  TextTable table(
      {"input", "engine", "GiB/s", "CPU*", "all", "copied, %", "encoded, %", "waits, ms"});
  table.AlignLeft(1);
  nlohmann::json rows = nlohmann::json::array();
  const std::vector<int> cpus = MyCpus();
  PULSE_ASSIGN_OR_RETURN(const auto agent,
                         MergeAgentProcess::Start(bench->dir, cpus.size() > 1 ? cpus.back() : -1));
  {
    Progress progress(static_cast<int>(sizes.size()) + 1);
    for (const uint64_t size : sizes) {
      progress.Begin("blocks, " + FormatBytes(size));
      PULSE_ASSIGN_OR_RETURN(const auto runs, LargeBlocks(size, bench->seed));
      PULSE_ASSIGN_OR_RETURN(const auto merged,
                             MergeByEngines(runs, bench->rounds, agent.get(), &progress));
      AddMerged("blocks, " + FormatBytes(size), size, merged, &table, &rows);
      // Of the largest, in the end.
      const CopyCost inlined = MedianCost(merged[0].costs), thread = MedianCost(merged[1].costs);
      bench->here["merge/rate"] = thread.gib_per_s / inlined.gib_per_s;
      bench->here["merge/caller_cpu"] = thread.caller_cpu_s_per_gib / inlined.caller_cpu_s_per_gib;
      const CopyCost by_agent = MedianCost(merged.back().costs);
      bench->here["merge/agent_cpu"] = by_agent.caller_cpu_s_per_gib / inlined.caller_cpu_s_per_gib;
      agent_rate = by_agent.gib_per_s;
      progress.End("done");
    }
    progress.Begin("R-MAT");
    const auto edges =
        SortedRmat({.scale = 17, .edges = bench->tiny ? 20'000u : 2'000'000u, .seed = bench->seed});
    // Groups of 64 nodes in turns; every tenth node in both.
    const auto mine = [](uint64_t phase) {
      return [phase](graph::NodeId node) { return node / 64 % 2 == phase || node % 10 == 0; };
    };
    Runs runs;
    PULSE_RETURN_IF_ERROR(AddRmatRun(edges, edges.size(), mine(0), &runs));
    PULSE_RETURN_IF_ERROR(AddRmatRun(edges, 0, mine(1), &runs));
    PULSE_ASSIGN_OR_RETURN(const auto merged,
                           MergeByEngines(runs, bench->rounds, agent.get(), &progress));
    AddMerged(fmt::format("R-MAT, {} edges, a tenth of the nodes in both", edges.size()),
              merged[0].bytes, merged, &table, &rows);
    progress.End("done");
  }
  const CopyCost plain = MeasureCopyRate(bench->most_bytes, bench->rounds);
  bench->here["merge/agent_rate"] = agent_rate / plain.gib_per_s;
  fmt::print(
      "\nFigure 5: compaction in DRAM, GiB/s of what comes out. * CPU seconds of the caller for a\n"
      "GiB, then of all threads, the agent's too. sim is a stand-in for an accelerator. One "
      "thread\n"
      "copies {:.2f} GiB/s from memory to memory, {:.3f} CPU s/GiB\n{}",
      plain.gib_per_s, plain.all_cpu_s_per_gib, table.Render());
  bench->report["merge"] = {{"rows", std::move(rows)},
                            {"memcpy_gib_per_s", plain.gib_per_s},
                            {"memcpy_cpu_s_per_gib", plain.all_cpu_s_per_gib}};
  return absl::OkStatus();
}

absl::Status RunSumPart(GraphBench* bench) {
  const auto edges =
      SortedRmat({.scale = 18, .edges = bench->tiny ? 50'000u : 8'000'000u, .seed = bench->seed});
  Runs runs;
  PULSE_RETURN_IF_ERROR(AddRmatRun(
      edges, 0, [](graph::NodeId) { return true; }, &runs));
  const Run& run = runs.readers[0];
  TextTable table({"threads", "M edges/s", "least", "most", "speed-up", "CPU s/G edges"});
  nlohmann::json rows = nlohmann::json::array();
  std::vector<std::vector<double>> rates(4), cpu(4);
  int64_t expected = 0;
  for (int round = 0; round <= bench->rounds; ++round) {
    for (int threads = 1; threads <= 4; ++threads) {
      // Some milliseconds each.
      constexpr int kTimes = 8;
      const Stretch stretch;
      for (int i = 0; i < kTimes; ++i) {
        PULSE_ASSIGN_OR_RETURN(const int64_t sum, SumByThreads(*run, threads));
        if (expected == 0) expected = sum;
        if (sum != expected) return absl::InternalError("threads have added up to another sum");
      }
      if (round == 0) continue;
      const auto count = static_cast<double>(edges.size()) * kTimes;
      rates[static_cast<size_t>(threads - 1)].push_back(count / stretch.seconds());
      cpu[static_cast<size_t>(threads - 1)].push_back(stretch.cpu_seconds() / count * 1e9);
    }
  }
  const double one = MedianOf(rates[0]);
  for (size_t t = 0; t < rates.size(); ++t) {
    const double rate = MedianOf(rates[t]);
    const auto [least, most] = std::minmax_element(rates[t].begin(), rates[t].end());
    table.AddRow({fmt::format("{}", t + 1), fmt::format("{:.0f}", rate * 1e-6),
                  fmt::format("{:.0f}", *least * 1e-6), fmt::format("{:.0f}", *most * 1e-6),
                  fmt::format("{:.2f}", rate / one), fmt::format("{:.2f}", MedianOf(cpu[t]))});
    rows.push_back({{"threads", t + 1},
                    {"edges_per_s", rate},
                    {"edges_per_s_least", *least},
                    {"edges_per_s_most", *most},
                    {"speed_up", rate / one},
                    {"cpu_s_per_g_edges", MedianOf(cpu[t])}});
  }
  fmt::print(
      "\nFigure 7: a column of a sorted run of R-MAT, {} edges, added up by threads, in DRAM.\n"
      "{} CPUs are here. A query of Cypher adds such a column up on one thread\n{}",
      edges.size(), std::thread::hardware_concurrency(), table.Render());
  bench->here["sum/2"] = MedianOf(rates[1]) / one;
  bench->here["sum/4"] = MedianOf(rates[3]) / one;
  bench->report["sum"] = {{"rows", std::move(rows)},
                          {"edges", edges.size()},
                          {"cpus", std::thread::hardware_concurrency()}};
  return absl::OkStatus();
}

}  // namespace pulse::bench
