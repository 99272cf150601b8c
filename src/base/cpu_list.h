// CPU lists as taskset writes them ("0,2-3"). Thread-safe, never blocks.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse {

// Parses "0,2-3" to {0, 2, 3}, sorted and without repeats. InvalidArgument names the bad part.
absl::StatusOr<std::vector<int>> ParseCpuList(absl::string_view text);

std::string FormatCpuList(const std::vector<int>& cpus);

// How many CPUs this process may use.
int AllowedCpus();

// Those that the calling thread may use; none where they are more than can be told.
std::vector<int> MyCpus();

// InvalidArgument names the first of `cpus` that no thread of this process can run on: it is not
// there, or the process's cgroup does not have it. What the caller is restricted to is no bar. It
// runs on each of them for a moment.
absl::Status CheckCpus(const std::vector<int>& cpus);

// Restricts the calling thread to `cpus`; an empty list leaves it as it is. InvalidArgument when
// none of them exists or is allowed to this process.
absl::Status SetThreadAffinity(const std::vector<int>& cpus);

// Restricts the thread that makes it to `cpus` until its end, which is in the same thread; so are
// the threads that it starts meanwhile, for good. Does nothing for an empty list, for CPUs that are
// not to be had, and where the thread's CPUs cannot be told and so not be given back.
class ScopedThreadAffinity {
 public:
  explicit ScopedThreadAffinity(const std::vector<int>& cpus);
  ~ScopedThreadAffinity();
  ScopedThreadAffinity(const ScopedThreadAffinity&) = delete;
  ScopedThreadAffinity& operator=(const ScopedThreadAffinity&) = delete;

 private:
  std::vector<int> before_;  // empty: nothing to give back
};

}  // namespace pulse
