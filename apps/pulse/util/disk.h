// What the commands need to know about a directory's file system. Thread-safe; blocks on disk.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace pulse {

struct DiskInfo {
  std::string type;  // "ext4", "xfs", "tmpfs", ... or the magic number in hexadecimal
  bool in_memory = false;
  uint64_t free_bytes = 0;  // to this user
};

// NotFound when `dir` does not exist.
absl::StatusOr<DiskInfo> InspectDisk(const std::string& dir);

// `dir`, or its nearest ancestor that exists.
std::string ExistingAncestor(const std::string& dir);

// "1.5 GiB", "64 MiB", "12 B".
std::string FormatBytes(uint64_t bytes);

}  // namespace pulse
