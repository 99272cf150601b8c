// Temporary files of one query: what its operators keep beyond the memory that it may take. A file
// has no name, so that nothing is left behind, however the process ends.
//
// Ownership: a SpillSpace belongs to one execution and outlives its files. Threads: each file has
// one, a space any number, of that execution. Everything but the constructors blocks on the disk.
// Errors: ResourceExhausted where the limit of bytes is reached or the disk is full, else the
// system's, with the remedy.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::cypher {

// What files are made of, for any thread; tests replace it. These are the system's calls, with its
// results.
class SpillDisk {
 public:
  virtual ~SpillDisk() = default;
  // An open file without a name; invalid, with errno, where there can be none.
  virtual UniqueFd Open(const std::string& directory);
  virtual ssize_t Write(int fd, const char* bytes, size_t size, uint64_t offset);
  virtual ssize_t Read(int fd, char* bytes, size_t size, uint64_t offset);
};

struct SpillOptions {
  std::string directory;                      // empty: nothing is spilled
  uint64_t limit_bytes = uint64_t{16} << 30;  // of all files of one query at a time; 0: no spilling
  SpillDisk* disk = nullptr;                  // null: the system's

  bool enabled() const { return !directory.empty() && limit_bytes != 0; }
};

// The first that can be written to: TMPDIR, /var/tmp, which is on a disk where /tmp may be memory,
// /tmp. Empty: none, so that nothing is spilled.
std::string DefaultSpillDirectory();

class SpillSpace {
 public:
  explicit SpillSpace(SpillOptions options);
  // By all files, ever.
  uint64_t written() const { return written_.load(std::memory_order_relaxed); }

 private:
  friend class SpillFile;
  const SpillOptions options_;
  SpillDisk system_;
  SpillDisk* const disk_;
  std::atomic<uint64_t> held_{0}, written_{0};
};

// Grows at its end only.
class SpillFile {
 public:
  static absl::StatusOr<std::unique_ptr<SpillFile>> Make(SpillSpace* space);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Where they lie.
  absl::StatusOr<uint64_t> Append(std::string_view bytes);
  absl::Status Read(uint64_t offset, char* bytes, size_t size);

 private:
  // `held`: by all files before.
  absl::Status WriteAtEnd(std::string_view bytes, uint64_t held);
  SpillFile(SpillSpace* space, UniqueFd fd) : space_(*space), fd_(std::move(fd)) {}
  SpillSpace& space_;
  const UniqueFd fd_;
  uint64_t size_ = 0;
};

}  // namespace pulse::cypher
