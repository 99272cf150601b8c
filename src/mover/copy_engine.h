// CopyEngine: copies within memory that this process reaches, for a worker that has other things to
// do meanwhile: submit a batch, go on, poll for completions. An on-chip engine (Intel DSA) or
// threads implement it; InlineCopyEngine, here, copies by the caller's CPU, so that there is always
// one. "On-chip acceleration" of a graph's sorts, flushes and compactions is III-B of the DSA
// paper. Copies between the memories of two processes are a Mover's.
//
// An engine may do a part of a copy and say how much (a page fault stops a hardware engine, and a
// bound on a worker's turn stops InlineCopyEngine): the caller submits the rest, RestOf. Copies of
// one engine run in any order and at the same time: who needs an order waits for the completion
// first.
//
// Ownership: the engine has none of the memory. Until its completion was polled, source and
// destination stay mapped, the source is not written, and the destination is neither read nor
// written. Destroy an engine when nothing is in flight; one destroyed earlier waits.
//
// Threads: one, the owner's. Nothing blocks, but for InlineCopyEngine, which copies. Lengths are
// bytes; any alignment is taken. Errors come in completions, and no error ends the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pulse {

struct CopyItem {
  const char* source = nullptr;
  char* destination = nullptr;
  uint64_t length = 0;
  uint64_t tag = 0;  // the caller's, returned in the completion
};

struct CopyCompletion {
  uint64_t tag = 0;
  // The first so many bytes are at the destination: all, or fewer though `status` is OK. Beyond
  // them the destination's content is not defined.
  uint64_t done = 0;
  // InvalidArgument for an item that no engine can do; Unavailable when this one could not.
  absl::Status status;
};

// What is left of `item` when its first `done` bytes, at most its length, were copied.
inline CopyItem RestOf(CopyItem item, uint64_t done) {
  item.source += done;
  item.destination += done;
  item.length -= done;
  return item;
}

// OK, or why no engine does it: InvalidArgument for a null pointer, a range that wraps around the
// address space, or a source and a destination that overlap. A length of 0 is OK, wherever it
// points.
absl::Status CheckCopy(const CopyItem& item);

class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  // Takes the first of `n` items, in their order, and returns how many: fewer than n when the
  // engine is full, which is no error: poll, then submit the others. Each item taken gets one
  // completion; one that CheckCopy refuses is taken too, and completes with that status and nothing
  // done.
  virtual size_t Submit(const CopyItem* items, size_t n) = 0;
  // Copies up to `max` completions out, in any order; returns how many.
  virtual size_t Poll(CopyCompletion* out, size_t max) = 0;
  // Items taken whose completion was not polled; at most depth().
  virtual size_t in_flight() const = 0;
  virtual size_t depth() const = 0;
};

struct InlineCopyOptions {
  size_t depth = 64;
  // The most that one item copies before its completion: bounds the time that Submit takes.
  uint64_t piece = ~uint64_t{0};
  // From this length on stores bypass the caches: for destinations that are not read again soon.
  uint64_t stream_bytes = ~uint64_t{0};
};

// Copies while it submits. InvalidArgument for a depth or a piece of 0.
absl::StatusOr<std::unique_ptr<CopyEngine>> CreateInlineCopyEngine(
    const InlineCopyOptions& options);

}  // namespace pulse
