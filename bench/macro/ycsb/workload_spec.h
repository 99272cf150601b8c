// The core workloads of YCSB (Cooper et al., SoCC 2010): what they do how often, to which records.
// Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/ycsb/key_chooser.h"

namespace pulse::bench {

enum class Operation { kRead, kUpdate, kInsert, kScan, kReadModifyWrite };

struct WorkloadSpec {
  std::string name;     // "load", "A" ... "F"
  std::string meaning;  // for the legend
  // Per cent of all operations; together 100.
  unsigned read = 0;
  unsigned update = 0;
  unsigned insert = 0;
  unsigned scan = 0;
  unsigned read_modify_write = 0;
  Distribution distribution = Distribution::kScrambledZipfian;

  bool IsLoad() const { return insert == 100; }
  // How many of `operations` write, about.
  uint64_t Writes(uint64_t operations) const {
    return operations * (update + insert + read_modify_write) / 100;
  }

  Operation Pick(Random* random) const;
};

// The length of a scan: uniform from 1 to this.
inline constexpr uint64_t kMaxScanLength = 100;
uint64_t PickScanLength(Random* random);

// In the order in which YCSB's documentation has them run: Load, A, B, C, F, D, E.
const std::vector<WorkloadSpec>& AllWorkloads();

// Those named, upper or lower case, in the order of AllWorkloads(); all for none. InvalidArgument,
// with the names there are, for one that nobody has.
absl::StatusOr<std::vector<WorkloadSpec>> SelectWorkloads(const std::vector<std::string>& names);

}  // namespace pulse::bench
