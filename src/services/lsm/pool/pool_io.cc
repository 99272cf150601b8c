#include "services/lsm/pool/pool_io.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse::lsm {
namespace {

// Calls `move` for each part that lies together: its place on the device, its length and its place
// in the caller's memory.
absl::Status ForEachPart(const std::vector<store::Extent>& extents, uint64_t at, uint64_t length,
                         const std::string& path,
                         absl::FunctionRef<absl::Status(uint64_t, uint64_t, uint64_t)> move) {
  uint64_t start = 0;
  uint64_t done = 0;
  for (const store::Extent& e : extents) {
    if (done == length) break;
    if (at + done < start + e.length) {
      const uint64_t skip = at + done - start;
      const uint64_t part = std::min(e.length - skip, length - done);
      PULSE_RETURN_IF_ERROR(
          move(e.hole() ? store::Extent::kHole : e.device_offset + skip, part, done));
      done += part;
    }
    start += e.length;
  }
  if (done == length) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(path, ": the pool has ", start, " bytes of it, not ", at + length));
}

}  // namespace

absl::Status ReadExtents(int fd, const std::vector<store::Extent>& extents, uint64_t at,
                         uint64_t length, char* data, const std::string& path) {
  return ForEachPart(extents, at, length, path, [&](uint64_t from, uint64_t part, uint64_t to) {
    if (from == store::Extent::kHole) {
      std::memset(data + to, 0, part);
      return absl::OkStatus();
    }
    while (part > 0) {
      const ssize_t n = pread(fd, data + to, part, static_cast<off_t>(from));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "reading", path);
      if (n == 0) {
        return absl::DataLossError(absl::StrCat("reading ", path, ": the pool ends at ", from));
      }
      from += n;
      to += n;
      part -= n;
    }
    return absl::OkStatus();
  });
}

absl::Status WriteExtents(int fd, const std::vector<store::Extent>& extents, uint64_t at,
                          uint64_t length, const char* data, const std::string& path) {
  return ForEachPart(extents, at, length, path, [&](uint64_t to, uint64_t part, uint64_t from) {
    if (to == store::Extent::kHole) {
      return absl::InternalError(absl::StrCat("writing ", path, ": no segment there"));
    }
    return WriteAt(fd, {data + from, part}, to, path);
  });
}

}  // namespace pulse::lsm
