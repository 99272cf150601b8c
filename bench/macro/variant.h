// Who takes part in a benchmark: a name and the few settings in which one contender differs from
// another. Everything else is the same for all. Plain values; thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

struct Variant {
  std::string name;
  std::string meaning;          // one line for the legend
  std::string uri;              // of the file system; empty means RocksDB's own
  std::string pool;             // where its tables are; empty means in files
  std::string agent_socket;     // of an agent in its own process; empty means embedded or none
  std::string rival_engine;     // of bench/rivals, in the place of the embedded agent's; or empty
  uint64_t bytes_per_sync = 0;  // strict when not 0
  bool direct_io = false;       // for flush and compaction
  uint32_t subcompactions = 1;
  uint32_t parallel_threads = 1;  // that compress blocks, for each table
  std::vector<int> cpus;          // of the host process

  bool IsPulse() const { return !uri.empty(); }
};

// From JSON it throws nlohmann's exceptions: for specs that this program wrote.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Variant, name, meaning, uri, pool, agent_socket, rival_engine,
                                   bytes_per_sync, direct_io, subcompactions, parallel_threads,
                                   cpus)

// How PulseDB is reached.
struct PulseTarget {
  std::string agent_cpus = "1";  // of the embedded agent
  std::string agent_socket;      // not empty: attach to this agent instead
  std::string extra;             // further URI options, "key=value&key=value"
};

std::string PulseUri(const PulseTarget& target);

// The names that reports refer to.
inline constexpr char kStockDefault[] = "stock-default";
inline constexpr char kStockBps[] = "stock-bps";
inline constexpr char kStockDirect[] = "stock-direct";
inline constexpr char kPulse[] = "pulse";
inline constexpr char kPulsePool[] = "pulse-pool";
inline constexpr char kStock2Cpu[] = "stock-2cpu";
inline constexpr char kStock2CpuSub[] = "stock-2cpu-sub2";
inline constexpr char kStock2CpuPar[] = "stock-2cpu-par2";
inline constexpr char kHost[] = "host";
inline constexpr char kWhole[] = "whole";
inline constexpr char kAdaptive[] = "adaptive";

// Stock RocksDB as it comes, and its two tuned forms. All read ahead 2 MiB in compactions.
std::vector<Variant> StockVariants(const std::vector<int>& cpus);

Variant PulseVariant(const PulseTarget& target, const std::vector<int>& cpus);

// The same with its tables in the store at `pool`.
Variant PulsePoolVariant(const PulseTarget& target, const std::vector<int>& cpus,
                         const std::string& pool);

// Stock RocksDB on all the processors that PulseDB has, host's and agent's: as it comes, and with
// each compaction split in two.
std::vector<Variant> StockOnBothProcessors(const std::vector<int>& cpus);
// The same with two threads that compress blocks.
Variant StockCompressingOnBoth(const std::vector<int>& cpus);

// Keeps those named in `names` (all when empty). InvalidArgument for a name that nobody has.
absl::StatusOr<std::vector<Variant>> Select(std::vector<Variant> all,
                                            const std::vector<std::string>& names);

}  // namespace pulse::bench
