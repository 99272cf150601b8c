#include "bench/macro/variant.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pulse::bench {

std::string PulseUri(const PulseTarget& target) {
  std::string uri = absl::StrCat("pulse://", target.agent_socket);
  std::vector<std::string> options;
  if (target.agent_socket.empty()) options.push_back("agent_cpus=" + target.agent_cpus);
  if (!target.extra.empty()) options.push_back(target.extra);
  if (!options.empty()) absl::StrAppend(&uri, "?", absl::StrJoin(options, "&"));
  return uri;
}

std::vector<Variant> StockVariants(const std::vector<int>& cpus) {
  Variant plain;
  plain.name = kStockDefault;
  plain.meaning = "stock RocksDB, default writes";
  plain.cpus = cpus;
  Variant bps = plain;
  bps.name = kStockBps;
  bps.meaning = "stock RocksDB, bytes_per_sync=1 MiB, strict";
  bps.bytes_per_sync = uint64_t{1} << 20;
  Variant direct = plain;
  direct.name = kStockDirect;
  direct.meaning = "stock RocksDB, direct I/O for flush and compaction";
  direct.direct_io = true;
  return {plain, bps, direct};
}

Variant PulseVariant(const PulseTarget& target, const std::vector<int>& cpus) {
  Variant pulse;
  pulse.name = kPulse;
  pulse.uri = PulseUri(target);
  pulse.agent_socket = target.agent_socket;
  pulse.meaning = "the same RocksDB on " + pulse.uri;
  pulse.cpus = cpus;
  return pulse;
}

Variant PulsePoolVariant(const PulseTarget& target, const std::vector<int>& cpus,
                         const std::string& pool) {
  PulseTarget in_pool = target;
  absl::StrAppend(&in_pool.extra, in_pool.extra.empty() ? "" : "&", "layout=pool&pool=", pool);
  Variant variant = PulseVariant(in_pool, cpus);
  variant.name = kPulsePool;
  variant.pool = pool;
  variant.meaning = "the same with its tables in a pool: " + variant.uri;
  return variant;
}

std::vector<Variant> StockOnBothProcessors(const std::vector<int>& cpus) {
  Variant plain = StockVariants(cpus).front();
  plain.name = kStock2Cpu;
  plain.meaning = "stock-default on host's and agent's CPUs together";
  Variant split = plain;
  split.name = kStock2CpuSub;
  split.meaning = "the same with max_subcompactions=2";
  split.subcompactions = 2;
  return {plain, split};
}

Variant StockCompressingOnBoth(const std::vector<int>& cpus) {
  Variant parallel = StockOnBothProcessors(cpus).front();
  parallel.name = kStock2CpuPar;
  parallel.meaning = "the same with parallel_threads=2";
  parallel.parallel_threads = 2;
  return parallel;
}

absl::StatusOr<std::vector<Variant>> Select(std::vector<Variant> all,
                                            const std::vector<std::string>& names) {
  if (names.empty()) return all;
  std::vector<Variant> chosen;
  for (const std::string& name : names) {
    const auto it =
        std::find_if(all.begin(), all.end(), [&name](const Variant& o) { return o.name == name; });
    if (it == all.end()) {
      const auto append_name = [](std::string* out, const Variant& o) { out->append(o.name); };
      return absl::InvalidArgumentError(absl::StrCat("--variants: there is no \"", name,
                                                     "\" here; choose from ",
                                                     absl::StrJoin(all, ", ", append_name)));
    }
    chosen.push_back(*it);
  }
  return chosen;
}

}  // namespace pulse::bench
