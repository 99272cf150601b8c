// What a host of the LSM service publishes on its control page for those who watch
// (channel/host_numbers.h): counters since the host's FileSystem was made, unless said otherwise.
// Times in nanoseconds, sizes in bytes. spec.cc names them; their order is part of the protocol.
#pragma once

#include <cstddef>

namespace pulse::lsm {

enum class HostNumber : size_t {
  kTime,  // CLOCK_MONOTONIC of this writing
  kFilesPersisted,
  kBytesPersisted,
  kBytesInline,
  kBackpressureWaits,
  kBackpressureNanos,
  kBarrierWaits,
  kBarrierNanos,
  kBytesFetched,
  kFetchWaits,
  kFetchWaitNanos,
  kFetchMisses,
  kFailovers,
  kReconnects,
  kAgentlessNanos,
  kSyncs,
  kSyncNanos,        // their sum, as the host saw them
  kOutputOpenNanos,  // how long outputs were open for writing, summed over them
  // Of the moment.
  kOutputsOpen,
  kStreams,
  kQueuedBytes,
  kQueuedRequests,
  kQueueMemory,  // of the queues for outputs
  kDatabases,
  kCount,
};

}  // namespace pulse::lsm
