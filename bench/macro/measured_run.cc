#include "bench/macro/measured_run.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/errors.h"
#include "bench/macro/run_meter.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

// Asks the database every 10 ms whether it delays or stops writes.
class StallSampler {
 public:
  explicit StallSampler(BenchDb* db) : db_(db), thread_([this] { Loop(); }) {}
  ~StallSampler() { Stop(); }
  void Stop() {
    done_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
  }
  double delayed() const { return Share(delayed_); }
  double stopped() const { return Share(stopped_); }

 private:
  double Share(uint64_t hits) const {
    return samples_ == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(samples_);
  }
  void Loop() {
    while (!done_.load(std::memory_order_relaxed)) {
      ++samples_;
      if (db_->Property("rocksdb.is-write-stopped") != 0) {
        ++stopped_;
      } else if (db_->Property("rocksdb.actual-delayed-write-rate") != 0) {
        ++delayed_;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  BenchDb* const db_;
  std::atomic<bool> done_{false};
  uint64_t samples_ = 0;
  uint64_t delayed_ = 0;
  uint64_t stopped_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<nlohmann::json> MeasureRun(BenchDb* db, const Opponent& opponent,
                                          const std::function<absl::Status()>& work, bool settle) {
  auto meter = RunMeter::Create(opponent);
  if (!meter.ok()) return meter.status();
  const BenchDb::OnAgent before = db->TimeOnAgent();
  PULSE_RETURN_IF_ERROR((*meter)->Start());
  StallSampler stalls(db);
  const absl::Status worked = work();
  (*meter)->StopWall();
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
  PULSE_RETURN_IF_ERROR((*meter)->Stop(&result));
  db->CountOnAgent(before, &result);
  result["stall_share"] =
      static_cast<double>(db->Ticker(rocksdb::STALL_MICROS)) / 1e6 / (*meter)->wall_seconds();
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
    const double seconds = (*meter)->wall_seconds() + settled;
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
