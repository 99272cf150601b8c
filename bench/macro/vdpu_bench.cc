// `pulse bench vdpu`: is the virtual DPU what its profile says? A fixed job on slowed threads
// against the same on plain ones, and transfers through priced movers; asked and got side by side.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/workload.h"
#include "channel/region.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "vdpu/cpu_throttle.h"
#include "vdpu/priced_mover.h"
#include "vdpu/profile.h"

namespace pulse::bench {
namespace {

constexpr size_t kArena = size_t{8} << 20;
constexpr size_t kSizes[] = {64, 4096, 64 << 10, 1 << 20, 4 << 20};

double Median(std::vector<double> v) { return Summarize(std::move(v)).median; }

// What a compaction does with its core: sorted runs are merged, keys compared, values copied. The
// same in every call.
class MergeJob {
 public:
  MergeJob() {
    Random random(1);
    for (auto& run : runs_) {
      run.resize(kEntries);
      for (Entry& e : run) e[0] = random.Next();
      std::sort(run.begin(), run.end());
    }
  }

  // Returns something of the result, so that it has to be computed.
  uint64_t Once() const {
    std::vector<Entry> merged, more;
    for (const auto& run : runs_) {
      more.resize(merged.size() + run.size());
      std::merge(merged.begin(), merged.end(), run.begin(), run.end(), more.begin());
      merged.swap(more);
    }
    uint64_t sum = 0;
    for (const Entry& e : merged) sum = (sum ^ e[0]) * 0x9e3779b97f4a7c15;
    return sum;
  }

 private:
  static constexpr size_t kEntries = 500;
  using Entry = std::array<uint64_t, 32>;  // the key, and a value of 248 B
  std::array<std::vector<Entry>, 8> runs_;
};

// Seconds for which the calling thread was ready to run and had no CPU; 0 where the kernel does not
// say.
double WaitedForCpu() {
  std::ifstream in(absl::StrCat("/proc/self/task/", gettid(), "/schedstat"));
  uint64_t ran = 0;
  uint64_t waited = 0;
  in >> ran >> waited;
  return in ? static_cast<double>(waited) / 1e9 : 0;
}

struct JobTime {
  double waited = 0;
  double wall = 0;
  double cpu = 0;
  uint64_t sum = 0;
};

class VdpuBench {
 public:
  VdpuBench(const BenchArgs& args, vdpu::Profile profile)
      : args_(args),
        pairs_(args.common.pairs),
        profile_(std::move(profile)),
        cpus_(AllowedCpus()) {}

  absl::Status Run() {
    fmt::print("Virtual DPU {}\n", vdpu::Describe(profile_));
    if (const std::string less = vdpu::Shortfall(profile_, cpus_); !less.empty()) {
      fmt::print("Note: {}\n", less);
    }
    report_["profile"] = {{"name", profile_.name},
                          {"core_speed", profile_.core_speed},
                          {"cores", profile_.cores},
                          {"dma_latency_us", profile_.dma_latency_us},
                          {"dma_bandwidth_gb_s", profile_.dma_bandwidth_gb_s},
                          {"dma_operation_us", profile_.dma_operation_us}};
    report_["cpus"] = cpus_;
    PULSE_RETURN_IF_ERROR(Calibrate());
    PULSE_RETURN_IF_ERROR(Speed());
    PULSE_RETURN_IF_ERROR(Cores());
    PULSE_RETURN_IF_ERROR(Dma());
    if (args_.common.json_file.empty()) return absl::OkStatus();
    std::ofstream out(args_.common.json_file);
    out << report_.dump(2) << '\n';
    out.close();
    if (out) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("writing ", args_.common.json_file, " failed; choose another --json file"));
  }

 private:
  // `turns` of the job on a thread of its own.
  absl::StatusOr<JobTime> RunJob(int turns, vdpu::CpuThrottle* throttle) {
    JobTime t;
    absl::Status status;
    std::thread([&] {
      if (throttle != nullptr) {
        status = throttle->Enroll();
        if (!status.ok()) return;
      }
      const int64_t wall = NowNanos();
      const int64_t cpu = ThreadCpuNanos();
      for (int i = 0; i < turns; ++i) t.sum += job_.Once();
      if (throttle != nullptr) throttle->Leave();  // pays the rest
      t.waited = WaitedForCpu();
      t.wall = static_cast<double>(NowNanos() - wall) / 1e9;
      t.cpu = static_cast<double>(ThreadCpuNanos() - cpu) / 1e9;
    }).join();
    if (!status.ok()) return status;
    return t;
  }

  // As many turns as take about --job-seconds.
  absl::Status Calibrate() {
    PULSE_ASSIGN_OR_RETURN(auto once, RunJob(4, nullptr));
    turns_ = std::max(
        1, static_cast<int>(args_.Get<double>("job_seconds") * 4 / std::max(once.cpu, 1e-6)));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<vdpu::CpuThrottle>> StartThrottle() const {
    vdpu::CpuThrottle::Options options;
    options.speed = profile_.core_speed;
    options.cores = profile_.cores;
    return vdpu::CpuThrottle::Start(options);
  }

  absl::Status Speed() {
    PULSE_ASSIGN_OR_RETURN(auto throttle, StartThrottle());
    std::vector<double> plain, slow, ratio, share, waited;
    for (int i = 0; i < pairs_; ++i) {
      PULSE_ASSIGN_OR_RETURN(auto fast, RunJob(turns_, nullptr));
      PULSE_ASSIGN_OR_RETURN(auto slowed, RunJob(turns_, throttle.get()));
      if (fast.sum != slowed.sum) return absl::InternalError("two runs of one job differ");
      plain.push_back(fast.wall);
      slow.push_back(slowed.wall);
      ratio.push_back(fast.wall / slowed.wall);
      share.push_back(slowed.cpu / slowed.wall);
      waited.push_back((fast.waited + slowed.waited) / (fast.wall + slowed.wall));
    }
    const auto [least, most] = std::minmax_element(ratio.begin(), ratio.end());
    TextTable table({"one core", "asked", "got", "least", "most"});
    table.AddRow({"speed, time of a plain thread / of a slowed one",
                  fmt::format("{:.3f}", profile_.core_speed), fmt::format("{:.3f}", Median(ratio)),
                  fmt::format("{:.3f}", *least), fmt::format("{:.3f}", *most)});
    fmt::print("\nA merge of {:.2f} s, medians of {} pairs\n{}", Median(plain), pairs_,
               table.Render());
    const double most_waited = *std::max_element(waited.begin(), waited.end());
    if (most_waited > kBusy) {
      fmt::print(
          "The machine was busy: the job's threads waited up to {:.0f} % of the time for a CPU.\n"
          "The figures mean little; run again when nothing else runs.\n",
          100 * most_waited);
    }
    report_["waited_for_cpu"] = waited;
    report_["speed"] = {{"asked", profile_.core_speed},
                        {"got", Median(ratio)},
                        {"least", *least},
                        {"most", *most},
                        {"cpu_share", Median(share)},
                        {"plain_seconds", plain},
                        {"slowed_seconds", slow}};
    return absl::OkStatus();
  }

  // Several threads at a time: host CPUs' worth of work that they get done.
  absl::Status Cores() {
    TextTable table({"busy threads", "the profile's", "this machine's", "got"});
    nlohmann::json rows = nlohmann::json::array();
    std::vector<int> counts = {1, 2, profile_.cores, profile_.cores + 1};
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    for (const int threads : counts) {
      if (threads > kMostThreads) continue;
      PULSE_ASSIGN_OR_RETURN(auto throttle, StartThrottle());
      const int turns = std::max(1, turns_ / std::max(1, threads / 2));
      std::mutex mu;
      absl::Status status;
      std::vector<std::thread> all;
      const int64_t begin = NowNanos();
      for (int i = 0; i < threads; ++i) {
        all.emplace_back([&] {
          auto t = RunJob(turns, throttle.get());
          std::lock_guard lock(mu);
          if (!t.ok()) status.Update(t.status());
        });
      }
      for (std::thread& t : all) t.join();
      const auto wall = static_cast<double>(NowNanos() - begin);
      if (!status.ok()) return status;
      const double asked = std::min(threads, profile_.cores) * profile_.core_speed;
      const double can = std::min<double>(asked, cpus_);
      const double got = static_cast<double>(throttle->usage().consumed) / wall;
      table.AddRow({fmt::format("{}", threads), fmt::format("{:.2f}", asked),
                    fmt::format("{:.2f}", can), fmt::format("{:.2f}", got)});
      rows.push_back({{"threads", threads}, {"asked", asked}, {"possible", can}, {"got", got}});
    }
    fmt::print("\nHost CPUs' worth of work by all threads\n{}", table.Render());
    report_["cores"] = std::move(rows);
    return absl::OkStatus();
  }

  absl::Status Dma() {
    PULSE_ASSIGN_OR_RETURN(auto region, Region::CreatePrivate(kArena));
    std::memset(region.data(), 1, kArena);
    TextTable table({"transfer", "asked", "shared", "vmread"});
    nlohmann::json rows = nlohmann::json::array();
    for (const size_t bytes : kSizes) {
      std::vector<std::string> cells = {fmt::format("{} B, us", bytes)};
      nlohmann::json row = {{"bytes", bytes}};
      for (const MoverKind kind : {MoverKind::kShared, MoverKind::kVmRead}) {
        vdpu::DmaLink link(profile_);
        if (kind == MoverKind::kShared) {
          cells.push_back(Micros(static_cast<double>(link.Alone(bytes)) / 1e3));
          row["asked_us"] = static_cast<double>(link.Alone(bytes)) / 1e3;
        }
        PULSE_ASSIGN_OR_RETURN(auto mover, NewMover(kind, region, &link));
        std::vector<double> micros;
        for (int i = 0; i < (args_.common.tiny ? 5 : 201); ++i) {
          const int64_t begin = NowNanos();
          PULSE_RETURN_IF_ERROR(mover->Pull(0, bytes));
          micros.push_back(static_cast<double>(NowNanos() - begin) / 1e3);
        }
        cells.push_back(Micros(Median(micros)));
        row[absl::StrCat(MoverNameOf(kind), "_us")] = Median(micros);
      }
      table.AddRow(cells);
      rows.push_back(std::move(row));
    }
    PULSE_RETURN_IF_ERROR(Bandwidth(region, &table));
    fmt::print(
        "\nTransfers through a priced mover, medians: `shared` copies nothing and shows the model, "
        "`vmread` copies\nas well and cannot be faster than this machine\n{}",
        table.Render());
    report_["dma"] = std::move(rows);
    return absl::OkStatus();
  }

  // Two queues that always have something to move share the link.
  absl::Status Bandwidth(const Region& region, TextTable* table) {
    constexpr size_t kPiece = 1 << 20;
    std::vector<std::string> cells = {"two queues of 1 MiB pieces, GB/s",
                                      fmt::format("{:.1f}", profile_.dma_bandwidth_gb_s)};
    nlohmann::json& out = report_["bandwidth"];
    out["asked_gb_s"] = profile_.dma_bandwidth_gb_s;
    for (const MoverKind kind : {MoverKind::kShared, MoverKind::kVmRead}) {
      vdpu::DmaLink link(profile_);
      PULSE_ASSIGN_OR_RETURN(auto a, NewMover(kind, region, &link));
      PULSE_ASSIGN_OR_RETURN(auto b, NewMover(kind, region, &link));
      const size_t pieces = args_.common.tiny ? 16 : 1024;
      const int64_t begin = NowNanos();
      int64_t last = begin;
      for (size_t i = 0; i < pieces; ++i) {
        Mover& m = i % 2 == 0 ? *a : *b;
        int64_t there_at = 0;
        PULSE_RETURN_IF_ERROR(m.StartPull(i * kPiece % kArena, kPiece, &there_at));
        last = std::max(last, there_at);
      }
      last = std::max(last, NowNanos());
      const double got = static_cast<double>(pieces * kPiece) / static_cast<double>(last - begin);
      cells.push_back(fmt::format("{:.1f}", got));
      out[absl::StrCat(MoverNameOf(kind), "_gb_s")] = got;
    }
    table->AddRow(cells);
    return absl::OkStatus();
  }

  static std::string MoverNameOf(MoverKind kind) {
    const absl::string_view name = MoverName(kind);
    return {name.data(), name.size()};
  }
  static std::string Micros(double us) { return fmt::format("{:.1f}", us); }

  static absl::StatusOr<std::unique_ptr<Mover>> NewMover(MoverKind kind, const Region& region,
                                                         vdpu::DmaLink* link) {
    if (kind == MoverKind::kShared) {
      return vdpu::CreatePricedMover(Mover::CreateShared(region.data(), kArena), link, 0);
    }
    PULSE_ASSIGN_OR_RETURN(
        auto inner,
        Mover::CreateVmRead(getpid(), reinterpret_cast<uintptr_t>(region.data()), kArena));
    PULSE_RETURN_IF_ERROR(inner->Pull(0, kArena));  // its pages are there from now on
    return vdpu::CreatePricedMover(std::move(inner), link, 0);
  }

  static constexpr int kMostThreads = 64;
  static constexpr double kBusy = 0.02;
  const BenchArgs& args_;
  const int pairs_;
  const vdpu::Profile profile_;
  const int cpus_;
  const MergeJob job_;
  int turns_ = 1;
  nlohmann::json report_;
};

}  // namespace

absl::Status RunVdpuBench(BenchArgs args) {
  const auto name = args.Get<std::string>("profile");
  if (name == "none") {
    return absl::InvalidArgumentError(
        "--profile none emulates nothing; choose bf2, bf3 or a FILE.toml");
  }
  PULSE_ASSIGN_OR_RETURN(auto profile, vdpu::LoadProfile(name));
  return VdpuBench(args, std::move(profile)).Run();
}

}  // namespace pulse::bench
