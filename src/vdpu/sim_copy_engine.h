// SimCopyEngine: a stand-in for an on-chip copy engine (Intel DSA), where there is none. A thread
// moves the bytes; when a copy counts as done, a priced engine says: rate, latency and time for
// each descriptor, and a work queue that is full. By its seed it also does what hardware does: ends
// in part at a page fault, fails, completes in any order, has its queue taken by others. For tests
// and for figures, which must call it what it is. Section III-B of the DSA paper.
//
// Threads and ownership: mover/copy_engine.h. Destroying it finishes what it took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "mover/copy_engine.h"

namespace pulse::vdpu {

struct SimCopyOptions {
  // The paper has 130 GB/s of eight engines, with HBM (section IV, "DSA Throughput"): 16.25 of one.
  // It has no latency in its text; a microsecond is assumed.
  double bandwidth_gb_s = 16.25;
  double latency_us = 1;
  double operation_us = 0;  // of each descriptor, on the engine
  size_t depth = 128;       // of the work queue
  uint64_t seed = 1;
  // Of a thousand copies, so many end in part with OK, as at a page fault that software resolves;
  // so many fail, after a part; of a thousand submissions, so many find less room than there is.
  uint32_t partial = 0;
  uint32_t failing = 0;
  uint32_t full = 0;
  // Completions that are due are given in any order.
  bool reorder = false;
};

// InvalidArgument for a rate, a latency or a depth that is none; ResourceExhausted where no thread
// can be started.
absl::StatusOr<std::unique_ptr<CopyEngine>> CreateSimCopyEngine(const SimCopyOptions& options);

}  // namespace pulse::vdpu
