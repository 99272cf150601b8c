// What `pulse kv --shm` and its clients (pulse/kv_client.h) share: the messages of the handshake,
// over a Unix socket, and the layout of the memory that the server makes for a client.
//
//   client  kHello     args {pid, kShmService, 0, kShmVersion}, descriptors {the ring end of the
//                      client's doorbell, far memory}
//   server  kHelloAck  status, text; args {bytes of the memory, kShmVersion}, descriptor {memory}
//   server  kServiceAck, for each of its threads: args {thread}, descriptor {the ring end of the
//                      thread's doorbell for this client}
//
// Then the socket only shows that the other side lives. The memory is [ShmHeader: one page] and a
// queue pair for each partition (queue_pair.h). Requests for a key go to the queue pair of its
// partition, which the thread `partition % threads` serves.
//
// The far memory is the client's: a sealed memfd, of kShmFarBytes where the client's file sizes are
// not limited, with pages where it has made them. A value that fits into no buffer of the queue
// pairs lies at its beginning, of one request at a time (kFar). Both sides read and write it by
// calls, so that the server does not map it.
//
// Each side treats the other as untrusted. The server reads nothing of the header but the client's
// flag; the client copies it once and checks the copy.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "channel/wire.h"
#include "services/kv/queue_pair.h"

namespace pulse::kv {

inline constexpr uint64_t kShmMagic = 0x31304d48534b5650;  // "PVKSHM01", little-endian
inline constexpr uint32_t kShmService = 4;                 // in the hello; see services.cc
inline constexpr uint32_t kShmVersion = 3;
inline constexpr uint32_t kMostShmThreads = 16;
inline constexpr uint32_t kMostShmPartitions = 64;
inline constexpr uint32_t kMostShmSlots = 64;
inline constexpr uint32_t kMostShmBuffer = 64 << 20;
inline constexpr uint64_t kShmFarBytes = uint64_t{512} << 20;  // the largest value that there is

struct ShmFacts {
  uint64_t magic;
  uint64_t hash_seed;
  uint32_t version;
  uint32_t partitions;
  uint32_t threads;
  uint32_t slots;
  uint32_t batch;
  uint32_t buffer_bytes;

  QueuePairOptions queue() const { return {slots, batch, buffer_bytes}; }
  size_t bytes() const { return wire::kPage + partitions * QueuePair::BytesFor(queue()); }
  bool Valid() const {
    return magic == kShmMagic && version == kShmVersion && partitions >= 1 &&
           partitions <= kMostShmPartitions && threads >= 1 && threads <= kMostShmThreads &&
           std::has_single_bit(slots) && slots <= kMostShmSlots && batch >= 1 &&
           batch <= kMostInBatch && buffer_bytes % wire::kPage == 0 &&
           buffer_bytes <= kMostShmBuffer && buffer_bytes > RequestWriter::PayloadBegin(batch);
  }
};
static_assert(sizeof(ShmFacts) == 40);

struct ShmHeader {
  alignas(wire::kCacheLine) ShmFacts facts;
  wire::Line<uint32_t> client_waiting;                    // the client sleeps
  wire::Line<uint32_t> server_sleeping[kMostShmThreads];  // ... a thread of the server does
};
static_assert(sizeof(ShmHeader) <= wire::kPage);

// Of the queue pair of a partition, from the beginning of the memory.
inline size_t ShmQueueOffset(const ShmFacts& facts, uint32_t partition) {
  return wire::kPage + partition * QueuePair::BytesFor(facts.queue());
}

}  // namespace pulse::kv
