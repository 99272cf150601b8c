// What a GraphService has run, for metrics. Any thread; nothing waits.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "services/graph/session/failure.h"

namespace pulse::cypher {

enum class StatementKind : uint8_t { kRead, kWrite, kSchema };
inline constexpr std::array<const char*, 3> kStatementKindNames = {"read", "write", "schema"};

// Why statements failed. kCompile: not parsed or planned, so of no kind.
enum class FailureReason : uint8_t {
  kCompile,
  kConflict,    // lost against another transaction, and was not run again with success
  kTime,        // the limit of time
  kMemory,      // a limit of memory
  kDisk,        // a full disk, a quota or a limit of the size of files
  kTerminated,  // by TERMINATE, or since its client has gone
  kRefused,     // by permissions
  kOther,       // an error of the statement, or of the store
};
inline constexpr std::array<const char*, 8> kFailureReasonNames = {
    "compile", "conflict", "time", "memory", "disk", "terminated", "refused", "other"};

inline FailureReason ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAborted:
      return FailureReason::kConflict;
    case absl::StatusCode::kDeadlineExceeded:
      return FailureReason::kTime;
    case absl::StatusCode::kResourceExhausted:
      return IsDiskFull(status) ? FailureReason::kDisk : FailureReason::kMemory;
    case absl::StatusCode::kCancelled:
      return FailureReason::kTerminated;
    case absl::StatusCode::kPermissionDenied:
      return FailureReason::kRefused;
    default:
      return FailureReason::kOther;
  }
}

// At about one moment: what one statement adds may be there in part.
struct StatementNumbers {
  // Bucket i counts statements of at most kFirstNanos << 2 * i, and more than those before; the
  // last one has no limit.
  static constexpr int64_t kFirstNanos = 64'000;
  static constexpr size_t kBuckets = 11;

  std::array<uint64_t, kStatementKindNames.size()> ended{};  // well or not
  std::array<uint64_t, kFailureReasonNames.size()> failed{};
  uint64_t conflicts = 0;  // times that a transaction lost against another
  uint64_t retries = 0;    // times that the service ran a statement again because of that
  uint64_t rows = 0;
  uint64_t nanos = 0;  // of all
  std::array<uint64_t, kBuckets> buckets{};
  uint64_t plans_found = 0, plans_made = 0;
  uint64_t spills = 0, spilled_bytes = 0;  // executions that wrote to temporary files; what
};

class StatementCounts {
 public:
  void CountStatement(StatementKind kind, const absl::Status& status, uint64_t rows,
                      int64_t nanos) {
    size_t bucket = 0;
    while (bucket + 1 < StatementNumbers::kBuckets &&
           nanos > (StatementNumbers::kFirstNanos << (2 * bucket))) {
      ++bucket;
    }
    Add(&ended_[static_cast<size_t>(kind)]);
    if (!status.ok()) CountFailure(ReasonOf(status));
    if (rows > 0) Add(&rows_, rows);
    Add(&nanos_, static_cast<uint64_t>(nanos));
    Add(&buckets_[bucket]);
  }
  void CountFailure(FailureReason reason) { Add(&failed_[static_cast<size_t>(reason)]); }
  void CountConflict() { Add(&conflicts_); }
  void CountRetry() { Add(&retries_); }
  void CountSpill(uint64_t bytes) {
    Add(&spills_);
    Add(&spilled_bytes_, bytes);
  }
  void CountPlan(bool found) { Add(found ? &plans_found_ : &plans_made_); }

  StatementNumbers Take() const {
    StatementNumbers numbers;
    for (size_t i = 0; i < ended_.size(); ++i) numbers.ended[i] = Get(ended_[i]);
    for (size_t i = 0; i < failed_.size(); ++i) numbers.failed[i] = Get(failed_[i]);
    for (size_t i = 0; i < buckets_.size(); ++i) numbers.buckets[i] = Get(buckets_[i]);
    numbers.conflicts = Get(conflicts_);
    numbers.retries = Get(retries_);
    numbers.rows = Get(rows_);
    numbers.nanos = Get(nanos_);
    numbers.plans_found = Get(plans_found_);
    numbers.plans_made = Get(plans_made_);
    numbers.spills = Get(spills_);
    numbers.spilled_bytes = Get(spilled_bytes_);
    return numbers;
  }

 private:
  using Counter = std::atomic<uint64_t>;
  static void Add(Counter* counter, uint64_t n = 1) {
    counter->fetch_add(n, std::memory_order_relaxed);
  }
  static uint64_t Get(const Counter& counter) { return counter.load(std::memory_order_relaxed); }

  std::array<Counter, kStatementKindNames.size()> ended_{};
  std::array<Counter, kFailureReasonNames.size()> failed_{};
  std::array<Counter, StatementNumbers::kBuckets> buckets_{};
  Counter conflicts_{0}, retries_{0}, rows_{0}, nanos_{0}, plans_found_{0}, plans_made_{0};
  Counter spills_{0}, spilled_bytes_{0};
};

}  // namespace pulse::cypher
