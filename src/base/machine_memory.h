// How much memory this process may have.
#pragma once

#include <cstdint>
#include <string>

namespace pulse {

// The machine's memory, or less where a memory cgroup of the process has a limit (of version 2, as
// containers have it). In bytes; 0: not known. `root`: the directory in whose place / is, in tests.
uint64_t MachineMemory(const std::string& root = "");

}  // namespace pulse
