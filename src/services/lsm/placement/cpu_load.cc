#include "services/lsm/placement/cpu_load.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "base/cpu_list.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kIntervalNanos = 500'000'000;
constexpr int64_t kFirstIntervalNanos = 100'000'000;

}  // namespace

CpuLoad::CpuLoad() : cpus_(MyCpus()) {
  if (cpus_.empty()) cpus_.push_back(0);
  last_ = ReadTimes();
  at_ = NowNanos();
}

CpuLoad::Times CpuLoad::ReadTimes() const {
  Times t;
  std::ifstream in("/proc/stat");
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, 3, "cpu") != 0) break;
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name.size() < 4) continue;  // the sum of all
    const int cpu = std::atoi(name.c_str() + 3);
    if (std::find(cpus_.begin(), cpus_.end(), cpu) == cpus_.end()) continue;
    // user nice system idle iowait irq softirq steal
    uint64_t value = 0;
    for (int i = 0; i < 8 && words >> value; ++i) {
      t.all += value;
      if (i != 3 && i != 4) t.busy += value;
    }
  }
  return t;
}

std::optional<double> CpuLoad::BusySinceLast() {
  std::lock_guard lock(mu_);
  const int64_t now = NowNanos();
  if (now - at_ < (has_reading_ ? kIntervalNanos : kFirstIntervalNanos)) return std::nullopt;
  has_reading_ = true;
  const Times t = ReadTimes();
  if (t.all > last_.all) {
    busy_ = static_cast<double>(cores()) * static_cast<double>(t.busy - last_.busy) /
            static_cast<double>(t.all - last_.all);
  }
  last_ = t;
  at_ = now;
  return busy_;
}

}  // namespace pulse::lsm
