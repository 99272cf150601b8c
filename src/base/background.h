// Threads whose work can wait for that of others. Thread-safe, never blocks.
#pragma once

namespace pulse {

// The calling thread, and those that it starts from then on, give way: SCHED_BATCH and nice 5 or
// what it has above that; with `idle_only` they run only when no other thread wants the CPU
// (SCHED_IDLE).
void EnterBackground(bool idle_only);

}  // namespace pulse
