// What an agent's whole compactions come to (src/lsm, TaskRunner), for those who watch.
//
// Any thread reads and writes. Relaxed: words that belong together may be of slightly different
// moments. Nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>

namespace pulse::lsm {

struct TaskCounters {
  std::atomic<uint64_t> most{0};  // that may run at a time
  std::atomic<uint64_t> running{0};
  std::atomic<uint64_t> done{0};     // answered with their result
  std::atomic<uint64_t> failed{0};   // ... with an error, or given up
  std::atomic<uint64_t> refused{0};  // not begun, since as many as may ran
};

}  // namespace pulse::lsm
