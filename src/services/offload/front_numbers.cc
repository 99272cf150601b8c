#include "services/offload/front_numbers.h"

namespace pulse::offload {
namespace {

constexpr NumberSpec kBytes = {"read_bytes", Unit::kBytes, NumberKind::kCounter,
                               "pulse_offload_read_bytes_total", "Bytes in answers from files."};
constexpr NumberSpec kOff = {
    "off", Unit::kCount, NumberKind::kGauge, "pulse_offload_off",
    "1: a function of the offload program has failed, and the host answers everything."};
constexpr NumberSpec kItems = {"cache_items", Unit::kCount, NumberKind::kGauge,
                               "pulse_offload_cache_items", "Items in the cache table."};
constexpr NumberSpec kTableBytes = {"cache_bytes", Unit::kBytes, NumberKind::kGauge,
                                    "pulse_offload_cache_bytes", "Memory of the cache table."};
constexpr NumberSpec kInserts = {"cache_inserts", Unit::kCount, NumberKind::kCounter,
                                 "pulse_offload_cache_inserts_total", "Items with new keys."};
constexpr NumberSpec kEvictions = {"cache_evictions", Unit::kCount, NumberKind::kCounter,
                                   "pulse_offload_cache_evictions_total",
                                   "Items that made way for others."};

}  // namespace

std::vector<Number> FrontNumbers(const EngineStats& stats) {
  return {{&kBytes, stats[EngineStats::kBytes]}, {&kOff, stats.off ? uint64_t{1} : 0},
          {&kItems, stats.table.items},          {&kTableBytes, stats.table.bytes},
          {&kInserts, stats.table.inserted},     {&kEvictions, stats.table.evicted}};
}

}  // namespace pulse::offload
