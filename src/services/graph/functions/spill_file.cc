#include "services/graph/functions/spill_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "services/graph/model/read_counts.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

constexpr char kRemedy[] =
    "choose another directory (--spill) or give the query more memory (--query-memory)";

}  // namespace

UniqueFd SpillDisk::Open(const std::string& directory) {
  UniqueFd fd(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid() || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  // A file system without files that have no name.
  std::string name = directory + "/.pulse-spill-XXXXXX";
  fd.reset(mkostemp(name.data(), O_CLOEXEC));
  if (fd.valid()) unlink(name.c_str());
  return fd;
}

ssize_t SpillDisk::Write(int fd, const char* bytes, size_t size, uint64_t offset) {
  return pwrite(fd, bytes, size, static_cast<off_t>(offset));
}

ssize_t SpillDisk::Read(int fd, char* bytes, size_t size, uint64_t offset) {
  return pread(fd, bytes, size, static_cast<off_t>(offset));
}

std::string DefaultSpillDirectory() {
  for (const char* place : {static_cast<const char*>(getenv("TMPDIR")), "/var/tmp", "/tmp"}) {
    if (place != nullptr && *place != '\0' && access(place, W_OK | X_OK) == 0) return place;
  }
  return "";
}

SpillSpace::SpillSpace(SpillOptions options)
    : options_(std::move(options)), disk_(options_.disk != nullptr ? options_.disk : &system_) {}

absl::StatusOr<std::unique_ptr<SpillFile>> SpillFile::Make(SpillSpace* space) {
  UniqueFd fd = space->disk_->Open(space->options_.directory);
  if (!fd.valid()) {
    return ErrnoError(errno, "the query needs more memory than its limit, and no file to spill to",
                      space->options_.directory, kRemedy);
  }
  return std::unique_ptr<SpillFile>(new SpillFile(space, std::move(fd)));
}

SpillFile::~SpillFile() { space_.held_ -= size_; }

absl::StatusOr<uint64_t> SpillFile::Append(std::string_view bytes) {
  // Other threads see the bytes as taken before they are written.
  const uint64_t held = space_.held_.fetch_add(bytes.size());
  if (absl::Status status = WriteAtEnd(bytes, held); !status.ok()) {
    space_.held_ -= bytes.size();
    return status;
  }
  const uint64_t at = size_;
  size_ += bytes.size();
  space_.written_ += bytes.size();
  if (counted_reads != nullptr) counted_reads->spilled_bytes += bytes.size();
  return at;
}

absl::Status SpillFile::WriteAtEnd(std::string_view bytes, uint64_t held) {
  const std::string& directory = space_.options_.directory;
  const uint64_t limit = space_.options_.limit_bytes;
  if (held > limit || bytes.size() > limit - held) {
    return LimitError(
        absl::StatusCode::kResourceExhausted,
        Concat("the query spills more than its limit of ", limit, " bytes to ", directory,
               ": raise the limit (--spill-limit) or give the query more memory "
               "(--query-memory)"));
  }
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        space_.disk_->Write(fd_.get(), bytes.data() + done, bytes.size() - done, size_ + done);
    if (n > 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    // A disk that takes nothing is full, too.
    const int error = n < 0 ? errno : ENOSPC;
    if (error != ENOSPC && error != EDQUOT && error != EFBIG) {
      return ErrnoError(error, "spilling rows of the query", directory, kRemedy);
    }
    return LimitError(absl::StatusCode::kResourceExhausted,
                      Concat("there is no space left in ", directory, " after ", held,
                             " bytes that the query has spilled there (", strerror(error), "): ",
                             error == EFBIG ? "raise the limit of the size of files (ulimit -f), "
                                            : "free some space, ",
                             kRemedy),
                      kDiskFull);
  }
  return absl::OkStatus();
}

absl::Status SpillFile::Read(uint64_t offset, char* bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = space_.disk_->Read(fd_.get(), bytes + done, size - done, offset + done);
    if (n > 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return ErrnoError(errno, "reading spilled rows of the query", space_.options_.directory,
                        kRemedy);
    }
    return absl::DataLossError(
        Concat("a file of spilled rows in ", space_.options_.directory,
               " is shorter than what the query wrote to it: run the query again, or ", kRemedy));
  }
  return absl::OkStatus();
}

}  // namespace pulse::cypher
