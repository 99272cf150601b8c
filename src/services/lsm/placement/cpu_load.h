// CpuLoad: how many of some CPUs are busy, whichever process uses them, by /proc/stat, which it
// reads at most twice a second.
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
  CpuLoad();                                // of the CPUs that this process may use
  explicit CpuLoad(std::vector<int> cpus);  // of these

  int cores() const { return static_cast<int>(cpus_.size()); }
  const std::vector<int>& cpus() const { return cpus_; }
  // Busy CPUs on average between the last two readings; 0 before there are two.
  double Busy();
  // The same, if this call made a new reading.
  std::optional<double> BusySinceLast();
  // The busy part of the CPUs, 0 to 1.
  double BusyPart() { return cpus_.empty() ? 0 : Busy() / cores(); }

 private:
  struct Times {
    uint64_t busy = 0;
    uint64_t all = 0;
  };
  Times ReadTimes() const;
  bool Update();

  std::vector<int> cpus_;
  std::mutex mu_;
  int64_t at_ = 0;
  bool has_reading_ = false;
  Times last_;
  double busy_ = 0;
};

}  // namespace pulse::lsm
