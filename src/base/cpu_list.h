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

// Restricts the calling thread to `cpus`; an empty list leaves it as it is. InvalidArgument when
// none of them exists or is allowed to this process.
absl::Status SetThreadAffinity(const std::vector<int>& cpus);

}  // namespace pulse
