// The numbers that the session publishes for those who watch (channel/host_numbers.h).
#include "base/clock.h"
#include "channel/host_numbers.h"
#include "services/lsm/core/host_numbers.h"
#include "services/lsm/core/host_session.h"

namespace pulse::lsm {

void HostSession::Publish(const Connection& c) {
  HostNumbersCopy n;
  const auto set = [&n](HostNumber number, const std::atomic<uint64_t>& counter) {
    n[number] = counter.load(std::memory_order_relaxed);
  };
  set(HostNumber::kFilesPersisted, counters_.files_persisted);
  set(HostNumber::kBytesPersisted, counters_.bytes_persisted);
  set(HostNumber::kBytesInline, counters_.bytes_inline);
  set(HostNumber::kBackpressureWaits, counters_.backpressure_waits);
  set(HostNumber::kBackpressureNanos, counters_.backpressure_nanos);
  set(HostNumber::kBarrierWaits, counters_.barrier_waits);
  set(HostNumber::kBarrierNanos, counters_.barrier_nanos);
  set(HostNumber::kBytesFetched, counters_.bytes_fetched);
  set(HostNumber::kFetchWaits, counters_.fetch_waits);
  set(HostNumber::kFetchWaitNanos, counters_.fetch_wait_nanos);
  set(HostNumber::kFetchMisses, counters_.fetch_misses);
  set(HostNumber::kFailovers, counters_.failovers);
  set(HostNumber::kReconnects, counters_.reconnects);
  n[HostNumber::kAgentlessNanos] = agentless_nanos();
  const Occupancy now = occupancy();
  n[HostNumber::kStreams] = now.streams;
  n[HostNumber::kQueuedBytes] = now.bytes;
  n[HostNumber::kQueuedRequests] = now.requests;
  {
    std::lock_guard lock(mu_);
    const int64_t time = NowNanos();
    n[HostNumber::kTime] = static_cast<uint64_t>(time);
    n[HostNumber::kSyncs] = sync_times_.count();
    n[HostNumber::kSyncNanos] = sync_times_.nanos();
    n[HostNumber::kOutputsOpen] = open_outputs_.now();
    n[HostNumber::kOutputOpenNanos] = open_outputs_.Nanos(time);
    n[HostNumber::kQueueMemory] = (c->leased + c->free_streams.size()) * options_.queue_bytes;
    n[HostNumber::kDatabases] = databases_.size();
    n.names = databases_;
  }
  WriteHostNumbers(c->link->control(), n);
}

}  // namespace pulse::lsm
