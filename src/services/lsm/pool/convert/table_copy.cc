#include "services/lsm/pool/convert/table_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"
#include "services/lsm/pool/pool_guard.h"
#include "services/lsm/pool/pool_io.h"

namespace pulse::convert {
namespace {

constexpr uint64_t kPiece = uint64_t{4} << 20;
static_assert(kPiece % store::kBlock == 0);

// Direct I/O where the file system has it.
UniqueFd OpenPlain(const std::string& path, int flags) {
  UniqueFd fd = OpenFile(path, flags | O_DIRECT, 0644);
  if (!fd.valid() && errno == EINVAL) fd = OpenFile(path, flags, 0644);
  return fd;
}

// The file system takes direct I/O, and not in these units.
bool TurnBuffered(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

// `n` bytes at a multiple of the block size; the buffer holds whole blocks.
absl::Status ReadPlain(int fd, const std::string& path, uint64_t at, uint64_t n, uint8_t* data) {
  uint64_t got = 0;
  while (got < n) {
    // A read that ended within a block is only continued at the end of the file, or without
    // O_DIRECT.
    const ssize_t r =
        pread(fd, data + got, store::RoundUpToBlock(n) - got, static_cast<off_t>(at + got));
    if (r < 0 && errno == EINTR) continue;
    if (r < 0 && errno == EINVAL && TurnBuffered(fd)) continue;
    if (r < 0) return ErrnoError(errno, "reading", path);
    if (r == 0) {
      return absl::DataLossError(absl::StrCat("reading ", path, ": it ends at ", at + got,
                                              "; it was cut short meanwhile"));
    }
    got += static_cast<uint64_t>(r);
  }
  return absl::OkStatus();
}

absl::Status WritePlain(int fd, const std::string& path, uint64_t at, uint64_t n,
                        const uint8_t* data) {
  for (uint64_t done = 0; done < n;) {
    const ssize_t r = pwrite(fd, data + done, n - done, static_cast<off_t>(at + done));
    if (r < 0 && errno == EINTR) continue;
    if (r < 0 && errno == EINVAL && TurnBuffered(fd)) continue;
    if (r <= 0) return ErrnoError(r < 0 ? errno : ENOSPC, "writing", path);
    done += static_cast<uint64_t>(r);
  }
  return absl::OkStatus();
}

absl::Status NotGivenBack(const std::string& what, uint64_t at) {
  return absl::DataLossError(absl::StrCat(what, ", at ", at,
                                          ": what was just written reads back as something else; "
                                          "the device is faulty, do not use it"));
}

}  // namespace

struct TableCopy::Stored {
  uint64_t size = 0;
  std::vector<store::Extent> extents;
  int fd = -1;
};

TableCopy::TableCopy(store::Store& store) : store_(store), data_(kPiece), again_(kPiece) {}

absl::StatusOr<TableCopy::Stored> TableCopy::Map(store::FileId file) const {
  PULSE_ASSIGN_OR_RETURN(const auto now, store_.Stat(file));
  Stored stored;
  stored.size = now.size;
  PULSE_RETURN_IF_ERROR(store_.MapRead(file, 0, now.size, &stored.extents));
  const bool whole = std::none_of(stored.extents.begin(), stored.extents.end(),
                                  [](const store::Extent& e) { return e.hole(); });
  // A hole may begin anywhere; direct I/O may not.
  stored.fd = store_.device_fd(whole);
  if (whole && !stored.extents.empty()) {
    // The last block, whole: the segment has more than the file.
    stored.extents.back().length = store::RoundUpToBlock(stored.extents.back().length);
  }
  return stored;
}

absl::Status TableCopy::ReadStored(const Stored& file, uint64_t at, uint64_t n,
                                   uint8_t* data) const {
  const bool whole = file.extents.empty() || !file.extents.back().hole();
  return lsm::ReadExtents(file.fd, file.extents, at, whole ? store::RoundUpToBlock(n) : n,
                          reinterpret_cast<char*>(data), store_.path());
}

absl::Status TableCopy::CopyIn(const std::string& from, uint64_t size, store::FileId to,
                               Advance advance) {
  const UniqueFd fd = OpenPlain(from, O_RDONLY);
  if (!fd.valid()) return ErrnoError(errno, "opening", from);
  PULSE_RETURN_IF_ERROR(store_.Reserve(to, size));
  const int device = store_.device_fd(true);
  for (uint64_t at = 0; at < size;) {
    const uint64_t n = std::min(kPiece, size - at);
    const uint64_t blocks = store::RoundUpToBlock(n);
    PULSE_RETURN_IF_ERROR(ReadPlain(fd.get(), from, at, n, data_.data()));
    std::memset(data_.data() + n, 0, blocks - n);
    std::vector<store::Extent> extents;
    PULSE_RETURN_IF_ERROR(store_.MapWrite(to, at, blocks, &extents));
    PULSE_RETURN_IF_ERROR(lsm::WriteExtents(
        device, extents, 0, blocks, reinterpret_cast<const char*>(data_.data()), store_.path()));
    PULSE_RETURN_IF_ERROR(lsm::ReadExtents(device, extents, 0, blocks,
                                           reinterpret_cast<char*>(again_.data()), store_.path()));
    if (std::memcmp(data_.data(), again_.data(), blocks) != 0) {
      return NotGivenBack(store_.path(), extents.front().device_offset);
    }
    PULSE_RETURN_IF_ERROR(advance(n));
    at += n;
  }
  // Any commit may carry the length: the data goes first.
  PULSE_RETURN_IF_ERROR(store_.SyncData());
  return store_.Wrote(to, 0, size);
}

absl::Status TableCopy::CopyOut(store::FileId from, const std::string& to, const std::string& like,
                                Advance advance) {
  PULSE_ASSIGN_OR_RETURN(const auto stored, Map(from));
  if (unlink(to.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, "replacing", to);
  const UniqueFd fd = OpenPlain(to, O_RDWR | O_CREAT | O_EXCL);
  if (!fd.valid()) return ErrnoError(errno, "creating", to);
  PULSE_RETURN_IF_ERROR(lsm::TakeOwner(fd.get(), to, like));
  // In one run, if the file system can.
  if (stored.size > 0 && fallocate(fd.get(), 0, 0, static_cast<off_t>(stored.size)) != 0 &&
      errno == ENOSPC) {
    return ErrnoError(ENOSPC, "writing", to);
  }
  for (uint64_t at = 0; at < stored.size;) {
    const uint64_t n = std::min(kPiece, stored.size - at);
    const uint64_t blocks = store::RoundUpToBlock(n);
    PULSE_RETURN_IF_ERROR(ReadStored(stored, at, n, data_.data()));
    PULSE_RETURN_IF_ERROR(WritePlain(fd.get(), to, at, blocks, data_.data()));
    PULSE_RETURN_IF_ERROR(ReadPlain(fd.get(), to, at, blocks, again_.data()));
    if (std::memcmp(data_.data(), again_.data(), n) != 0) return NotGivenBack(to, at);
    PULSE_RETURN_IF_ERROR(advance(n));
    at += n;
  }
  if (ftruncate(fd.get(), static_cast<off_t>(stored.size)) != 0) {
    return ErrnoError(errno, "truncating", to);
  }
  return SyncFd(fd.get(), to);
}

absl::StatusOr<bool> TableCopy::Same(const std::string& plain, store::FileId file,
                                     Advance advance) {
  PULSE_ASSIGN_OR_RETURN(const auto stored, Map(file));
  const UniqueFd fd = OpenPlain(plain, O_RDONLY);
  struct stat st {};
  if (!fd.valid() || fstat(fd.get(), &st) != 0) return ErrnoError(errno, "opening", plain);
  if (static_cast<uint64_t>(st.st_size) != stored.size) return false;
  for (uint64_t at = 0; at < stored.size;) {
    const uint64_t n = std::min(kPiece, stored.size - at);
    PULSE_RETURN_IF_ERROR(ReadPlain(fd.get(), plain, at, n, data_.data()));
    PULSE_RETURN_IF_ERROR(ReadStored(stored, at, n, again_.data()));
    if (std::memcmp(data_.data(), again_.data(), n) != 0) return false;
    PULSE_RETURN_IF_ERROR(advance(n));
    at += n;
  }
  return true;
}

}  // namespace pulse::convert
