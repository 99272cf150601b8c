// ProcessBatch: the host's side of a queue pair. Carries out one batch of requests on a partition
// and writes the responses, as one transfer each way.
//
// The requests are untrusted: each descriptor is copied once and checked, but for hashes that are
// read ahead, which only say what is fetched; what makes no sense is answered with kMalformed, and
// harms no other request. All keys and values of a batch together are no larger than its buffer, so
// that a batch takes no longer than an honest one; but for one value that lies in far memory. That
// is copied while the partition is held: 512 MiB at most. Threads: the partition's owner.
#pragma once

#include <cstddef>

#include "services/kv/core/batch.h"
#include "services/kv/queue_pair.h"
#include "services/kv/wire.h"
#include "services/redis/commands/watch.h"

namespace pulse::kv {

struct BatchCounts {
  uint64_t requests = 0;
  uint64_t request_bytes = 0;   // of header and descriptors
  uint64_t response_bytes = 0;  // of whole transfers
};

// Memory of the client's own, for one value that no buffer holds: a sealed memfd. It is read and
// written, and never mapped: so what the client does to it meanwhile changes that value alone.
// Pages that the client has not made are made by the write, and then count as this process's in
// its control group, as long as the client or this process has the memfd.
struct FarMemory {
  int fd = -1;  // none
  uint64_t bytes = 0;
};

// What follows a batch in its stream, so that the misses of both overlap.
struct BatchAhead {
  Lookahead* lookahead = nullptr;  // the stream's; null: the batch is by itself
  const char* requests = nullptr;  // of the next batch, in a buffer of the same size; null: none
  char* responses = nullptr;       // where its responses will be
};

// Two buffers of `size` bytes, for at most `most` requests. Those before `first` were answered. One
// request of a batch, or of what is left of it, may use the far memory.
struct BatchBuffers {
  const char* requests;
  char* responses;
  size_t size;
  size_t most;
  size_t first = 0;
  FarMemory far = {};
  BatchAhead ahead = {};
};

struct BatchRules {
  // The agent is part of this process: its hashes are taken as they are.
  bool trusted = false;
  // Which partition it is, of how many; keys of others make no sense. Only of untrusted ones.
  uint32_t partition = 0;
  uint32_t partitions = 1;
  uint64_t most_far_bytes = kMaxValueBytes;  // of a value that is far
  redis::WatchTable* watch = nullptr;        // is told of the keys that are written
};

struct BatchResult {
  size_t bytes;     // of the transfer of responses
  size_t answered;  // requests
  bool whole;       // false: there was no room for the responses of those that follow
};
BatchResult ProcessBatch(Partition* partition, const BatchBuffers& buffers, const BatchRules& rules,
                         BatchCounts* counts);

}  // namespace pulse::kv
