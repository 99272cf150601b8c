// PricedQueue: a queue pair (services/kv/queue_pair.h) whose transfers take the time of a card's
// DMA engine, with one transfer for each batch and direction (section 4.2 of the DPU-KV paper).
// The bytes lie in memory that both threads see; the one that receives them finds a batch once the
// link says that its last byte is there. Every transfer is charged, also the first after an idle
// time. Without a link it is the queue pair alone.
//
// The link is shared by all queue pairs of a card, and outlives them. Threads: one for each side.
// Nothing blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/clock.h"
#include "services/kv/queue_pair.h"
#include "vdpu/dma_link.h"

namespace pulse::bench {

class PricedQueue {
 public:
  PricedQueue(const kv::QueuePairOptions& options, vdpu::DmaLink* link,
              int64_t (*clock)() = NowNanos)
      : pair_(options),
        link_(link),
        clock_(clock),
        requests_(options.slots),
        responses_(options.slots) {}

  const kv::QueuePairOptions& options() const { return pair_.options(); }

  // The agent's side.
  bool HasRoom() const { return pair_.HasRoom(); }
  uint64_t outstanding() const { return pair_.outstanding(); }
  kv::RequestWriter BeginRequests() { return pair_.BeginRequests(); }
  void Submit(size_t bytes) {
    Send(&requests_, bytes);
    pair_.Submit();
  }
  const char* PeekResponses() {
    const char* responses = pair_.PeekResponses();
    return responses != nullptr && HasArrived(responses_) ? responses : nullptr;
  }
  void TakeResponses() {
    ++responses_.received;
    pair_.TakeResponses();
  }

  // The host's side.
  const char* PeekRequests() {
    const char* requests = pair_.PeekRequests();
    return requests != nullptr && HasArrived(requests_) ? requests : nullptr;
  }
  // With a link nobody knows what has not arrived.
  const char* PeekNext() { return link_ == nullptr ? pair_.PeekNext() : nullptr; }
  char* ResponseBufferOfNext() { return pair_.ResponseBufferOfNext(); }
  char* ResponseBufferOfOldest() { return pair_.ResponseBufferOfOldest(); }
  // All responses of the oldest batch, in one transfer.
  void Answer(size_t bytes) {
    Send(&responses_, bytes);
    ++requests_.received;
    pair_.Answer();
  }

 private:
  // Of one direction. Times are published, and taken, with the batch that they are of.
  struct Direction {
    explicit Direction(size_t slots) : arrival(slots) {}
    std::vector<std::atomic<int64_t>> arrival;
    alignas(64) uint64_t sent = 0;      // the sender's
    alignas(64) uint64_t received = 0;  // the receiver's
  };
  void Send(Direction* to, size_t bytes) {
    if (link_ == nullptr) return;
    to->arrival[to->sent++ % to->arrival.size()].store(link_->Book(clock_(), bytes),
                                                       std::memory_order_relaxed);
  }
  bool HasArrived(const Direction& from) const {
    return link_ == nullptr || clock_() >= from.arrival[from.received % from.arrival.size()].load(
                                               std::memory_order_relaxed);
  }

  kv::QueuePair pair_;
  vdpu::DmaLink* const link_;
  int64_t (*const clock_)();
  Direction requests_;
  Direction responses_;
};

}  // namespace pulse::bench
