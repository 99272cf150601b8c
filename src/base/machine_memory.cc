#include "base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"

namespace pulse {

uint64_t MachineMemory(const std::string& root) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t bytes =
      pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
  // "0::/system.slice/pulse.service". Each of its ancestors may have a limit, too.
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) path = line.substr(3);
  }
  while (!path.empty()) {
    std::ifstream file(root + "/sys/fs/cgroup" + path + "/memory.max");
    std::string text;
    uint64_t limit = 0;
    if (file >> text && absl::SimpleAtoi(text, &limit) && limit > 0) {
      bytes = bytes == 0 ? limit : std::min(bytes, limit);
    }
    if (path == "/") break;
    path.resize(path.rfind('/'));
    if (path.empty()) path = "/";
  }
  return bytes;
}

}  // namespace pulse
