#include "base/cpu_list.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/errors.h"

namespace pulse {

absl::StatusOr<std::vector<int>> ParseCpuList(absl::string_view text) {
  std::vector<int> cpus;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    int last = 0;
    const bool range = part.find('-') != absl::string_view::npos;
    if (!absl::SimpleAtoi(ends.first, &first) ||
        !absl::SimpleAtoi(range ? ends.second : ends.first, &last) || first < 0 || last < first ||
        last >= CPU_SETSIZE) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CPU list \"", text, "\": \"", part, "\" is not a CPU or a range; write it as 0,2-3"));
    }
    for (int c = first; c <= last; ++c) cpus.push_back(c);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string FormatCpuList(const std::vector<int>& cpus) { return absl::StrJoin(cpus, ","); }

std::vector<int> MyCpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<size_t>(i), &set)) cpus.push_back(i);
  }
  return cpus;
}

int AllowedCpus() {
  const std::vector<int> cpus = MyCpus();
  // More CPUs than the set has room for: all of them, then.
  return cpus.empty() ? get_nprocs() : static_cast<int>(cpus.size());
}

absl::Status SetThreadAffinity(const std::vector<int>& cpus) {
  if (cpus.empty()) return absl::OkStatus();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int c : cpus) CPU_SET(c, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    return ErrnoError(errno, "placing a thread on CPUs", FormatCpuList(cpus),
                      "name CPUs that exist and that this process may use (see nproc, taskset -p)");
  }
  return absl::OkStatus();
}

absl::Status CheckCpus(const std::vector<int>& cpus) {
  const std::vector<int> before = MyCpus();
  if (before.empty()) return absl::OkStatus();  // it could not be given back
  absl::Status status;
  for (const int cpu : cpus) {
    const absl::Status moved = SetThreadAffinity({cpu});
    if (moved.ok()) continue;
    status = absl::InvalidArgumentError(
        absl::StrCat("this process cannot run on CPU ", cpu, ": ", moved.message()));
    break;
  }
  SetThreadAffinity(before).IgnoreError();  // they were its own a moment ago
  return status;
}

ScopedThreadAffinity::ScopedThreadAffinity(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  before_ = MyCpus();
  if (!before_.empty() && !SetThreadAffinity(cpus).ok()) before_.clear();
}

ScopedThreadAffinity::~ScopedThreadAffinity() {
  // It may be that they were taken from the process meanwhile: the thread stays where it is.
  SetThreadAffinity(before_).IgnoreError();
}

}  // namespace pulse
