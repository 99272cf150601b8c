// flock(2) for writing on a whole file, and who has it.
//
// Thread-safe. Nothing here waits for a lock.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace pulse {

// Held as long as the result lives, also when `fd` is closed; null: somebody else has it, a process
// or another open file of this one. `path` is for errors.
absl::StatusOr<std::shared_ptr<void>> TryLockFile(int fd, const std::string& path);

// Who has a lock by flock(2) on the file: "process 1234 (pulse)". Where the system does not tell,
// as of another container's, the number that is the file's content; else "another process".
std::string NameLockHolder(int fd);

}  // namespace pulse
