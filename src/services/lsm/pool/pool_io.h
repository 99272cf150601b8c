// Reading and writing the bytes of a file of the pool, by its extents. Blocks; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "store/store.h"

namespace pulse::lsm {

// Of the bytes that `extents` name one after the other, `length` from `at` on: all, or an error
// that names `path`. Holes read as zeros, and cannot be written. With a descriptor for direct I/O,
// everything is whole pages.
absl::Status ReadExtents(int fd, const std::vector<store::Extent>& extents, uint64_t at,
                         uint64_t length, char* data, const std::string& path);
absl::Status WriteExtents(int fd, const std::vector<store::Extent>& extents, uint64_t at,
                          uint64_t length, const char* data, const std::string& path);

}  // namespace pulse::lsm
