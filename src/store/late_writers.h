// Late writers: open files of a store's device through which somebody may still write to segments
// after the process that owns the store has ended, such as its agent. Each carries a lock of its
// open file description on bytes beyond the end of any device, which goes with its last reference,
// in whatever process or in the kernel. Who opens the store for writing waits for them.
//
// Threads: any. AwaitLateWriters blocks, for ten seconds at most.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace pulse::store {

inline constexpr int64_t kLateWriterLocks = int64_t{1} << 61;

// Whether somebody else's open file has a lock in [start, start + length); 0: to the end. What
// cannot be asked is taken to be so.
bool HasLateWriter(int fd, int64_t start, int64_t length);
// FailedPrecondition if they do not end.
absl::Status AwaitLateWriters(int fd, const std::string& path);

}  // namespace pulse::store
