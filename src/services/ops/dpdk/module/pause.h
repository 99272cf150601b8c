// Pause: waits for a device of DPDK, which has no way to wake anybody. Part of the module
// (module_api.h). For one thread.
#pragma once

#include <rte_pause.h>
#include <unistd.h>

#include <chrono>

namespace pulse::ops::dpdk {

// A device that has finished nothing for so long is lost.
inline constexpr std::chrono::seconds kHang(4);

// Waits for a device that is not done yet: soon again at first, then without keeping a CPU busy.
class Pause {
 public:
  void Reset() {
    rounds_ = 0;
    since_ = std::chrono::steady_clock::now();
  }
  // False: too long.
  bool Wait() {
    if (++rounds_ < 256) {
      rte_pause();
      return true;
    }
    usleep(20);
    return std::chrono::steady_clock::now() - since_ < kHang;
  }

 private:
  int rounds_ = 0;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace pulse::ops::dpdk
