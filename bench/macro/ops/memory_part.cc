// Figures 8 and 15: what moving data between host and agent gets out of memory, and what that, and
// work that only computes, does to a director that forwards.
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/child_runner.h"
#include "bench/macro/ops/ops_parts.h"
#include "bench/macro/pair_stats.h"
#include "channel/region.h"
#include "fmt/format.h"
#include "mover/mover.h"
#include "vdpu/dma_link.h"

namespace pulse::bench {
namespace {

constexpr double kGiB = 1073741824;
constexpr size_t kMostBuffer = size_t{2} << 20;  // BF3's largest
constexpr size_t kBuffers[] = {4 << 10, 64 << 10, 512 << 10, 1 << 20, kMostBuffer};
constexpr size_t kBatches[] = {1, 4, 16};
constexpr size_t kMostBatch = 16;
constexpr size_t kMostCores = 16;
constexpr double kCellSeconds = 0.04;
constexpr double kTinySeconds = 0.002;

struct Cell {
  size_t buffer;
  size_t batch;
  size_t cores;
};

// One core's halves: the host's memory, and where the agent has it.
class Copier {
 public:
  static absl::StatusOr<std::unique_ptr<Copier>> Make(MoverKind kind) {
    auto copier = std::make_unique<Copier>();
    constexpr size_t kBytes = kMostBatch * kMostBuffer;
    PULSE_ASSIGN_OR_RETURN(copier->host_, Region::CreatePrivate(kBytes));
    std::memset(copier->host_.data(), 1, kBytes);
    if (kind == MoverKind::kVmRead) {
      PULSE_ASSIGN_OR_RETURN(
          copier->mover_,
          Mover::CreateVmRead(getpid(), reinterpret_cast<uint64_t>(copier->host_.data()), kBytes));
      std::memset(copier->mover_->local(), 2, kBytes);
      return copier;
    }
    PULSE_ASSIGN_OR_RETURN(copier->agent_, Region::CreatePrivate(kBytes));
    std::memset(copier->agent_.data(), 2, kBytes);
    return copier;
  }

  // A batch to the agent, or to the host.
  absl::Status Move(const Cell& cell, bool to_host) {
    if (mover_ == nullptr) {
      char* const to = static_cast<char*>(to_host ? host_.data() : agent_.data());
      const char* const from = static_cast<const char*>(to_host ? agent_.data() : host_.data());
      for (size_t i = 0; i < cell.batch; ++i) {
        std::memcpy(to + i * cell.buffer, from + i * cell.buffer, cell.buffer);
      }
      return absl::OkStatus();
    }
    MoverSpan spans[kMostBatch];
    for (size_t i = 0; i < cell.batch; ++i) spans[i] = {i * cell.buffer, cell.buffer};
    return to_host ? mover_->PushSpans(spans, cell.batch) : mover_->PullSpans(spans, cell.batch);
  }

 private:
  Region host_;
  Region agent_;
  std::unique_ptr<Mover> mover_;
};

// Bytes per second of all cores together.
absl::StatusOr<double> MeasureCell(const Cell& cell, bool to_host, double seconds,
                                   const std::vector<std::unique_ptr<Copier>>& copiers,
                                   const std::vector<int>& cpus) {
  std::atomic<uint64_t> bytes{0};
  std::atomic<size_t> ready{0};
  std::mutex mu;
  absl::Status status;
  const int64_t length = static_cast<int64_t>(seconds * 1e9);
  std::atomic<int64_t> took{0};
  std::vector<std::thread> threads;
  for (size_t core = 0; core < cell.cores; ++core) {
    threads.emplace_back([&, core] {
      absl::Status mine = SetThreadAffinity({cpus[core]});
      ++ready;
      while (ready < cell.cores) std::this_thread::yield();
      const int64_t begin = NowNanos();
      int64_t now = begin;
      uint64_t moved = 0;
      while (mine.ok() && now - begin < length) {
        mine = copiers[core]->Move(cell, to_host);
        moved += cell.batch * cell.buffer;
        now = NowNanos();
      }
      bytes += moved;
      const std::lock_guard lock(mu);
      took = std::max(took.load(), now - begin);
      status.Update(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!status.ok()) return status;
  return static_cast<double>(bytes) / static_cast<double>(took) * 1e9;
}

// By the model of the card's engine, which all cores share; no time passes. Each core asks for a
// batch, and for the next one when all of it is there.
double PricedCell(const Cell& cell, const vdpu::Profile& card) {
  constexpr int kRounds = 200;
  vdpu::DmaLink link(card);
  std::vector<int64_t> free_at(cell.cores, 0);
  int64_t end = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int64_t& core : free_at) {
      int64_t there = core;
      for (size_t i = 0; i < cell.batch; ++i) there = std::max(there, link.Book(core, cell.buffer));
      core = there;
      end = std::max(end, there);
    }
  }
  return static_cast<double>(kRounds * cell.cores * cell.batch * cell.buffer) /
         static_cast<double>(end) * 1e9;
}

// 1, 2, 4 ... and all of them.
std::vector<size_t> CoreCounts(size_t most) {
  std::vector<size_t> counts;
  for (size_t cores = 1; cores < most; cores *= 2) counts.push_back(cores);
  counts.push_back(most);
  return counts;
}

// One direction: rows by buffer and batch, columns by mover or card and cores. Returns the table.
absl::StatusOr<std::string> MeasureDirection(OpsBench* bench, bool to_host,
                                             const std::vector<int>& cpus, nlohmann::json* rows) {
  std::vector<std::string> header = {"GiB/s by buffer, batch"};
  std::vector<std::vector<std::string>> cells;
  for (const size_t buffer : kBuffers) {
    for (const size_t batch : kBatches) {
      cells.push_back({fmt::format("{} KiB, {}", buffer >> 10, batch)});
    }
  }
  const auto column = [&](const std::string& by, bool replayed, size_t cores,
                          auto rate_of) -> absl::Status {
    header.push_back(fmt::format("{}{}, {}", by, replayed ? "*" : "", cores));
    double& best = bench->here[absl::StrCat("dma/", by, to_host ? "/back" : "", "/GiB/s")];
    size_t row = 0;
    for (const size_t buffer : kBuffers) {
      for (const size_t batch : kBatches) {
        PULSE_ASSIGN_OR_RETURN(const double rate, rate_of(Cell{buffer, batch, cores}));
        cells[row++].push_back(fmt::format("{:.2f}", rate / kGiB));
        best = std::max(best, rate / kGiB);
        rows->push_back({{"by", by},
                         {"direction", to_host ? "agent to host" : "host to agent"},
                         {"buffer", buffer},
                         {"batch", batch},
                         {"cores", cores},
                         {"replayed", replayed},
                         {"gib_per_s", rate / kGiB}});
      }
    }
    return absl::OkStatus();
  };
  for (const MoverKind kind : {MoverKind::kShared, MoverKind::kVmRead}) {
    std::vector<std::unique_ptr<Copier>> copiers;
    for (size_t i = 0; i < cpus.size(); ++i) {
      PULSE_ASSIGN_OR_RETURN(auto copier, Copier::Make(kind));
      copiers.push_back(std::move(copier));
    }
    const double seconds = bench->tiny ? kTinySeconds : kCellSeconds;
    for (const size_t cores : CoreCounts(cpus.size())) {
      PULSE_RETURN_IF_ERROR(column(
          std::string(MoverName(kind)), false, cores,
          [&](const Cell& cell) { return MeasureCell(cell, to_host, seconds, copiers, cpus); }));
    }
  }
  for (const vdpu::Profile& card : bench->cards) {
    for (const size_t cores : CoreCounts(static_cast<size_t>(card.cores))) {
      PULSE_RETURN_IF_ERROR(column(
          card.name, true, cores,
          [&](const Cell& cell) -> absl::StatusOr<double> { return PricedCell(cell, card); }));
    }
  }
  TextTable table(header);
  for (auto& row : cells) table.AddRow(std::move(row));
  return table.Render();
}

// --- Figure 15

// What runs on the agent's CPU beside the director: the paper's two kinds of tasks.
class Load {
 public:
  enum class Kind { kNone, kMemory, kCompute };
  Load(Kind kind, int cpu) {
    if (kind == Kind::kNone) return;
    thread_ = std::thread([this, kind, cpu] {
      SetThreadAffinity({cpu}).IgnoreError();
      // Larger than the caches that one core has to itself; and a block that fits into them.
      const size_t bytes = kind == Kind::kMemory ? size_t{64} << 20 : size_t{64} << 10;
      std::vector<unsigned char> from(bytes);
      for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<unsigned char>(i * i >> 7);
      std::vector<unsigned char> to(compressBound(bytes));
      while (!stop_) {
        if (kind == Kind::kMemory) {
          for (size_t at = 0; at < bytes && !stop_; at += kMostBuffer) {
            std::memcpy(to.data() + at, from.data() + at, kMostBuffer);
          }
        } else {
          uLongf size = to.size();
          compress2(to.data(), &size, from.data(), bytes, 6);
        }
      }
    });
  }
  ~Load() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Forwarded {
  double gbit_per_s = 0;
  double p50_us = 0;
  double p99_us = 0;
};

absl::StatusOr<Forwarded> Forward(const OpsBench& bench, Load::Kind kind) {
  // The director, its server and its client share the host's CPUs, so that the load takes nothing
  // from them but memory and shared caches.
  const nlohmann::json spec = {{"job", "director"},
                               {"form", "forward"},
                               {"bytes", bench.tiny ? 4096 : 64 << 10},
                               {"connections", 4},
                               {"depth", 4},
                               {"warm", bench.tiny ? 0.02 : 0.3},
                               {"seconds", bench.tiny ? 0.05 : 1.5},
                               {"host_cpus", bench.host_cpus},
                               {"agent_cpus", bench.host_cpus}};
  const Load load(kind, bench.agent_cpus.front());
  ChildOptions options;
  options.cpus = bench.host_cpus;
  PULSE_ASSIGN_OR_RETURN(const nlohmann::json got, RunChild(spec, options));
  return Forwarded{got.at("gbit_per_s").get<double>(), got.at("p50_us").get<double>(),
                   got.at("p99_us").get<double>()};
}

}  // namespace

absl::Status RunDmaPart(OpsBench* bench) {
  // The agent's CPUs first, then the host's.
  std::vector<int> cpus;
  for (const std::vector<int>& more : {bench->agent_cpus, bench->host_cpus}) {
    for (const int cpu : more) {
      if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) cpus.push_back(cpu);
    }
  }
  // Each has memory of its own.
  if (cpus.size() > kMostCores) cpus.resize(kMostCores);
  nlohmann::json rows = nlohmann::json::array();
  for (const bool to_host : {false, true}) {
    PULSE_ASSIGN_OR_RETURN(const std::string table, MeasureDirection(bench, to_host, cpus, &rows));
    fmt::print(
        "\nMoving buffers from {} (Figure 8), by the number of cores that do it; \"shared\" is a\n"
        "copy within mapped memory; *: the model of the card's engine, which all cores share\n{}",
        to_host ? "agent to host" : "host to agent", table);
  }
  bench->report["dma"] = std::move(rows);
  return absl::OkStatus();
}

absl::Status RunRoutingPart(OpsBench* bench) {
  if (bench->host_cpus.front() == bench->agent_cpus.front()) {
    fmt::print("\nRouting (Figure 15) needs two CPUs: what runs beside the director has its own\n");
    return absl::OkStatus();
  }
  struct Beside {
    Load::Kind kind;
    const char* name;
    std::vector<Forwarded> rounds = {};
  };
  Beside all[] = {{Load::Kind::kNone, "nothing"},
                  {Load::Kind::kMemory, "memory-bound"},
                  {Load::Kind::kCompute, "compute-bound"}};
  for (int round = 0; round < bench->pairs; ++round) {
    for (Beside& beside : all) {
      PULSE_ASSIGN_OR_RETURN(const Forwarded got, Forward(*bench, beside.kind));
      beside.rounds.push_back(got);
    }
  }
  TextTable table(
      {"beside it", "Gbit/s", "of alone", "p50, us", "of alone", "p99, us", "of alone"});
  nlohmann::json rows = nlohmann::json::array();
  for (const Beside& beside : all) {
    nlohmann::json row = {{"beside", beside.name}};
    std::vector<std::string> cells = {beside.name};
    const std::pair<const char*, double Forwarded::*> columns[] = {
        {"gbit_per_s", &Forwarded::gbit_per_s},
        {"p50_us", &Forwarded::p50_us},
        {"p99_us", &Forwarded::p99_us}};
    for (const auto& [name, member] : columns) {
      std::vector<double> values;
      std::vector<double> ratios;
      for (size_t i = 0; i < beside.rounds.size(); ++i) {
        values.push_back(beside.rounds[i].*member);
        ratios.push_back(values.back() / (all[0].rounds[i].*member));
      }
      const Spread of_alone = Summarize(ratios);
      row[name] = Summarize(std::move(values)).median;
      row[absl::StrCat(name, "_of_alone")] = ToJson(of_alone);
      cells.push_back(fmt::format("{:.2f}", row[name].get<double>()));
      cells.push_back(
          fmt::format("{:.2f} ({:.2f} - {:.2f})", of_alone.median, of_alone.min, of_alone.max));
      bench->here[absl::StrCat("routing/", beside.name, "/", name, ", %")] =
          100 * (of_alone.median - 1);
    }
    table.AddRow(cells);
    rows.push_back(std::move(row));
  }
  fmt::print(
      "\nA director that forwards messages on the host's CPU, with server and client, and what "
      "runs\n"
      "on the agent's CPU (Figure 15); medians of {} rounds, least and most\n{}",
      bench->pairs, table.Render());
  bench->report["routing"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
