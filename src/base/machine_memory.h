// How much of the machine this process may have: memory, and time of its CPUs.
#pragma once

#include <cstdint>
#include <string>

namespace pulse {

// The machine's memory, or less where a memory cgroup of the process has a limit (of version 1 or
// 2, as containers have it). In bytes; 0: not known. `root`: the directory in whose place / is, in
// tests.
uint64_t MachineMemory(const std::string& root = "");

// As many CPUs as cgroups let the process use at a time on average, such as 0.5; 0: no limit. It
// may run on all that its affinity has, and stands still once it has had its time.
double CpuQuota(const std::string& root = "");

}  // namespace pulse
