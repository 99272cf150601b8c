// CpuLoad: how many of the CPUs that this process may use are busy, whichever process uses them, by
// /proc/stat, which it reads at most twice a second.
//
// Thread-safe. Blocks for the read of a small file.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace pulse::lsm {

class CpuLoad {
 public:
  CpuLoad();

  int cores() const { return static_cast<int>(cpus_.size()); }
  const std::vector<int>& cpus() const { return cpus_; }
  // Busy CPUs on average between the last two readings, 0 before there are two, if this call made a
  // new one.
  std::optional<double> BusySinceLast();

 private:
  struct Times {
    uint64_t busy = 0;
    uint64_t all = 0;
  };
  Times ReadTimes() const;

  std::vector<int> cpus_;
  std::mutex mu_;
  int64_t at_ = 0;
  bool has_reading_ = false;
  Times last_;
  double busy_ = 0;
};

}  // namespace pulse::lsm
