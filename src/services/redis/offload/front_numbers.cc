#include "services/redis/offload/front_numbers.h"

namespace pulse::redis {
namespace {

constexpr NumberSpec kKnown = {
    "known", Unit::kCount, NumberKind::kCounter, "pulse_offload_known_total",
    "Answers from what the agent knew already, of reads and writes before."};
constexpr NumberSpec kKnownBytes = {"known_bytes", Unit::kBytes, NumberKind::kGauge,
                                    "pulse_offload_known_bytes", "Memory for that."};
constexpr NumberSpec kFromPageCache = {"from_page_cache", Unit::kCount, NumberKind::kCounter,
                                       "pulse_offload_from_page_cache_total",
                                       "Answers from blocks in the kernel's page cache."};
constexpr NumberSpec kFromDevice = {"from_device", Unit::kCount, NumberKind::kCounter,
                                    "pulse_offload_from_device_total",
                                    "Answers that had to wait for the device."};
constexpr NumberSpec kWritesInFlight = {
    "writes_in_flight", Unit::kCount, NumberKind::kGauge, "pulse_offload_writes_in_flight",
    "Keys whose writes the agent cannot read yet, or that are under way."};
constexpr NumberSpec kUnknownWrites = {
    "unknown_writes", Unit::kCount, NumberKind::kCounter, "pulse_offload_unknown_writes_total",
    "Writes whose outcome was not known when the host was lost."};
constexpr NumberSpec kFences = {"fences", Unit::kCount, NumberKind::kCounter,
                                "pulse_offload_fences_total", "Fences that the host has answered."};
constexpr NumberSpec kCatchUps = {"catch_ups", Unit::kCount, NumberKind::kCounter,
                                  "pulse_offload_catch_ups_total",
                                  "Catch-ups of the secondary that counted."};
constexpr NumberSpec kCatchUpsRepeated = {
    "catch_ups_repeated", Unit::kCount, NumberKind::kCounter,
    "pulse_offload_catch_ups_repeated_total",
    "Catch-ups that the primary's flushes and compactions made void."};
constexpr NumberSpec kCatchUpNanos = {"catch_up_nanos", Unit::kNanos, NumberKind::kCounter,
                                      "pulse_offload_catch_up_seconds_total",
                                      "Time spent on catch-ups."};
constexpr NumberSpec kLagNanos = {"lag_nanos", Unit::kNanos, NumberKind::kGauge,
                                  "pulse_offload_lag_seconds",
                                  "From the last write's answer until the agent could read it."};
constexpr NumberSpec kMaxLagNanos = {"max_lag_nanos", Unit::kNanos, NumberKind::kGauge,
                                     "pulse_offload_max_lag_seconds", "The longest of them."};
constexpr NumberSpec kViewValid = {
    "view_valid", Unit::kCount, NumberKind::kGauge, "pulse_offload_view_valid",
    "0: the secondary cannot be read, and the host answers everything."};

}  // namespace

std::vector<Number> FrontNumbers(const OffloadedResp& reads) {
  const OffloadCounters& c = reads.counters();
  const OffloadNumbers n = reads.numbers();
  return {{&kKnown, c.known},
          {&kKnownBytes, n.known_bytes},
          {&kFromPageCache, c.from_page_cache},
          {&kFromDevice, c.from_device},
          {&kWritesInFlight, n.writes_in_flight},
          {&kUnknownWrites, c.lost},
          {&kFences, n.fences},
          {&kCatchUps, n.secondary.catch_ups},
          {&kCatchUpsRepeated, n.secondary.repeated},
          {&kCatchUpNanos, n.secondary.busy_us * 1000},
          {&kLagNanos, n.secondary.lag_us * 1000},
          {&kMaxLagNanos, n.secondary.max_lag_us * 1000},
          {&kViewValid, n.secondary.valid ? uint64_t{1} : 0}};
}

}  // namespace pulse::redis
