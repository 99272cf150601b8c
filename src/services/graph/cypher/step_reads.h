// What PROFILE counts for a step while it runs: what the store reads, and the page faults of the
// thread. Each thread has its own; those before it first counts are nobody's.
#pragma once

#include <sys/resource.h>

#include <cstdint>

#include "services/graph/model/read_counts.h"

namespace pulse::cypher {

// What is read while it lives, page faults included, counts for a step, or for none.
class StepReads {
 public:
  explicit StepReads(ReadCounts* counts) : outer_(counted_reads), counting_(counts) {
    Settle(outer_);
  }
  ~StepReads() { Settle(counted_reads); }
  StepReads(const StepReads&) = delete;
  StepReads& operator=(const StepReads&) = delete;

 private:
  // For which a file was read.
  static uint64_t PageFaults() {
    rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<uint64_t>(usage.ru_majflt) : 0;
  }
  // Page faults since the last time are those of `counts`.
  static void Settle(ReadCounts* counts) {
    static thread_local uint64_t settled;
    const uint64_t now = PageFaults();
    if (counts != nullptr) counts->page_faults += now - settled;
    settled = now;
  }

  ReadCounts* const outer_;
  const CountReadsIn counting_;
};

}  // namespace pulse::cypher
