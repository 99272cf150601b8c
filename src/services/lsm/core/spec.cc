#include "services/lsm/core/spec.h"

#include <iterator>

#include "channel/wire.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/host_numbers.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {
namespace {

constexpr IoClassSpec kIoClassSpecs[] = {{IoClass::kCritical, "flush"},
                                         {IoClass::kElevated, "base"},
                                         {IoClass::kBackground, "deep"},
                                         {IoClass::kUnknown, "other"}};

// By RequestKind.
constexpr const char* kRequestKinds[] = {"open", "read",       "write",  "range_sync",
                                         "sync", "sync_close", "discard"};
static_assert(std::size(kRequestKinds) == static_cast<size_t>(RequestKind::kCount));

constexpr NumberSpec kHostNumberSpecs[] = {
    {"time", Unit::kNanos, NumberKind::kGauge},
    {"files_persisted", Unit::kCount, NumberKind::kCounter, "pulse_host_persisted_files_total",
     "Outputs that the agent wrote."},
    {"bytes_persisted", Unit::kBytes, NumberKind::kCounter, "pulse_host_persisted_bytes_total",
     "Bytes of outputs handed to the agent."},
    {"bytes_inline", Unit::kBytes, NumberKind::kCounter, "pulse_host_inline_bytes_total",
     "Bytes of outputs that the host wrote by itself, for want of an agent or a queue."},
    {"backpressure_waits", Unit::kCount, NumberKind::kCounter,
     "pulse_host_backpressure_waits_total", "Waits of appends for queue space."},
    {"backpressure_nanos", Unit::kNanos, NumberKind::kCounter,
     "pulse_host_backpressure_seconds_total", "Time that appends waited for queue space."},
    {"barrier_waits", Unit::kCount, NumberKind::kCounter, "pulse_host_barrier_waits_total",
     "Waits of metadata for outputs to be durable."},
    {"barrier_nanos", Unit::kNanos, NumberKind::kCounter, "pulse_host_barrier_seconds_total",
     "Time that metadata waited for outputs to be durable."},
    {"bytes_fetched", Unit::kBytes, NumberKind::kCounter, "pulse_host_fetched_bytes_total",
     "Compaction input served from the agent's read-ahead."},
    {"fetch_waits", Unit::kCount, NumberKind::kCounter, "pulse_host_fetch_waits_total",
     "Waits of compaction reads for the agent."},
    {"fetch_wait_nanos", Unit::kNanos, NumberKind::kCounter, "pulse_host_fetch_wait_seconds_total",
     "Time that compaction reads waited for the agent."},
    {"fetch_misses", Unit::kCount, NumberKind::kCounter, "pulse_host_fetch_misses_total",
     "Compaction reads that went to the file directly."},
    {"failovers", Unit::kCount, NumberKind::kCounter, "pulse_host_failovers_total",
     "Agents that the host has lost."},
    {"reconnects", Unit::kCount, NumberKind::kCounter, "pulse_host_reconnects_total",
     "Agents that the host has found again."},
    {"agentless_nanos", Unit::kNanos, NumberKind::kCounter, "pulse_host_agentless_seconds_total",
     "Time that the host was without an agent."},
    {"syncs", Unit::kCount, NumberKind::kCounter, "pulse_host_syncs_total",
     "Outputs synced and closed by the agent, as the host saw it."},
    {"sync_nanos", Unit::kNanos, NumberKind::kCounter, "pulse_host_sync_seconds_total",
     "How long that took altogether, as the host saw it."},
    {"output_open_nanos", Unit::kNanos, NumberKind::kCounter,
     "pulse_host_output_open_seconds_total",
     "For how long outputs were open for writing, summed over them."},
    {"outputs_open", Unit::kCount, NumberKind::kGauge, "pulse_host_outputs_open",
     "Outputs open for writing."},
    {"streams", Unit::kCount, NumberKind::kGauge, "pulse_host_streams",
     "Outputs that have a queue of their own."},
    {"queued_bytes", Unit::kBytes, NumberKind::kGauge, "pulse_host_queued_bytes",
     "Payload that the agent has not given back."},
    {"queued_requests", Unit::kCount, NumberKind::kGauge, "pulse_host_queued_requests",
     "Requests that the agent has not taken."},
    {"queue_memory", Unit::kBytes, NumberKind::kGauge, "pulse_host_queue_memory_bytes",
     "Memory of the host's queues."},
    {"databases", Unit::kCount, NumberKind::kGauge, "pulse_host_databases",
     "Databases that are open."},
};
static_assert(std::size(kHostNumberSpecs) == static_cast<size_t>(HostNumber::kCount) &&
              std::size(kHostNumberSpecs) <= wire::kHostNumbers);

}  // namespace

const ServiceSpec kSpec = {.name = "lsm",
                           .id = kServiceId,
                           .version = kServiceVersion,
                           .start_hint = "pulse agent",
                           .io_classes = kIoClassSpecs,
                           .request_kinds = kRequestKinds,
                           .counts_syncs = true,
                           .host_numbers = kHostNumberSpecs,
                           .embeddable = true};

}  // namespace pulse::lsm
