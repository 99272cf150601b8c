#include "agent/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "base/errors.h"
#include "base/machine_memory.h"

namespace pulse {
namespace {

// Descriptors that a worker, a session with all its queues, and all else (standard streams, log,
// listener, handshakes) take besides the files that hosts pass.
constexpr uint64_t kWorkerFiles = 16;
constexpr uint64_t kSessionFiles = 8;
constexpr uint64_t kOtherFiles = 128;
constexpr uint64_t kFewestFiles = 64;

}  // namespace

absl::Status ResolveLimits(AgentLimits* limits, int workers) {
  rlimit open_files;
  if (getrlimit(RLIMIT_NOFILE, &open_files) != 0) {
    return ErrnoError(errno, "reading the limit of", "open files");
  }
  if (open_files.rlim_cur < open_files.rlim_max) {
    rlimit raised{open_files.rlim_max, open_files.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) open_files = raised;
  }
  if (limits->max_total_files == 0) {
    const uint64_t own = kOtherFiles + kWorkerFiles * static_cast<uint64_t>(workers) +
                         limits->max_sessions * (kSessionFiles + uint64_t{limits->max_queues});
    const uint64_t most = open_files.rlim_cur;
    // With a low limit the sessions share what there is; those who find none are told so.
    limits->max_total_files =
        std::max(most > own ? most - own : 0, std::max(most / 4, kFewestFiles));
  }
  if (limits->max_total_bytes == 0) {
    const uint64_t all = MachineMemory();
    limits->max_total_bytes = all > 0 ? all / 2 : limits->max_session_bytes;
  }
  return absl::OkStatus();
}

}  // namespace pulse
