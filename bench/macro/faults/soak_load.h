// The load of a soak: threads that write, overwrite, delete, read and scan, and check all that they
// read. The database and the ledger must outlive it. Start and Stop from one thread; figures may be
// read from any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/macro/faults/crash_ledger.h"
#include "rocksdb/db.h"

namespace pulse::bench {

class SoakLoad {
 public:
  enum Kind { kPut, kBatch, kDelete, kGet, kScan, kKinds };

  struct Figures {
    std::array<uint64_t, kKinds> ops{};
    uint64_t failed = 0;  // operations that returned an error
    uint64_t wrong = 0;   // reads that showed what they must not
    uint64_t total() const;
  };

  struct Plan {
    int threads = 1;
    size_t value_bytes = 0;
    uint64_t seed = 0;   // of values, and with `round` of operations
    uint64_t round = 0;  // of those on the same database; the first one fills it
  };
  SoakLoad(rocksdb::DB* db, CrashLedger* ledger, const Plan& plan);
  ~SoakLoad();

  // Every thread writes each of its keys once (with `round` 0), then goes on at random until
  // Stop().
  void Start();
  void Stop();
  // All keys have been written once.
  bool loaded() const { return loaded_.load() == threads_.size(); }
  // So many operations have failed that going on shows nothing more.
  bool hopeless() const { return hopeless_.load(); }

  Figures figures() const;
  // The longest write since the last call; one that has not returned counts as far as it got.
  int64_t TakeWorstWriteNanos();
  // How long the oldest operation under way has taken so far.
  int64_t OldestNanos() const;
  // The first of them, worded.
  std::vector<std::string> problems() const;

 private:
  struct Lane;
  void Run(Lane* lane);
  void Fill(Lane* lane);
  void Any(Lane* lane);
  void Put(Lane* lane, uint64_t key);
  void Delete(Lane* lane, uint64_t key);
  void Batch(Lane* lane);
  void Get(Lane* lane);
  void Scan(Lane* lane);
  template <typename Op>
  rocksdb::Status Timed(Lane* lane, Kind kind, const Op& op);
  void Failed(Lane* lane, const char* what, const rocksdb::Status& status);
  void Wrong(Lane* lane, uint64_t n, const std::string& what);
  uint64_t OwnKey(Lane* lane) const;

  rocksdb::DB* const db_;
  CrashLedger* const ledger_;
  const bool fills_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> loaded_{0};
  std::atomic<bool> hopeless_{false};
  mutable std::mutex mu_;
  std::vector<std::string> problems_;  // guarded by mu_
};

}  // namespace pulse::bench
