// Threads whose work can wait for that of others. Thread-safe, never blocks.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace pulse {

// The calling thread, and those that it starts from then on, give way: SCHED_BATCH and nice 5 or
// what it has above that; with `idle_only` they run only when no other thread wants the CPU
// (SCHED_IDLE).
void EnterBackground(bool idle_only);
// The same on these CPUs; none: on all. What the kernel refuses of them is logged once as `what`.
void EnterBackground(bool idle_only, const std::vector<int>& cpus, absl::string_view what);

}  // namespace pulse
