// What a process that is killed has promised: for every key the change that was begun last and the
// one that was acknowledged last, in a file mapped by the process and by whoever comes after it.
// The page cache survives the process, so the ledger is exact up to the instruction at which it was
// killed.
//
// Each key has one writer at a time, with one change under way; different keys may be changed by
// different threads at once. Check and Settle belong to a time without writers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "bench/macro/workload.h"

namespace pulse::bench {

class CrashLedger {
 public:
  // Values begin with their version.
  static constexpr size_t kMinValueBytes = 16;

  // A new one at `path`, of keys that are all absent; or the one that is there.
  static absl::StatusOr<std::unique_ptr<CrashLedger>> Create(const std::string& path,
                                                             uint64_t keys);
  static absl::StatusOr<std::unique_ptr<CrashLedger>> Open(const std::string& path);
  ~CrashLedger();
  CrashLedger(const CrashLedger&) = delete;
  CrashLedger& operator=(const CrashLedger&) = delete;

  uint64_t keys() const { return header_->keys; }
  uint64_t operations() const { return header_->operations.load(); }
  // The process of this round has opened its database.
  void SetStarted(bool started) { header_->started.store(started ? 1 : 0); }
  bool started() const { return header_->started.load() != 0; }

  // A change of `key` begins; returns its version, which the value must carry.
  uint64_t Begin(uint64_t key, bool present);
  // The change begun last was acknowledged.
  void Acknowledge(uint64_t key);

  // An operation failed, or a read showed what it must not. The first is kept, worded.
  void Report(const std::string& problem);
  std::string problem() const;

  // Empty when `key` may hold `value` (null: nothing): what was acknowledged last, or what was
  // begun and not acknowledged. Else what is wrong. While there are writers: for the key's own.
  std::string Check(uint64_t key, const std::string_view* value, const ValueMaker& values) const;
  // What the database holds after a crash is from now on what it must hold.
  void Settle(uint64_t key, const std::string_view* value);

 private:
  // A change: its version, and whether it leaves the key present.
  struct Change {
    uint64_t word = 0;
    uint64_t version() const { return word >> 1; }
    bool present() const { return (word & 1) != 0; }
  };
  struct Entry {
    std::atomic<uint64_t> begun;
    std::atomic<uint64_t> acknowledged;
    std::atomic<uint64_t> version;  // the last one given out
  };
  struct Header {
    uint64_t magic;
    uint64_t keys;
    std::atomic<uint64_t> operations;
    std::atomic<uint32_t> started;
    std::atomic<uint32_t> problems;
    std::array<char, 480> first_problem;
  };

  CrashLedger(void* map, size_t bytes);
  static absl::StatusOr<std::unique_ptr<CrashLedger>> Map(const std::string& path, int flags,
                                                          uint64_t keys);
  static std::string Fault(uint64_t key, Change must, const std::string_view* value);
  Entry& entry(uint64_t key) const { return entries_[key]; }

  void* const map_;
  const size_t bytes_;
  Header* const header_;
  Entry* const entries_;
};

}  // namespace pulse::bench
