// Two INFO replies of a `pulse kv`, or `pulse serve`, and what went on between them. Plain data;
// any thread; does not block. What the server says is checked: a field that is missing or no number
// is an error.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "apps/pulse/top/cpu_lines.h"
#include "base/cpu_profile.h"

namespace pulse::top {

// By side (host, agent) and component (CpuComponent).
using CpuTable = std::array<CpuShares, kCpuSideNames.size()>;

struct KvSample {
  std::string version;
  std::string mode;        // of Redis: standalone, cluster
  std::string design;      // as it was asked for; empty: of a server that has none (pulse serve)
  std::string design_now;  // in force
  std::string policy;      // when memory is full; empty: as above
  uint64_t design_changes = 0;
  uint64_t pid = 0;
  uint64_t uptime = 0;  // seconds
  uint64_t clients = 0;
  // Since the start.
  uint64_t connections = 0;
  uint64_t commands = 0;
  uint64_t shared_requests = 0;  // of clients that share memory
  uint64_t errors = 0;
  uint64_t hits = 0, misses = 0;
  uint64_t expired = 0, evicted = 0, refused = 0;
  // Now.
  uint64_t keys = 0;
  uint64_t resident = 0;                   // bytes of the process
  uint64_t memory = 0;                     // the partitions' limit; 0: none
  uint64_t partitions = 0;                 // bytes that index, keys and values have taken
  uint64_t index = 0, live = 0, dead = 0;  // of these
  double cpu = 0;                          // seconds, of the process
  CpuTable profile{};                      // seconds, estimated
};

// The text of INFO. InvalidArgument: it is no PulseDB server's.
absl::StatusOr<KvSample> ParseInfo(std::string_view text);

struct KvRates {
  KvSample now;
  double seconds = 0;  // between the two replies; 0: there is one only
  // A second.
  double requests = 0;  // commands, and requests through shared memory
  double shared_requests = 0;
  double connections = 0;
  double errors = 0;
  double expired = 0, evicted = 0, refused = 0;
  double hit_share = -1;  // of reads; negative: there was none
  double cpu_share = 0;   // of one CPU, the whole process
  CpuTable shares{};      // of one CPU

  // CPU seconds for a request; 0: there was none.
  double PerRequest(size_t side, size_t component) const {
    return requests > 0 ? shares[side][component] / requests : 0;
  }
};

// `before` may be null, and of another process: then nothing is measured. `seconds` lie between.
KvRates CompareKv(const KvSample* before, KvSample now, double seconds);

}  // namespace pulse::top
