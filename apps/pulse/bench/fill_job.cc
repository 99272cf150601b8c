#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "bench/bench_db.h"
#include "bench/child_jobs.h"
#include "bench/run_meter.h"
#include "bench/workload.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

struct FillPlan {
  uint64_t num = 0;
  size_t value_bytes = 0;
  uint64_t seed = 0;
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
    KeyStream keys(KeyOrder::kRandom, plan.num, plan.seed + id * 0x10001);
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

// Runs all writers to their end and returns their latencies together.
absl::StatusOr<Histogram> WriteAll(BenchDb* db, const FillPlan& plan) {
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<std::thread> threads;
  for (int i = 0; i < plan.threads; ++i) writers.push_back(std::make_unique<Writer>());
  for (int i = 0; i < plan.threads; ++i) {
    Writer* writer = writers[static_cast<size_t>(i)].get();
    threads.emplace_back([writer, db, &plan, i] { writer->Run(db->db(), plan, i); });
  }
  for (std::thread& thread : threads) thread.join();
  Histogram all;
  for (const auto& writer : writers) {
    PULSE_RETURN_IF_ERROR(writer->status);
    all.Merge(writer->latency);
  }
  return all;
}

void AddLatencies(const Histogram& latency, nlohmann::json* result) {
  const auto micros = [](uint64_t nanos) { return static_cast<double>(nanos) / 1e3; };
  (*result)["mean_us"] = latency.Mean() / 1e3;
  (*result)["p50_us"] = micros(latency.ValueAtPercentile(50));
  (*result)["p99_us"] = micros(latency.ValueAtPercentile(99));
  (*result)["p99.9_us"] = micros(latency.ValueAtPercentile(99.9));
  (*result)["p99.99_us"] = micros(latency.ValueAtPercentile(99.99));
  (*result)["max_us"] = micros(latency.Max());
}

}  // namespace

absl::StatusOr<nlohmann::json> RunFillJob(const nlohmann::json& spec) {
  const Opponent opponent = OpponentFromJson(spec.at("opponent"));
  FillPlan plan;
  spec.at("num").get_to(plan.num);
  spec.at("value_bytes").get_to(plan.value_bytes);
  spec.at("seed").get_to(plan.seed);
  spec.at("threads").get_to(plan.threads);
  auto opened =
      BenchDb::Open(spec.at("dir").get<std::string>(), opponent, DbShapeFromJson(spec.at("shape")));
  if (!opened.ok()) return opened.status();
  BenchDb& db = **opened;
  auto meter = RunMeter::Create(opponent);
  if (!meter.ok()) return meter.status();

  // CPU time includes the compactions that the writes have left behind: they are owed work.
  PULSE_RETURN_IF_ERROR((*meter)->Start());
  StallSampler stalls(&db);
  const auto latency = WriteAll(&db, plan);
  (*meter)->StopWall();
  stalls.Stop();
  if (!latency.ok()) return latency.status();
  const int64_t written = NowNanos();
  db.WaitUntilSettled();
  nlohmann::json result;
  result["settle_s"] = static_cast<double>(NowNanos() - written) / 1e9;
  PULSE_RETURN_IF_ERROR((*meter)->Stop(&result));

  const double wall = (*meter)->wall_seconds();
  const auto bytes = static_cast<double>(plan.num * (kKeyBytes + plan.value_bytes));
  result["ops_per_s"] = static_cast<double>(plan.num) / wall;
  result["mib_per_s"] = bytes / (1 << 20) / wall;
  AddLatencies(*latency, &result);
  result["stall_share"] =
      static_cast<double>(db.Ticker(rocksdb::STALL_MICROS)) / 1e6 / (wall * plan.threads);
  result["delayed_share"] = stalls.delayed();
  result["stopped_share"] = stalls.stopped();
  db.AddSyncTimes(&result);
  result["flush_bytes"] = db.Ticker(rocksdb::FLUSH_WRITE_BYTES);
  result["compaction_read_bytes"] = db.Ticker(rocksdb::COMPACT_READ_BYTES);
  result["compaction_write_bytes"] = db.Ticker(rocksdb::COMPACT_WRITE_BYTES);
  PULSE_RETURN_IF_ERROR(db.Close());
  return result;
}

}  // namespace pulse::bench
