// Figures 3 and 4 of the DSA paper: copies by size and engine; chunks into a sorted list.
#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/graph/counting_sink.h"
#include "bench/macro/graph/engines.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/rmat.h"
#include "fmt/format.h"
#include "services/graph/runs/flush_plan.h"

namespace pulse::bench {
namespace {

absl::StatusOr<CopyCost> CopyOnce(CopyEngine* engine, const graph::CopyPlan& plan) {
  const CostMeter meter;
  graph::PlanExecutor executor(engine);
  executor.Start(plan);
  PULSE_RETURN_IF_ERROR(executor.Wait());
  return meter.Of(plan.bytes());
}

std::string CostText(const CopyCost& cost) { return fmt::format("{:.2f}", cost.gib_per_s); }

std::vector<std::string> EngineHeader(const std::string& first, bool with_cpu = true) {
  std::vector<std::string> header = {first};
  for (const EngineChoice& choice : CopyEngines()) {
    header.push_back(choice.name);
    if (with_cpu) header.emplace_back("CPU*");
    if (with_cpu) header.emplace_back("all");
  }
  return header;
}

void AddCost(const CopyCost& cost, std::vector<std::string>* cells) {
  cells->push_back(CostText(cost));
  cells->push_back(fmt::format("{:.3f}", cost.caller_cpu_s_per_gib));
  cells->push_back(fmt::format("{:.3f}", cost.all_cpu_s_per_gib));
}

// Chunks of one direction, as many as these relationships need.
class Chunks {
 public:
  Chunks(std::span<const RmatEdge> edges, uint64_t seed) {
    std::mt19937_64 random(seed);
    graph::EdgeId id = 0;
    for (const RmatEdge& edge : edges) {
      const graph::Record record{edge.target, id, graph::MakeStamp(1), graph::kNoRecord, 1};
      if (chunks_.empty() || !chunks_.back().Append(edge.source, record)) {
        AddChunk();
        chunks_.back().Append(edge.source, record);
      }
      ++id;
    }
  }
  std::span<const graph::Chunk> all() const { return chunks_; }

 private:
  void AddChunk() {
    auto& memory = memory_.emplace_back(graph::Chunk::Bytes() + 64);
    char* at = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    chunks_.push_back(graph::Chunk::Format(at, graph::Side::kOut));
  }
  std::vector<std::vector<char>> memory_;
  std::vector<graph::Chunk> chunks_;
};

absl::Status Encode(const graph::FlushPlan& plan, const graph::Record* sorted, uint64_t* bytes) {
  CountingSink sink;
  graph::RunOptions options;
  options.horizon = graph::kMaxSequence;
  PULSE_ASSIGN_OR_RETURN(const auto builder, graph::RunBuilder::Create(options, &sink));
  PULSE_RETURN_IF_ERROR(graph::AddSorted(plan, sorted, nullptr, builder.get()));
  PULSE_RETURN_IF_ERROR(builder->Finish().status());
  *bytes = sink.bytes();
  return absl::OkStatus();
}

}  // namespace

absl::Status RunCopyPart(GraphBench* bench) {
  const uint64_t most = bench->most_bytes;
  std::vector<uint64_t> sizes;
  for (uint64_t size = 1024; size <= std::min<uint64_t>(most, 64 << 20); size *= 8) {
    sizes.push_back(size);
  }
  const std::vector<char> source(most, 'x');
  std::vector<char> destination(most, 'y');  // touched, so that no page fault is measured
  TextTable table(EngineHeader("piece"));
  nlohmann::json rows = nlohmann::json::array();
  {
    Progress progress(static_cast<int>(sizes.size()));
    for (const uint64_t size : sizes) {
      progress.Begin(FormatBytes(size));
      // In random order, so that pieces are not joined.
      std::vector<uint64_t> order(most / size);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937_64(bench->seed));
      graph::CopyPlan plan;
      for (const uint64_t at : order) {
        plan.Add(&source[at * size], &destination[at * size], size);
      }
      // In turns, so that what drifts favours nobody.
      std::vector<std::vector<CopyCost>> costs(CopyEngines().size());
      for (int round = 0; round <= bench->rounds; ++round) {
        for (size_t e = 0; e < costs.size(); ++e) {
          PULSE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(CopyEngines()[e]));
          PULSE_ASSIGN_OR_RETURN(const CopyCost cost, CopyOnce(engine.get(), plan));
          if (round > 0) costs[e].push_back(cost);
          progress.Tick();
        }
      }
      std::vector<std::string> cells = {FormatBytes(size)};
      for (size_t e = 0; e < costs.size(); ++e) {
        const CopyCost cost = MedianCost(costs[e]);
        AddCost(cost, &cells);
        double& best = bench->here["copy/" + CopyEngines()[e].name];
        best = std::max(best, cost.gib_per_s);
        nlohmann::json row = ToJson(costs[e]);
        row.update({{"piece", size}, {"engine", CopyEngines()[e].name}, {"bytes", plan.bytes()}});
        rows.push_back(std::move(row));
      }
      table.AddRow(std::move(cells));
      progress.End("done");
    }
  }
  const CopyCost plain = MeasureMemcpy(most, bench->rounds);
  fmt::print(
      "\nFigure 3: copies of {} by size of pieces, GiB/s, in DRAM. * CPU seconds of the caller "
      "for\n"
      "a GiB, then of all threads. Copies of 4 MiB by memcpy into one buffer: {:.2f} GiB/s\n{}",
      FormatBytes(most), plain.gib_per_s, table.Render());
  bench->report["copy"] = {{"rows", std::move(rows)},
                           {"bytes", most},
                           {"memcpy_gib_per_s", plain.gib_per_s},
                           {"memcpy_cpu_s_per_gib", plain.all_cpu_s_per_gib}};
  return absl::OkStatus();
}

absl::Status RunFlushPart(GraphBench* bench) {
  std::vector<uint64_t> sizes = {1000, 10'000, 30'000, 90'000, 300'000, 1'000'000};
  std::erase_if(sizes, [&](uint64_t n) { return n * sizeof(graph::Record) > bench->most_bytes; });
  if (bench->tiny) sizes = {1000, 40'000};
  TextTable table({"records", "order, ms", "inline, ms", "threads-1, ms", "threads-2, ms",
                   "encode, ms", "M records/s", "CPU s/GiB"});
  nlohmann::json rows = nlohmann::json::array();
  {
    Progress progress(static_cast<int>(sizes.size()));
    for (const uint64_t size : sizes) {
      progress.Begin(fmt::format("{} records", size));
      const Chunks chunks(MakeRmat({.scale = 17, .edges = size, .seed = bench->seed}), bench->seed);
      std::vector<graph::Record> sorted(size);
      std::vector<double> order_s, encode_s, cpu_s;
      std::vector<std::vector<double>> copy_s(CopyEngines().size());
      uint64_t run_bytes = 0;
      for (int round = 0; round <= bench->rounds; ++round) {
        const Stretch whole;
        const graph::FlushPlan plan = graph::PlanFlush(chunks.all(), sorted.data());
        if (plan.records != size) return absl::InternalError("a flush plan has lost records");
        const double order = whole.seconds();
        std::vector<double> copies;
        double cpu = whole.cpu_seconds();
        for (const EngineChoice& choice : CopyEngines()) {
          PULSE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(choice));
          const Stretch copying;
          PULSE_RETURN_IF_ERROR(CopyOnce(engine.get(), plan.copies).status());
          copies.push_back(copying.seconds());
          if (choice.threads == 0) cpu += copying.cpu_seconds();
        }
        const Stretch encoding;
        PULSE_RETURN_IF_ERROR(Encode(plan, sorted.data(), &run_bytes));
        cpu += encoding.cpu_seconds();
        progress.Tick();
        if (round == 0) continue;
        order_s.push_back(order);
        encode_s.push_back(encoding.seconds());
        cpu_s.push_back(cpu);
        for (size_t e = 0; e < copies.size(); ++e) copy_s[e].push_back(copies[e]);
      }
      const auto ms = [](const std::vector<double>& seconds) {
        return fmt::format("{:.3f}", MedianOf(seconds) * 1e3);
      };
      const double all = MedianOf(order_s) + MedianOf(copy_s[0]) + MedianOf(encode_s);
      const double gib = static_cast<double>(size * sizeof(graph::Record)) / kGiB;
      table.AddRow({fmt::format("{}", size), ms(order_s), ms(copy_s[0]), ms(copy_s[1]),
                    ms(copy_s[2]), ms(encode_s),
                    fmt::format("{:.1f}", static_cast<double>(size) / all * 1e-6),
                    fmt::format("{:.2f}", MedianOf(cpu_s) / gib)});
      nlohmann::json row = {{"records", size},
                            {"order_s", MedianOf(order_s)},
                            {"encode_s", MedianOf(encode_s)},
                            {"cpu_s_per_gib", MedianOf(cpu_s) / gib},
                            {"run_bytes", run_bytes}};
      for (size_t e = 0; e < copy_s.size(); ++e) {
        row["copies_s"][CopyEngines()[e].name] = MedianOf(copy_s[e]);
      }
      rows.push_back(std::move(row));
      bench->here["flush/order_ms"] = MedianOf(order_s) * 1e3;
      bench->here["flush/order_share"] = MedianOf(order_s) / all;
      progress.End("done");
    }
  }
  fmt::print(
      "\nFigure 4: chunks of R-MAT into one sorted list, in DRAM: its order, its copies by "
      "engine,\n"
      "and the encoding of the run (which the paper does not have). Rates and CPU, of records of\n"
      "32 B: inline copies\n{}",
      table.Render());
  bench->report["flush"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
