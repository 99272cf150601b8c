#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/measured_run.h"
#include "bench/macro/memory_meter.h"
#include "bench/macro/neighbours.h"
#include "bench/macro/workload.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

struct FillPlan {
  uint64_t num = 0;
  size_t value_bytes = 0;
  uint64_t seed = 0;      // of values
  uint64_t key_seed = 0;  // of the order of keys
  int threads = 1;
};

// One writing thread: as fast as the database lets it, each write timed.
struct Writer {
  Histogram latency;  // nanoseconds
  absl::Status status;

  void Run(rocksdb::DB* db, const FillPlan& plan, int index) {
    const auto id = static_cast<uint64_t>(index);
    const auto threads = static_cast<uint64_t>(plan.threads);
    const uint64_t mine = plan.num / threads + (id < plan.num % threads ? 1 : 0);
    KeyStream keys(KeyOrder::kRandom, plan.num, plan.key_seed + id * 0x10001);
    ValueMaker values(plan.value_bytes, plan.seed);
    const rocksdb::WriteOptions write;
    for (uint64_t i = 0; i < mine; ++i) {
      const uint64_t number = keys.Next();
      const Key key = EncodeKey(number);
      const std::string_view value = values.Make(number, id << 48 | i);
      const int64_t start = NowNanos();
      const rocksdb::Status put = db->Put(write, rocksdb::Slice(key.data(), key.size()),
                                          rocksdb::Slice(value.data(), value.size()));
      latency.Record(static_cast<uint64_t>(NowNanos() - start));
      if (!put.ok()) {
        status = FromRocks(put, "writing to the database");
        return;
      }
    }
  }
};

// Runs all writers to their end and puts their latencies together.
absl::Status WriteAll(BenchDb* db, const FillPlan& plan, Histogram* all) {
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<std::thread> threads;
  for (int i = 0; i < plan.threads; ++i) writers.push_back(std::make_unique<Writer>());
  for (int i = 0; i < plan.threads; ++i) {
    Writer* writer = writers[static_cast<size_t>(i)].get();
    threads.emplace_back([writer, db, &plan, i] { writer->Run(db->db(), plan, i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& writer : writers) {
    PULSE_RETURN_IF_ERROR(writer->status);
    all->Merge(writer->latency);
  }
  return absl::OkStatus();
}

struct Phase {
  int on_host_cpus = 0;
  int on_agent_cpus = 0;
  double seconds = 0;  // that it took
};

struct Phases {
  std::vector<Phase> all;
  Neighbours on_host_cpus, on_agent_cpus;
};

absl::Status ReadPhases(const nlohmann::json& spec, Phases* phases) {
  // Only fill's own job descriptions have them.
  if (!spec.contains("phases")) return absl::OkStatus();
  int host = 0, agent = 0;
  for (const nlohmann::json& json : spec["phases"]) {
    Phase phase;
    json.at("on_host_cpus").get_to(phase.on_host_cpus);
    json.at("on_agent_cpus").get_to(phase.on_agent_cpus);
    host = std::max(host, phase.on_host_cpus);
    agent = std::max(agent, phase.on_agent_cpus);
    phases->all.push_back(phase);
  }
  PULSE_RETURN_IF_ERROR(
      phases->on_host_cpus.Make(host, spec.at("host_cpus").get<std::vector<int>>()));
  return phases->on_agent_cpus.Make(agent, spec.at("agent_cpus").get<std::vector<int>>());
}

// Each phase pays for the compactions that it leaves behind.
absl::Status WriteInPhases(BenchDb* db, const FillPlan& plan, Phases* phases, Histogram* latency) {
  FillPlan part = plan;
  part.num = plan.num / phases->all.size();
  for (Phase& phase : phases->all) {
    phases->on_host_cpus.Work(phase.on_host_cpus);
    phases->on_agent_cpus.Work(phase.on_agent_cpus);
    const int64_t start = NowNanos();
    PULSE_RETURN_IF_ERROR(WriteAll(db, part, latency));
    db->WaitUntilSettled();
    phase.seconds = static_cast<double>(NowNanos() - start) / 1e9;
    part.key_seed += 0x1000003;
  }
  phases->on_host_cpus.Work(0);
  phases->on_agent_cpus.Work(0);
  return absl::OkStatus();
}

void AddPhases(const FillPlan& plan, const Phases& phases, nlohmann::json* result) {
  const auto each = static_cast<double>(plan.num / phases.all.size());
  for (size_t i = 0; i < phases.all.size(); ++i) {
    (*result)[absl::StrCat("phase", i + 1, "_ops_per_s")] = each / phases.all[i].seconds;
  }
}

}  // namespace

absl::StatusOr<nlohmann::json> RunFillJob(const nlohmann::json& spec) {
  const Variant variant = spec.at("variant").get<Variant>();
  FillPlan plan;
  spec.at("num").get_to(plan.num);
  spec.at("value_bytes").get_to(plan.value_bytes);
  spec.at("seed").get_to(plan.seed);
  spec.at("key_seed").get_to(plan.key_seed);
  spec.at("threads").get_to(plan.threads);
  Phases phases;
  PULSE_RETURN_IF_ERROR(ReadPhases(spec, &phases));
  PULSE_ASSIGN_OR_RETURN(auto opened, BenchDb::Open(spec));
  BenchDb& db = *opened;
  Histogram latency;
  PULSE_ASSIGN_OR_RETURN(auto memory, MemoryMeter::Create(variant));
  // fill has its own job descriptions, which do not ask for it.
  const bool measure_memory = spec.value("measure_memory", false);
  if (measure_memory) memory->Start();
  auto result = MeasureRun(&db, variant, [&] {
    return phases.all.empty() ? WriteAll(&db, plan, &latency)
                              : WriteInPhases(&db, plan, &phases, &latency);
  });
  if (!result.ok()) return result.status();
  if (!phases.all.empty()) AddPhases(plan, phases, &*result);
  if (measure_memory) memory->Stop(&*result);
  const double wall = result->at("wall_s").get<double>();
  const auto bytes = static_cast<double>(plan.num * (kKeyBytes + plan.value_bytes));
  (*result)["ops_per_s"] = static_cast<double>(plan.num) / wall;
  (*result)["mib_per_s"] = bytes / (1 << 20) / wall;
  AddLatencies(latency, "", &*result);
  PULSE_RETURN_IF_ERROR(db.Close());
  return result;
}

}  // namespace pulse::bench
