#include "base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"

namespace pulse {
namespace {

// The process's group in the hierarchy of `controller`, as "/system.slice/pulse.service"; empty:
// none. Lines are "4:cpu,cpuacct:/a" and, for version 2, whose controller is "", "0::/a".
std::string GroupOf(const std::string& root, const std::string& controller) {
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(groups, line);) {
    const size_t begin = line.find(':');
    const size_t end = line.find(":/", begin == std::string::npos ? begin : begin + 1);
    if (end == std::string::npos) continue;
    const std::string names = "," + line.substr(begin + 1, end - begin - 1) + ",";
    if (names.find("," + controller + ",") != std::string::npos) path = line.substr(end + 1);
  }
  return path;
}

// Calls `look` with the directory of the process's group, and of each above it: they may have
// limits, too. A container may see its own group as the topmost, whatever the name of its group.
template <class Look>
void ForGroups(const std::string& root, const std::string& controller, Look look) {
  std::string path = GroupOf(root, controller);
  const std::string top = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  while (!path.empty()) {
    look(top + path + (path == "/" ? "" : "/"));
    if (path == "/") break;
    path.resize(path.rfind('/'));
    if (path.empty()) path = "/";
  }
}

// The words of a file of limits; false: it is not there.
template <class... Words>
bool ReadLimit(const std::string& path, Words*... words) {
  std::ifstream file(path);
  return static_cast<bool>((file >> ... >> *words));
}

}  // namespace

uint64_t MachineMemory(const std::string& root) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t bytes =
      pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
  const auto limit_to = [&bytes](const std::string& path) {
    // Version 1 says with the largest number that there is no limit.
    constexpr uint64_t kNone = uint64_t{1} << 62;
    std::string text;
    uint64_t limit = 0;
    if (ReadLimit(path, &text) && absl::SimpleAtoi(text, &limit) && limit > 0 && limit < kNone) {
      bytes = bytes == 0 ? limit : std::min(bytes, limit);
    }
  };
  ForGroups(root, "", [&](const std::string& group) { limit_to(group + "memory.max"); });
  ForGroups(root, "memory",
            [&](const std::string& group) { limit_to(group + "memory.limit_in_bytes"); });
  return bytes;
}

double CpuQuota(const std::string& root) {
  double cpus = 0;
  // "max" and -1: no limit.
  const auto limit_to = [&cpus](const std::string& quota_text, double period) {
    double quota = 0;
    if (!absl::SimpleAtod(quota_text, &quota) || quota <= 0 || period <= 0) return;
    cpus = cpus == 0 ? quota / period : std::min(cpus, quota / period);
  };
  std::string quota;
  double period = 0;
  ForGroups(root, "", [&](const std::string& group) {
    if (ReadLimit(group + "cpu.max", &quota, &period)) limit_to(quota, period);
  });
  ForGroups(root, "cpu", [&](const std::string& group) {
    if (ReadLimit(group + "cpu.cfs_quota_us", &quota) &&
        ReadLimit(group + "cpu.cfs_period_us", &period)) {
      limit_to(quota, period);
    }
  });
  return cpus;
}

}  // namespace pulse
