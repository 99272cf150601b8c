// The children of `pulse bench crash`: one that writes until it is killed, one that opens what was
// left and takes the time, and one that reads it all.
#include <chrono>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/errors.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/faults/crash_ledger.h"
#include "bench/macro/faults/soak_load.h"
#include "bench/macro/workload.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

std::string_view View(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

}  // namespace

absl::StatusOr<nlohmann::json> RunCrashLoadJob(const nlohmann::json& spec) {
  PULSE_ASSIGN_OR_RETURN(auto ledger, CrashLedger::Open(spec.at("ledger").get<std::string>()));
  auto db = BenchDb::Open(spec);
  if (!db.ok()) return db.status();
  ledger->SetStarted(true);
  SoakLoad load((*db)->db(), ledger.get(),
                {spec.at("threads").get<int>(), spec.at("value_bytes").get<size_t>(),
                 spec.at("seed").get<uint64_t>(), spec.at("round").get<uint64_t>() + 1});
  load.Start();
  // Until something goes wrong.
  while (load.problems().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ledger->Report(load.problems().front());
  load.Stop();
  return absl::DataLossError(ledger->problem());
}

absl::StatusOr<nlohmann::json> RunCrashOpenJob(const nlohmann::json& spec) {
  const int64_t begin = NowNanos();
  PULSE_ASSIGN_OR_RETURN(auto db, BenchDb::Open(spec));
  const double open_s = static_cast<double>(NowNanos() - begin) / 1e9;
  PULSE_RETURN_IF_ERROR(db->Close());
  return nlohmann::json{{"open_s", open_s}};
}

absl::StatusOr<nlohmann::json> RunCrashCheckJob(const nlohmann::json& spec) {
  PULSE_ASSIGN_OR_RETURN(auto opened, CrashLedger::Open(spec.at("ledger").get<std::string>()));
  CrashLedger& ledger = *opened;
  const ValueMaker values(spec.at("value_bytes").get<size_t>(), spec.at("seed").get<uint64_t>());
  Variant stock;
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
