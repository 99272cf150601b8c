// A queue pair: submission ring, completion ring and payload arena in one Region. PulseDB III-D.
//
// HostQueue and AgentQueue are the two views. Each ring end belongs to one thread at a time
// (callers lock where several threads share an end). Nothing here blocks, allocates or makes system
// calls.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "channel/region.h"
#include "channel/spsc_ring.h"
#include "channel/wire.h"

namespace pulse {

// Bytes of a region whose arena has `arena_bytes`.
inline size_t QueueRegionBytes(uint64_t arena_bytes) { return arena_bytes + wire::kMetaBytes; }

class HostQueue {
 public:
  // Lays out a fresh queue in `region`, which stays owned by the caller and outlives the view.
  // `arena_bytes` is a multiple of the page size within [kMinArenaBytes, kMaxArenaBytes].
  static absl::StatusOr<HostQueue> Init(const Region& region, uint32_t queue_id,
                                        uint64_t arena_bytes);

  bool TryPush(const wire::Descriptor& d) { return submissions_.TryPush(d); }
  bool TryPop(wire::Completion* c) { return completions_.TryPop(c); }
  bool HasCompletions() const { return !completions_.Empty(); }
  bool corrupt() const { return completions_.corrupt(); }

  // Free-running count of arena bytes that the agent has given back.
  uint64_t reclaimed() const { return header_->reclaimed.value.load(std::memory_order_acquire); }

  // Requests that the agent has not taken yet, as its cursor says. For statistics, by any thread.
  uint64_t untaken() const {
    const uint64_t tail = header_->submission_tail.value.load(std::memory_order_relaxed);
    const uint64_t head = header_->submission_head.value.load(std::memory_order_relaxed);
    return std::min<uint64_t>(tail - std::min(head, tail), wire::kSubmissionSlots);
  }

  char* arena() const { return arena_; }
  uint64_t arena_bytes() const { return arena_bytes_; }
  uint32_t id() const { return id_; }

 private:
  wire::QueueHeader* header_ = nullptr;
  char* arena_ = nullptr;
  uint64_t arena_bytes_ = 0;
  uint32_t id_ = 0;
  RingProducer<wire::Descriptor> submissions_;
  RingConsumer<wire::Completion> completions_;
};

class AgentQueue {
 public:
  // Takes over a queue that HostQueue laid out. Sizes come from `arena_bytes` and this header file,
  // never from shared memory. InvalidArgument for a wrong magic, version or geometry.
  static absl::StatusOr<AgentQueue> Attach(const Region& region, uint64_t arena_bytes);

  bool TryPop(wire::Descriptor* d) { return submissions_.TryPop(d); }
  bool TryPush(const wire::Completion& c) { return completions_.TryPush(c); }
  bool HasSubmissions() const { return !submissions_.Empty(); }
  bool corrupt() const { return submissions_.corrupt(); }
  void PublishReclaimed(uint64_t position) {
    header_->reclaimed.value.store(position, std::memory_order_release);
  }

  char* arena() const { return arena_; }
  uint64_t arena_bytes() const { return arena_bytes_; }

 private:
  wire::QueueHeader* header_ = nullptr;
  char* arena_ = nullptr;
  uint64_t arena_bytes_ = 0;
  RingConsumer<wire::Descriptor> submissions_;
  RingProducer<wire::Completion> completions_;
};

}  // namespace pulse
