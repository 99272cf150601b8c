#include "bench/macro/faults/soak_load.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <set>

#include "base/clock.h"
#include "bench/macro/faults/scan_check.h"
#include "fmt/format.h"
#include "rocksdb/write_batch.h"

namespace pulse::bench {
namespace {

constexpr size_t kProblemsKept = 20;
constexpr uint64_t kHopeless = 200;
constexpr uint64_t kScanKeys = 200;

rocksdb::Slice ToSlice(const Key& key) { return {key.data(), key.size()}; }
rocksdb::Slice ToSlice(std::string_view s) { return {s.data(), s.size()}; }
std::string_view View(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

bool IsWrite(SoakLoad::Kind kind) {
  return kind == SoakLoad::kPut || kind == SoakLoad::kBatch || kind == SoakLoad::kDelete;
}

void Raise(std::atomic<int64_t>* most, int64_t to) {
  int64_t seen = most->load(std::memory_order_relaxed);
  while (seen < to && !most->compare_exchange_weak(seen, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

uint64_t SoakLoad::Figures::total() const {
  return std::accumulate(ops.begin(), ops.end(), uint64_t{0});
}

// One thread's own things; the atomics are also read by whoever samples.
struct alignas(64) SoakLoad::Lane {
  Lane(uint64_t i, const Plan& plan)
      : index(i),
        count(static_cast<uint64_t>(plan.threads)),
        dice(plan.seed + 1'000'003 * plan.round + 7919 * (i + 1)),
        values(plan.value_bytes, plan.seed) {}

  const uint64_t index;
  const uint64_t count;  // of lanes
  std::mt19937_64 dice;
  ValueMaker values;

  std::array<std::atomic<uint64_t>, kKinds> ops{};
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> wrong{0};
  std::atomic<int64_t> worst_write{0};
  std::atomic<int64_t> since{0};  // begin of the operation under way; 0: none
  std::atomic<bool> writing{false};
};

SoakLoad::SoakLoad(rocksdb::DB* db, CrashLedger* ledger, const Plan& plan)
    : db_(db), ledger_(ledger), fills_(plan.round == 0) {
  for (uint64_t i = 0; i < static_cast<uint64_t>(plan.threads); ++i) {
    lanes_.push_back(std::make_unique<Lane>(i, plan));
  }
}

SoakLoad::~SoakLoad() { Stop(); }

void SoakLoad::Start() {
  // Reserved first: loaded() compares with their number.
  threads_.reserve(lanes_.size());
  for (auto& lane : lanes_) threads_.emplace_back([this, l = lane.get()] { Run(l); });
}

void SoakLoad::Stop() {
  stop_ = true;
  for (std::thread& t : threads_) {
    if (t.joinable()) t.join();
  }
}

void SoakLoad::Run(Lane* lane) {
  if (fills_) Fill(lane);
  ++loaded_;
  while (!stop_.load(std::memory_order_relaxed)) Any(lane);
}

void SoakLoad::Fill(Lane* lane) {
  for (uint64_t key = lane->index; key < ledger_->keys() && !stop_; key += lane->count) {
    Put(lane, key);
  }
}

uint64_t SoakLoad::OwnKey(Lane* lane) const {
  const uint64_t mine = (ledger_->keys() - lane->index + lane->count - 1) / lane->count;
  return lane->dice() % mine * lane->count + lane->index;
}

void SoakLoad::Any(Lane* lane) {
  const uint64_t dice = lane->dice() % 100;
  const uint64_t batches = fills_ ? 2 : 15;  // what a kill could tear apart
  if (dice < 50 - batches) {
    Put(lane, OwnKey(lane));
  } else if (dice < 50) {
    Batch(lane);
  } else if (dice < 58) {
    Delete(lane, OwnKey(lane));
  } else if (dice < 98) {
    Get(lane);
  } else {
    Scan(lane);
  }
}

template <typename Op>
rocksdb::Status SoakLoad::Timed(Lane* lane, Kind kind, const Op& op) {
  const int64_t begin = NowNanos();
  lane->writing.store(IsWrite(kind), std::memory_order_relaxed);
  lane->since.store(begin, std::memory_order_relaxed);
  rocksdb::Status status = op();
  lane->since.store(0, std::memory_order_relaxed);
  if (IsWrite(kind)) Raise(&lane->worst_write, NowNanos() - begin);
  lane->ops[kind].fetch_add(1, std::memory_order_relaxed);
  return status;
}

void SoakLoad::Put(Lane* lane, uint64_t key) {
  rocksdb::WriteOptions options;
  options.sync = lane->dice() % 1000 == 0;
  const Key name = EncodeKey(key);
  const std::string_view value = lane->values.Make(key, ledger_->Begin(key, true));
  const rocksdb::Status s =
      Timed(lane, kPut, [&] { return db_->Put(options, ToSlice(name), ToSlice(value)); });
  if (!s.ok()) return Failed(lane, "put", s);
  ledger_->Acknowledge(key);
}

void SoakLoad::Delete(Lane* lane, uint64_t key) {
  const Key name = EncodeKey(key);
  ledger_->Begin(key, false);
  const rocksdb::Status s =
      Timed(lane, kDelete, [&] { return db_->Delete(rocksdb::WriteOptions(), ToSlice(name)); });
  if (!s.ok()) return Failed(lane, "delete", s);
  ledger_->Acknowledge(key);
}

// Several different keys at once, all or nothing.
void SoakLoad::Batch(Lane* lane) {
  std::set<uint64_t> keys;
  for (uint64_t n = 2 + lane->dice() % 15; n > 0; --n) keys.insert(OwnKey(lane));
  rocksdb::WriteBatch batch;
  rocksdb::Status s;
  for (const uint64_t key : keys) {
    const bool present = lane->dice() % 4 != 0;
    const uint64_t version = ledger_->Begin(key, present);
    const Key name = EncodeKey(key);
    s = present ? batch.Put(ToSlice(name), ToSlice(lane->values.Make(key, version)))
                : batch.Delete(ToSlice(name));
    if (!s.ok()) return Failed(lane, "batch", s);
  }
  s = Timed(lane, kBatch, [&] { return db_->Write(rocksdb::WriteOptions(), &batch); });
  if (!s.ok()) return Failed(lane, "batch", s);
  for (const uint64_t key : keys) ledger_->Acknowledge(key);
}

void SoakLoad::Get(Lane* lane) {
  const bool own = lane->dice() % 4 != 0;
  const uint64_t key = own ? OwnKey(lane) : lane->dice() % ledger_->keys();
  const Key name = EncodeKey(key);
  rocksdb::PinnableSlice value;
  const rocksdb::Status s = Timed(lane, kGet, [&] {
    return db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), ToSlice(name), &value);
  });
  if (!s.ok() && !s.IsNotFound()) return Failed(lane, "get", s);
  const std::string_view seen = View(value);
  if (own || key % lane->count == lane->index) {
    const std::string problem = ledger_->Check(key, s.ok() ? &seen : nullptr, lane->values);
    if (!problem.empty()) Wrong(lane, 1, "get: " + problem);
  } else if (s.ok() && !lane->values.Matches(key, seen)) {
    Wrong(lane, 1, fmt::format("get: key {} holds what was never its value", key));
  }
}

void SoakLoad::Scan(Lane* lane) {
  const uint64_t begin = lane->dice() % ledger_->keys();
  const uint64_t end = std::min(ledger_->keys(), begin + kScanKeys);
  ScanCheck check(ledger_, &lane->values, begin, lane->count, lane->index);
  const rocksdb::Status s = Timed(lane, kScan, [&] {
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
    for (it->Seek(ToSlice(EncodeKey(begin))); it->Valid(); it->Next()) {
      if (it->key().size() == kKeyBytes && DecodeKey(View(it->key())) >= end) break;
      check.See(View(it->key()), View(it->value()));
    }
    return it->status();
  });
  if (!s.ok()) return Failed(lane, "scan", s);
  check.End(end);
  if (check.wrong() != 0) Wrong(lane, check.wrong(), "scan: " + check.problems().front());
}

void SoakLoad::Failed(Lane* lane, const char* what, const rocksdb::Status& status) {
  if (++lane->failed >= kHopeless) hopeless_ = true;
  {
    std::lock_guard lock(mu_);
    if (problems_.size() < kProblemsKept) {
      problems_.push_back(fmt::format("{} failed: {}", what, status.ToString()));
    }
  }
  // A database that takes no writes would else be asked a million times.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void SoakLoad::Wrong(Lane* lane, uint64_t n, const std::string& what) {
  lane->wrong += n;
  std::lock_guard lock(mu_);
  if (problems_.size() < kProblemsKept) problems_.push_back(what);
}

SoakLoad::Figures SoakLoad::figures() const {
  Figures sum;
  for (const auto& lane : lanes_) {
    for (size_t k = 0; k < kKinds; ++k) sum.ops[k] += lane->ops[k].load(std::memory_order_relaxed);
    sum.failed += lane->failed.load();
    sum.wrong += lane->wrong.load();
  }
  return sum;
}

int64_t SoakLoad::TakeWorstWriteNanos() {
  const int64_t now = NowNanos();
  int64_t worst = 0;
  for (const auto& lane : lanes_) {
    worst = std::max(worst, lane->worst_write.exchange(0, std::memory_order_relaxed));
    const int64_t since = lane->since.load(std::memory_order_relaxed);
    if (since != 0 && lane->writing.load(std::memory_order_relaxed)) {
      worst = std::max(worst, now - since);
    }
  }
  return worst;
}

int64_t SoakLoad::OldestNanos() const {
  const int64_t now = NowNanos();
  int64_t oldest = 0;
  for (const auto& lane : lanes_) {
    const int64_t since = lane->since.load(std::memory_order_relaxed);
    if (since != 0) oldest = std::max(oldest, now - since);
  }
  return oldest;
}

std::vector<std::string> SoakLoad::problems() const {
  std::lock_guard lock(mu_);
  return problems_;
}

}  // namespace pulse::bench
