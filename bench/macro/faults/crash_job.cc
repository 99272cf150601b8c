// The children of `pulse bench crash`: one that writes until it is killed, one that opens what was
// left and takes the time, and one that reads it all.
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/errors.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/faults/crash_ledger.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "rocksdb/write_batch.h"

namespace pulse::bench {
namespace {

rocksdb::Slice ToSlice(const Key& key) { return {key.data(), key.size()}; }
rocksdb::Slice ToSlice(std::string_view s) { return {s.data(), s.size()}; }
std::string_view View(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

// One writing thread, on the keys whose number leaves `index` when divided by `count`.
class CrashWriter {
 public:
  CrashWriter(rocksdb::DB* db, CrashLedger* ledger, uint64_t index, uint64_t count,
              size_t value_bytes, uint64_t seed, uint64_t round)
      : db_(db),
        ledger_(ledger),
        index_(index),
        count_(count),
        values_(value_bytes, seed),
        dice_(seed + 1'000'003 * round + 7919 * (index + 1)) {}

  // Until something goes wrong.
  void Run() {
    while (!failed_) Any();
  }

 private:
  void Any() {
    const uint64_t dice = dice_() % 100;
    if (dice < 60) {
      Change(1);
    } else if (dice < 75) {
      Change(2 + dice_() % 15);
    } else {
      Get(OwnKey());
    }
  }

  uint64_t OwnKey() {
    const uint64_t mine = (ledger_->keys() - index_ + count_ - 1) / count_;
    return dice_() % mine * count_ + index_;
  }

  // Puts and deletions of `n` different keys, all or nothing.
  void Change(uint64_t n) {
    std::set<uint64_t> keys;
    while (n-- > 0) keys.insert(OwnKey());
    rocksdb::WriteBatch batch;
    rocksdb::Status s;
    for (const uint64_t key : keys) {
      const bool present = dice_() % 8 != 0;
      const uint64_t version = ledger_->Begin(key, present);
      const Key name = EncodeKey(key);
      s = present ? batch.Put(ToSlice(name), ToSlice(values_.Make(key, version)))
                  : batch.Delete(ToSlice(name));
      if (!s.ok()) return Fail("batch", s);
    }
    rocksdb::WriteOptions options;
    options.sync = dice_() % 1000 == 0;
    s = db_->Write(options, &batch);
    if (!s.ok()) return Fail("write", s);
    for (const uint64_t key : keys) ledger_->Acknowledge(key);
  }

  void Get(uint64_t key) {
    rocksdb::PinnableSlice value;
    const rocksdb::Status s = db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(),
                                       ToSlice(EncodeKey(key)), &value);
    if (!s.ok() && !s.IsNotFound()) return Fail("get", s);
    const std::string_view seen = View(value);
    const std::string problem = ledger_->Check(key, s.ok() ? &seen : nullptr, values_);
    if (problem.empty()) return;
    ledger_->Report("get: " + problem);
    failed_ = true;
  }

  void Fail(const char* what, const rocksdb::Status& status) {
    ledger_->Report(fmt::format("{} failed: {}", what, status.ToString()));
    failed_ = true;
  }

  rocksdb::DB* const db_;
  CrashLedger* const ledger_;
  const uint64_t index_, count_;
  ValueMaker values_;
  std::mt19937_64 dice_;
  bool failed_ = false;
};

}  // namespace

absl::StatusOr<nlohmann::json> RunCrashLoadJob(const nlohmann::json& spec) {
  auto ledger = CrashLedger::Open(spec.at("ledger").get<std::string>());
  if (!ledger.ok()) return ledger.status();
  auto db = BenchDb::Open(spec);
  if (!db.ok()) return db.status();
  const auto count = spec.at("threads").get<uint64_t>();
  (*ledger)->SetStarted(true);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      CrashWriter((*db)->db(), ledger->get(), i, count, spec.at("value_bytes").get<size_t>(),
                  spec.at("seed").get<uint64_t>(), spec.at("round").get<uint64_t>())
          .Run();
    });
  }
  for (std::thread& t : threads) t.join();
  return absl::DataLossError((*ledger)->problem());
}

absl::StatusOr<nlohmann::json> RunCrashOpenJob(const nlohmann::json& spec) {
  const int64_t begin = NowNanos();
  auto db = BenchDb::Open(spec);
  if (!db.ok()) return db.status();
  const double open_s = static_cast<double>(NowNanos() - begin) / 1e9;
  PULSE_RETURN_IF_ERROR((*db)->Close());
  return nlohmann::json{{"open_s", open_s}};
}

absl::StatusOr<nlohmann::json> RunCrashCheckJob(const nlohmann::json& spec) {
  auto opened = CrashLedger::Open(spec.at("ledger").get<std::string>());
  if (!opened.ok()) return opened.status();
  CrashLedger& ledger = **opened;
  const ValueMaker values(spec.at("value_bytes").get<size_t>(), spec.at("seed").get<uint64_t>());
  Opponent stock;
  stock.name = kStockDefault;
  auto db = BenchDb::Open(spec.at("dir").get<std::string>(), stock, spec.at("shape").get<DbShape>(),
                          /*read_only=*/true);
  if (!db.ok()) return db.status();
  PULSE_RETURN_IF_ERROR(FromRocks((*db)->db()->VerifyChecksum(), "verifying checksums"));

  uint64_t wrong = 0, present = 0, next = 0;
  std::string problem;
  const auto judge = [&](uint64_t key, const std::string_view* value) {
    const std::string fault = ledger.Check(key, value, values);
    if (!fault.empty() && wrong++ == 0) problem = fault;
    ledger.Settle(key, fault.empty() ? value : nullptr);
  };
  const std::unique_ptr<rocksdb::Iterator> it((*db)->db()->NewIterator(rocksdb::ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const uint64_t key = it->key().size() == kKeyBytes ? DecodeKey(View(it->key())) : ledger.keys();
    if (key >= ledger.keys() || key < next) {
      if (wrong++ == 0) problem = "a key that was never written, or out of order";
      continue;
    }
    for (; next < key; ++next) judge(next, nullptr);
    const std::string_view value = View(it->value());
    judge(next++, &value);
    ++present;
  }
  PULSE_RETURN_IF_ERROR(FromRocks(it->status(), "reading everything back"));
  for (; next < ledger.keys(); ++next) judge(next, nullptr);
  return nlohmann::json{
      {"checked", ledger.keys()}, {"present", present}, {"wrong", wrong}, {"problem", problem}};
}

}  // namespace pulse::bench
