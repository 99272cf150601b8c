// HostLoad: how many of the CPUs that this process may use, or of others, are busy, whoever with.
// Looked up in /proc/stat, at most twice a second.
//
// Thread-safe. Blocks for the read of a small file.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace pulse::lsm {

class HostLoad {
 public:
  HostLoad();                                // of the CPUs that this process may use
  explicit HostLoad(std::vector<int> cpus);  // of these

  int cores() const { return static_cast<int>(cpus_.size()); }
  const std::vector<int>& cpus() const { return cpus_; }
  // Of them, busy on average between the last two looks; 0 before there are two.
  double Busy();
  // The same if this call has looked.
  std::optional<double> BusySinceLast();
  // The same as a part of them.
  double BusyPart() { return cpus_.empty() ? 0 : Busy() / cores(); }

 private:
  struct Times {
    uint64_t busy = 0;
    uint64_t all = 0;
  };
  Times Look() const;
  bool Update();

  std::vector<int> cpus_;
  std::mutex mu_;
  int64_t at_ = 0;
  bool looked_ = false;
  Times last_;
  double busy_ = 0;
};

}  // namespace pulse::lsm
