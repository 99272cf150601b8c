#include "bench/macro/measured_run.h"

#include <chrono>
#include <optional>

#include "apps/pulse/util/agent_socket.h"
#include "base/clock.h"
#include "base/errors.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

// Asks the database every 10 ms whether it delays or stops writes.
class StallSampler {
 public:
  explicit StallSampler(BenchDb* db)
      : db_(db), repeater_(std::in_place, std::chrono::milliseconds(10), [this] { Look(); }) {}
  void Stop() { repeater_.reset(); }
  double delayed() const { return Share(delayed_); }
  double stopped() const { return Share(stopped_); }

 private:
  double Share(uint64_t hits) const {
    return samples_ == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(samples_);
  }
  void Look() {
    ++samples_;
    if (db_->Property("rocksdb.is-write-stopped") != 0) {
      ++stopped_;
    } else if (db_->Property("rocksdb.actual-delayed-write-rate") != 0) {
      ++delayed_;
    }
  }

  BenchDb* const db_;
  uint64_t samples_ = 0;
  uint64_t delayed_ = 0;
  uint64_t stopped_ = 0;
  std::optional<Repeater> repeater_;  // last: it uses the others
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunMeter>> RunMeter::Create(const Variant& variant) {
  auto kind = CpuMeter::Agent::kNone;
  pid_t pid = 0;
  if (!variant.agent_socket.empty()) {
    PULSE_ASSIGN_OR_RETURN(const auto agent, FindAgent(variant.agent_socket));
    kind = CpuMeter::Agent::kProcess;
    pid = agent.pid;
  } else if (variant.IsPulse()) {
    kind = CpuMeter::Agent::kThreads;
  }
  return std::unique_ptr<RunMeter>(new RunMeter(kind, pid));
}

absl::Status RunMeter::Start() {
  PULSE_RETURN_IF_ERROR(cpu_.Start());
  start_ = NowNanos();
  return absl::OkStatus();
}

void RunMeter::StopWall() { wall_nanos_ = NowNanos() - start_; }

absl::Status RunMeter::Stop(nlohmann::json* result) {
  PULSE_ASSIGN_OR_RETURN(const auto use, cpu_.Stop());
  (*result)["wall_s"] = wall_seconds();
  (*result)["host_cpu_s"] = use.host_seconds;
  (*result)["agent_cpu_s"] = use.agent_seconds;
  (*result)["compaction_cpu_s"] = use.compaction_seconds;
  (*result)["voluntary_switches"] = use.voluntary_switches;
  (*result)["involuntary_switches"] = use.involuntary_switches;
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> MeasureRun(BenchDb* db, const Variant& variant,
                                          const std::function<absl::Status()>& work, bool settle) {
  PULSE_ASSIGN_OR_RETURN(auto meter, RunMeter::Create(variant));
  const BenchDb::OnAgent before = db->TimeOnAgent();
  PULSE_RETURN_IF_ERROR(meter->Start());
  StallSampler stalls(db);
  const absl::Status worked = work();
  meter->StopWall();
  stalls.Stop();
  PULSE_RETURN_IF_ERROR(worked);
  const int64_t done = NowNanos();
  double settled = 0;
  if (settle) {
    db->WaitUntilSettled();
    settled = static_cast<double>(NowNanos() - done) / 1e9;
  }
  nlohmann::json result;
  if (settle) result["settle_s"] = settled;
  PULSE_RETURN_IF_ERROR(meter->Stop(&result));
  db->CountOnAgent(before, &result);
  result["stall_share"] =
      static_cast<double>(db->Ticker(rocksdb::STALL_MICROS)) / 1e6 / meter->wall_seconds();
  result["delayed_share"] = stalls.delayed();
  result["stopped_share"] = stalls.stopped();
  db->AddSyncTimes(&result);
  result["flush_bytes"] = db->Ticker(rocksdb::FLUSH_WRITE_BYTES);
  // RocksDB keeps apart what whole compactions on the agent have read and written.
  result["compaction_read_bytes"] =
      db->Ticker(rocksdb::COMPACT_READ_BYTES) + db->Ticker(rocksdb::REMOTE_COMPACT_READ_BYTES);
  const uint64_t compacted =
      db->Ticker(rocksdb::COMPACT_WRITE_BYTES) + db->Ticker(rocksdb::REMOTE_COMPACT_WRITE_BYTES);
  result["compaction_write_bytes"] = compacted;
  if (compacted != 0) {
    const double seconds = meter->wall_seconds() + settled;
    result["compaction_mib_per_s"] = static_cast<double>(compacted) / (1 << 20) / seconds;
    // For compactions alone, and the process as a whole, writers and flushes included.
    for (const char* cpu : {"compaction_cpu_s", "host_cpu_s"}) {
      result[std::string(cpu) + "_per_gib"] =
          result[cpu].get<double>() * (1 << 30) / static_cast<double>(compacted);
    }
  }
  return result;
}

void AddLatencies(const Histogram& latency, const std::string& prefix, nlohmann::json* result) {
  const auto micros = [](uint64_t nanos) { return static_cast<double>(nanos) / 1e3; };
  (*result)[prefix + "mean_us"] = latency.Mean() / 1e3;
  (*result)[prefix + "p50_us"] = micros(latency.ValueAtPercentile(50));
  (*result)[prefix + "p99_us"] = micros(latency.ValueAtPercentile(99));
  (*result)[prefix + "p99.9_us"] = micros(latency.ValueAtPercentile(99.9));
  (*result)[prefix + "p99.99_us"] = micros(latency.ValueAtPercentile(99.99));
  (*result)[prefix + "max_us"] = micros(latency.Max());
}

}  // namespace pulse::bench
