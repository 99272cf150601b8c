#include "services/redis/offload/front_numbers.h"

namespace pulse::redis {
namespace {

constexpr NumberSpec kSpecs[] = {
    {"known", Unit::kCount, NumberKind::kCounter, "pulse_offload_known_total",
     "Answers from what the agent knew already, of reads and writes before."},
    {"known_bytes", Unit::kBytes, NumberKind::kGauge, "pulse_offload_known_bytes",
     "Memory for that."},
    {"from_page_cache", Unit::kCount, NumberKind::kCounter, "pulse_offload_from_page_cache_total",
     "Answers from blocks in the kernel's page cache."},
    {"from_device", Unit::kCount, NumberKind::kCounter, "pulse_offload_from_device_total",
     "Answers that had to wait for the device."},
    {"writes_in_flight", Unit::kCount, NumberKind::kGauge, "pulse_offload_writes_in_flight",
     "Keys whose writes the agent cannot read yet, or that are under way."},
    {"unknown_writes", Unit::kCount, NumberKind::kCounter, "pulse_offload_unknown_writes_total",
     "Writes whose outcome was not known when the host was lost."},
    {"fences", Unit::kCount, NumberKind::kCounter, "pulse_offload_fences_total",
     "Fences that the host has answered."},
    {"catch_ups", Unit::kCount, NumberKind::kCounter, "pulse_offload_catch_ups_total",
     "Catch-ups of the secondary that counted."},
    {"catch_ups_repeated", Unit::kCount, NumberKind::kCounter,
     "pulse_offload_catch_ups_repeated_total",
     "Catch-ups that the primary's flushes and compactions made void."},
    {"catch_up_nanos", Unit::kNanos, NumberKind::kCounter, "pulse_offload_catch_up_seconds_total",
     "Time spent on catch-ups."},
    {"lag_nanos", Unit::kNanos, NumberKind::kGauge, "pulse_offload_lag_seconds",
     "From the last write's answer until the agent could read it."},
    {"max_lag_nanos", Unit::kNanos, NumberKind::kGauge, "pulse_offload_max_lag_seconds",
     "The longest of them."},
    {"view_valid", Unit::kCount, NumberKind::kGauge, "pulse_offload_view_valid",
     "0: the secondary cannot be read, and the host answers everything."},
};

}  // namespace

std::vector<Number> FrontNumbers(const OffloadedResp& reads) {
  const OffloadCounters& c = reads.counters();
  const OffloadNumbers n = reads.numbers();
  const uint64_t values[] = {
      c.known,
      n.known_bytes,
      c.from_page_cache,
      c.from_device,
      n.writes_in_flight,
      c.lost,
      n.fences,
      n.secondary.catch_ups,
      n.secondary.repeated,
      n.secondary.busy_us * 1000,
      n.secondary.lag_us * 1000,
      n.secondary.max_lag_us * 1000,
      static_cast<uint64_t>(n.secondary.valid),
  };
  static_assert(std::size(values) == std::size(kSpecs));
  std::vector<Number> numbers;
  for (size_t i = 0; i < std::size(values); ++i) numbers.push_back({&kSpecs[i], values[i]});
  return numbers;
}

}  // namespace pulse::redis
