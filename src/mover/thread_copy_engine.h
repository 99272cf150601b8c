// ThreadCopyEngine: a CopyEngine whose copies are done by threads of its own, past the caches where
// a piece is large (AVX-512 where the processor has it). The software rival of Intel DSA in the DSA
// paper (III-B, Figures 3 to 5).
//
// Threads: one owner, as for every engine. Destroying it finishes what it took and joins its
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "mover/copy_engine.h"

namespace pulse {

struct ThreadCopyOptions {
  int threads = 1;
  size_t depth = 256;
  // From this length on stores bypass the caches.
  uint64_t stream_bytes = uint64_t{256} << 10;
  // CPUs that the threads may run on; empty: any.
  std::string cpus = {};
};

// InvalidArgument for no thread, no depth, or a list of CPUs that is none; ResourceExhausted where
// threads cannot be started.
absl::StatusOr<std::unique_ptr<CopyEngine>> CreateThreadCopyEngine(
    const ThreadCopyOptions& options);

// memcpy with stores that bypass the caches. Ordered before what the same thread stores later.
void CopyPastCaches(char* to, const char* from, size_t n);

}  // namespace pulse
