// Figures 3 and 4 of the DSA paper: copies by size and engine; chunks into a sorted list.
#include <sched.h>

#include <algorithm>
#include <ctime>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

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

// Figure 3 has more of them than the others.
std::vector<EngineChoice> CopyChoices() {
  std::vector<EngineChoice> choices = CopyEngines();
  choices.push_back({"threads-4", 4});
  choices.push_back({"2 sims (stand-ins)", 0, true, false, 2});
  return choices;
}

// Pieces go to the engines in turn.
absl::StatusOr<CopyCost> CopyByChoice(const EngineChoice& choice, const graph::CopyPlan& plan) {
  std::vector<std::unique_ptr<CopyEngine>> engines(static_cast<size_t>(choice.engines));
  for (auto& engine : engines) {
    PULSE_ASSIGN_OR_RETURN(engine, MakeEngine(choice));
  }
  if (engines.size() == 1) return CopyOnce(engines[0].get(), plan);
  std::vector<graph::CopyPlan> parts(engines.size());
  for (size_t i = 0; i < plan.pieces().size(); ++i) {
    const graph::CopyPlan::Piece& piece = plan.pieces()[i];
    parts[i % parts.size()].Add(piece.source, piece.destination, piece.length);
  }
  const CostMeter meter;
  std::vector<std::unique_ptr<graph::PlanExecutor>> executors;
  for (size_t i = 0; i < engines.size(); ++i) {
    executors.push_back(std::make_unique<graph::PlanExecutor>(engines[i].get()));
    executors.back()->Start(parts[i]);
  }
  const auto done = [&] {
    bool all = true;
    for (const auto& executor : executors) all = executor->Poll() && all;
    return all;
  };
  // As PlanExecutor::Wait waits.
  constexpr timespec kNap{0, 50'000};
  for (int looks = 0; !done(); ++looks) {
    if (looks < 20) {
      sched_yield();
    } else {
      nanosleep(&kNap, nullptr);
    }
  }
  for (const auto& executor : executors) PULSE_RETURN_IF_ERROR(executor->Wait());
  return meter.Of(plan.bytes());
}

// DRAM, and what stands for a second tier: other memory of the same kind.
struct Places {
  explicit Places(uint64_t bytes) : memory{Both(bytes), Both(bytes)} {}
  struct Both {
    explicit Both(uint64_t bytes) : source(bytes, 'x'), destination(bytes, 'y') {}
    std::vector<char> source, destination;  // touched, so that no page fault is measured
  };
  Both memory[2];
};
constexpr struct {
  const char* name;
  size_t from, to;
} kDirections[] = {
    {"DRAM to DRAM", 0, 0}, {"DRAM to tier", 0, 1}, {"tier to DRAM", 1, 0}, {"tier to tier", 1, 1}};

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
  Places places(most);
  const std::vector<EngineChoice> choices = CopyChoices();
  std::vector<std::string> header = {"piece", "engine"};
  for (const auto& direction : kDirections) header.emplace_back(direction.name);
  header.insert(header.end(), {"CPU*", "all"});
  TextTable table(std::move(header));
  table.AlignLeft(1);
  nlohmann::json rows = nlohmann::json::array();
  {
    Progress progress(static_cast<int>(sizes.size()));
    for (const uint64_t size : sizes) {
      progress.Begin(FormatBytes(size));
      // In random order, so that pieces are not joined.
      std::vector<uint64_t> order(most / size);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937_64(bench->seed));
      std::vector<std::vector<std::string>> cells(choices.size());
      std::vector<CopyCost> in_dram(choices.size());
      for (const auto& direction : kDirections) {
        graph::CopyPlan plan;
        for (const uint64_t at : order) {
          plan.Add(&places.memory[direction.from].source[at * size],
                   &places.memory[direction.to].destination[at * size], size);
        }
        // In turns, so that what drifts favours nobody.
        std::vector<std::vector<CopyCost>> costs(choices.size());
        for (int round = 0; round <= bench->rounds; ++round) {
          for (size_t e = 0; e < costs.size(); ++e) {
            PULSE_ASSIGN_OR_RETURN(const CopyCost cost, CopyByChoice(choices[e], plan));
            if (round > 0) costs[e].push_back(cost);
            progress.Tick();
          }
        }
        for (size_t e = 0; e < costs.size(); ++e) {
          const CopyCost cost = MedianCost(costs[e]);
          cells[e].push_back(fmt::format("{:.2f}", cost.gib_per_s));
          if (&direction == &kDirections[0]) {
            in_dram[e] = cost;
            double& best = bench->here["copy/" + choices[e].name];
            best = std::max(best, cost.gib_per_s);
          }
          nlohmann::json row = ToJson(costs[e]);
          row.update({{"piece", size},
                      {"engine", choices[e].name},
                      {"direction", direction.name},
                      {"bytes", plan.bytes()}});
          rows.push_back(std::move(row));
        }
      }
      for (size_t e = 0; e < choices.size(); ++e) {
        std::vector<std::string> line = {e == 0 ? FormatBytes(size) : "", choices[e].name};
        line.insert(line.end(), cells[e].begin(), cells[e].end());
        line.push_back(fmt::format("{:.3f}", in_dram[e].caller_cpu_s_per_gib));
        line.push_back(fmt::format("{:.3f}", in_dram[e].all_cpu_s_per_gib));
        table.AddRow(std::move(line));
      }
      progress.End("done");
    }
  }
  const CopyCost plain = MeasureMemcpy(most, bench->rounds);
  fmt::print(
      "\nFigure 3: copies of {} by size of pieces, GiB/s. The tier is a stand-in: other memory of "
      "the\n"
      "same DRAM, so directions differ by what only a tier of another kind would show. sim is a\n"
      "stand-in for an engine. * CPU seconds of the caller for a GiB from DRAM to DRAM, then of "
      "all\n"
      "threads. Copies of 4 MiB by memcpy into one buffer: {:.2f} GiB/s\n{}",
      FormatBytes(most), plain.gib_per_s, table.Render());
  bench->report["copy"] = {{"rows", std::move(rows)},
                           {"bytes", most},
                           {"tier", "stand-in: the same DRAM"},
                           {"memcpy_gib_per_s", plain.gib_per_s},
                           {"memcpy_cpu_s_per_gib", plain.all_cpu_s_per_gib}};
  return absl::OkStatus();
}

absl::Status RunFlushPart(GraphBench* bench) {
  std::vector<uint64_t> sizes = {1000, 10'000, 30'000, 90'000, 300'000, 1'000'000};
  std::erase_if(sizes, [&](uint64_t n) { return n * sizeof(graph::Record) > bench->most_bytes; });
  if (bench->tiny) sizes = {1000, 40'000};
  std::vector<std::string> header = {"records", "order, ms"};
  for (const char* place : {"", " to tier"}) {
    for (const EngineChoice& choice : CopyEngines()) header.push_back(choice.name + place);
  }
  header.insert(header.end(), {"encode, ms", "M records/s", "CPU s/GiB"});
  TextTable table(std::move(header));
  nlohmann::json rows = nlohmann::json::array();
  {
    Progress progress(static_cast<int>(sizes.size()));
    for (const uint64_t size : sizes) {
      progress.Begin(fmt::format("{} records", size));
      const Chunks chunks(MakeRmat({.scale = 17, .edges = size, .seed = bench->seed}), bench->seed);
      std::vector<graph::Record> sorted(size), tier(size);
      std::vector<double> order_s, encode_s, cpu_s;
      // By engine: to DRAM, then to the tier.
      const size_t engines = CopyEngines().size();
      std::vector<std::vector<double>> copy_s(2 * engines);
      uint64_t run_bytes = 0;
      for (int round = 0; round <= bench->rounds; ++round) {
        const Stretch whole;
        const graph::FlushPlan plan = graph::PlanFlush(chunks.all(), sorted.data());
        if (plan.records != size) return absl::InternalError("a flush plan has lost records");
        const double order = whole.seconds();
        std::vector<double> copies;
        double cpu = whole.cpu_seconds();
        const graph::FlushPlan to_tier = graph::PlanFlush(chunks.all(), tier.data());
        for (const graph::FlushPlan* to : {&plan, &to_tier}) {
          for (const EngineChoice& choice : CopyEngines()) {
            PULSE_ASSIGN_OR_RETURN(const auto engine, MakeEngine(choice));
            const Stretch copying;
            PULSE_RETURN_IF_ERROR(CopyOnce(engine.get(), to->copies).status());
            copies.push_back(copying.seconds());
            if (copies.size() == 1) cpu += copying.cpu_seconds();  // inline, to DRAM
          }
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
      std::vector<std::string> cells = {fmt::format("{}", size), ms(order_s)};
      for (const std::vector<double>& seconds : copy_s) cells.push_back(ms(seconds));
      cells.push_back(ms(encode_s));
      cells.push_back(fmt::format("{:.1f}", static_cast<double>(size) / all * 1e-6));
      cells.push_back(fmt::format("{:.2f}", MedianOf(cpu_s) / gib));
      table.AddRow(std::move(cells));
      nlohmann::json row = {{"records", size},
                            {"order_s", MedianOf(order_s)},
                            {"encode_s", MedianOf(encode_s)},
                            {"cpu_s_per_gib", MedianOf(cpu_s) / gib},
                            {"run_bytes", run_bytes}};
      for (size_t e = 0; e < copy_s.size(); ++e) {
        row[e < engines ? "copies_s" : "copies_tier_s"][CopyEngines()[e % engines].name] =
            MedianOf(copy_s[e]);
      }
      rows.push_back(std::move(row));
      bench->here["flush/order_ms"] = MedianOf(order_s) * 1e3;
      bench->here["flush/order_share"] = MedianOf(order_s) / all;
      progress.End("done");
    }
  }
  fmt::print(
      "\nFigure 4: chunks of R-MAT into one sorted list in DRAM: its order, its copies by engine, "
      "ms,\n"
      "and the encoding of the run (which the paper does not have). The tier (\"hybrid\") and sim "
      "are\n"
      "stand-ins, as in Figure 3. Rates and CPU, of records of 32 B: inline copies to DRAM\n{}",
      table.Render());
  bench->report["flush"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
