// What sessions may hold, each and together. A session that asks for more memory, queues or files
// is refused with the limit's name; one that has more requests under way is made to wait. PulseDB
// III-B.3.
//
// AgentUsage is shared by workers and thread-safe; the rest is plain data. Nothing here blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace pulse {

struct AgentLimits {
  uint32_t max_sessions = 64;
  uint32_t max_queues = 64;  // per session
  // Per queue. A message group's two rings may have 256 MiB each, and what describes them.
  uint64_t max_arena_bytes = uint64_t{513} << 20;
  uint64_t max_session_bytes = uint64_t{4} << 30;  // sum of a session's queues
  uint64_t max_total_bytes = 0;                    // of all sessions; 0: half the machine's memory
  uint32_t max_session_files = 8192;
  uint64_t max_total_files = 0;  // of all sessions; 0: what RLIMIT_NOFILE leaves
  // Requests of one session taken and not yet answered in its rings: in flight, held back by the
  // order within a file, or with completions that the host does not take. It is several times what
  // an engine has in flight, and bounds how long one session's backlog can delay another's request.
  uint32_t max_requests = 1024;
};

// What the sessions of one agent hold together.
struct AgentUsage {
  std::atomic<uint64_t> arena_bytes{0};
  std::atomic<uint64_t> files{0};
};

struct RequestCount {
  size_t most = 0;
  size_t now = 0;
};

// Raises RLIMIT_NOFILE's soft limit to the hard one and replaces the zeros in `limits`, which alone
// would mean no limit, by what this process and this machine have.
absl::Status ResolveLimits(AgentLimits* limits, int workers);

}  // namespace pulse
