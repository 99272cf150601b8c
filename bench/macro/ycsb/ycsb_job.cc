// One YCSB workload in a process of its own: threads in a closed loop, every value read checked.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/measured_run.h"
#include "bench/macro/workload.h"
#include "bench/macro/ycsb/workload_spec.h"
#include "nlohmann/json.hpp"
#include "rocksdb/iterator.h"

namespace pulse::bench {
namespace {

struct Plan {
  WorkloadSpec workload;
  uint64_t records = 0;     // there from the start
  uint64_t operations = 0;  // of all threads together
  uint64_t most_records = 0;
  size_t value_bytes = 0;
  uint64_t seed = 0;
  uint64_t threads = 1;
};

rocksdb::Slice ToSlice(const Key& key) { return {key.data(), key.size()}; }
std::string_view View(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

// Neighbouring records lie apart, as YCSB's hashed insert order has it.
uint64_t KeyNumber(uint64_t record) { return Mix(record + 1); }

class Worker {
 public:
  Worker(const Plan& plan, uint64_t index, rocksdb::DB* db, InsertCounter* inserts,
         std::atomic<bool>* failed)
      : plan_(plan),
        index_(index),
        db_(db),
        inserts_(inserts),
        failed_(failed),
        random_(Mix(plan.seed * 0x10001 + index)),
        keys_(plan.workload.distribution, plan.most_records, inserts, random_.Next()),
        values_(plan.value_bytes, plan.seed) {}

  void Run() {
    const uint64_t mine =
        plan_.operations / plan_.threads + (index_ < plan_.operations % plan_.threads ? 1 : 0);
    for (; done_ < mine && !failed_->load(std::memory_order_relaxed); ++done_) {
      status_ = One(plan_.workload.Pick(&random_));
      if (!status_.ok()) failed_->store(true, std::memory_order_relaxed);
    }
  }

  const absl::Status& status() const { return status_; }
  const Histogram& reads() const { return reads_; }
  const Histogram& writes() const { return writes_; }
  const Histogram& scans() const { return scans_; }
  uint64_t scanned() const { return scanned_; }

 private:
  absl::Status One(Operation operation) {
    switch (operation) {
      case Operation::kRead:
        return Read(keys_.Next());
      case Operation::kUpdate:
        return Write(keys_.Next());
      case Operation::kInsert:
        return Insert();
      case Operation::kScan:
        return Scan(keys_.Next(), PickScanLength(&random_));
      case Operation::kReadModifyWrite: {
        const uint64_t record = keys_.Next();
        PULSE_RETURN_IF_ERROR(Read(record));
        return Write(record);
      }
    }
    return absl::InternalError("an operation that no workload has");
  }

  absl::Status Read(uint64_t record) {
    const uint64_t number = KeyNumber(record);
    const Key key = EncodeKey(number);
    const int64_t start = NowNanos();
    const rocksdb::Status got = db_->Get(read_, db_->DefaultColumnFamily(), ToSlice(key), &value_);
    reads_.Record(static_cast<uint64_t>(NowNanos() - start));
    if (got.IsNotFound()) return Wrong(number);
    if (!got.ok()) return FromRocks(got, absl::StrCat("reading record ", record));
    const bool right = values_.Matches(number, View(value_));
    value_.Reset();
    return right ? absl::OkStatus() : Wrong(number);
  }

  absl::Status Write(uint64_t record) {
    const uint64_t number = KeyNumber(record);
    const Key key = EncodeKey(number);
    const std::string_view value = values_.Make(number, index_ << 48 | done_);
    const int64_t start = NowNanos();
    const rocksdb::Status put =
        db_->Put(write_, ToSlice(key), rocksdb::Slice(value.data(), value.size()));
    writes_.Record(static_cast<uint64_t>(NowNanos() - start));
    return FromRocks(put, absl::StrCat("writing record ", record));
  }

  absl::Status Insert() {
    const uint64_t record = inserts_->Take();
    PULSE_RETURN_IF_ERROR(Write(record));  // the run ends with it, so nobody misses the number
    inserts_->Acknowledge(record);
    return absl::OkStatus();
  }

  // Timed with the checks, which cost less than the steps between them.
  absl::Status Scan(uint64_t record, uint64_t length) {
    const Key first = EncodeKey(KeyNumber(record));
    const int64_t start = NowNanos();
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read_));
    it->Seek(ToSlice(first));
    if (it->Valid() && it->key() != ToSlice(first)) return Wrong(KeyNumber(record));
    uint64_t seen = 0;
    for (; seen < length && it->Valid(); it->Next(), ++seen) {
      const uint64_t number = DecodeKey(View(it->key()));
      if (!values_.Matches(number, View(it->value()))) return Wrong(number);
    }
    scans_.Record(static_cast<uint64_t>(NowNanos() - start));
    scanned_ += seen;
    PULSE_RETURN_IF_ERROR(FromRocks(it->status(), absl::StrCat("scanning from record ", record)));
    return seen == 0 ? Wrong(KeyNumber(record)) : absl::OkStatus();
  }

  absl::Status Wrong(uint64_t number) const {
    return absl::DataLossError(absl::StrCat(
        "workload ", plan_.workload.name, " read a wrong database: key number ", number,
        " is missing or does not hold what was written; the file system under test lost data"));
  }

  const Plan& plan_;
  const uint64_t index_;
  rocksdb::DB* const db_;
  InsertCounter* const inserts_;
  std::atomic<bool>* const failed_;
  Random random_;
  KeyChooser keys_;
  ValueMaker values_;
  const rocksdb::ReadOptions read_;
  const rocksdb::WriteOptions write_;
  rocksdb::PinnableSlice value_;
  uint64_t done_ = 0;
  uint64_t scanned_ = 0;
  Histogram reads_, writes_, scans_;  // nanoseconds
  absl::Status status_;
};

class Crew {
 public:
  Crew(const Plan& plan, rocksdb::DB* db) : inserts_(plan.records) {
    for (uint64_t i = 0; i < plan.threads; ++i) {
      workers_.push_back(std::make_unique<Worker>(plan, i, db, &inserts_, &failed_));
    }
  }

  absl::Status Run() {
    std::vector<std::thread> threads;
    for (auto& worker : workers_) threads.emplace_back([w = worker.get()] { w->Run(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& worker : workers_) PULSE_RETURN_IF_ERROR(worker->status());
    return absl::OkStatus();
  }

  void AddTo(nlohmann::json* result) const {
    Histogram reads, writes, scans;
    uint64_t scanned = 0;
    for (const auto& worker : workers_) {
      reads.Merge(worker->reads());
      writes.Merge(worker->writes());
      scans.Merge(worker->scans());
      scanned += worker->scanned();
    }
    const auto add = [result](const char* what, const Histogram& latency) {
      if (latency.Count() == 0) return;
      (*result)[absl::StrCat(what, "s")] = latency.Count();
      AddLatencies(latency, absl::StrCat(what, "_"), result);
    };
    add("read", reads);
    add("write", writes);
    add("scan", scans);
    if (scanned != 0) (*result)["scanned_records"] = scanned;
    (*result)["records_after"] = inserts_.acknowledged();
  }

 private:
  InsertCounter inserts_;
  std::atomic<bool> failed_{false};
  std::vector<std::unique_ptr<Worker>> workers_;
};

absl::StatusOr<Plan> PlanFrom(const nlohmann::json& spec) {
  Plan plan;
  const auto workload = SelectWorkloads({spec.at("workload").get<std::string>()});
  if (!workload.ok()) return workload.status();
  plan.workload = workload->front();
  spec.at("records").get_to(plan.records);
  spec.at("operations").get_to(plan.operations);
  spec.at("value_bytes").get_to(plan.value_bytes);
  spec.at("seed").get_to(plan.seed);
  spec.at("threads").get_to(plan.threads);
  // Twice the inserts to be expected, as YCSB reckons.
  plan.most_records = plan.records + plan.operations * plan.workload.insert / 100 * 2;
  return plan;
}

}  // namespace

absl::StatusOr<nlohmann::json> RunYcsbJob(const nlohmann::json& spec) {
  const Variant variant = spec.at("variant").get<Variant>();
  PULSE_ASSIGN_OR_RETURN(const auto plan, PlanFrom(spec));
  PULSE_ASSIGN_OR_RETURN(auto opened, BenchDb::Open(spec));
  BenchDb& db = *opened;
  Crew crew(plan, db.db());
  // Of two databases that hold the same, the one with more of them is the slower to scan.
  const uint64_t runs_before = db.SortedRuns();
  auto result = MeasureRun(
      &db, variant, [&crew] { return crew.Run(); }, spec.at("settle").get<bool>());
  if (!result.ok()) return result.status();
  (*result)["ops_per_s"] =
      static_cast<double>(plan.operations) / result->at("wall_s").get<double>();
  crew.AddTo(&*result);
  (*result)["sorted_runs_before"] = runs_before;
  (*result)["sorted_runs_after"] = db.SortedRuns();
  PULSE_RETURN_IF_ERROR(db.Close());
  return result;
}

}  // namespace pulse::bench
