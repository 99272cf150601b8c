// The one seam between the graph store and the operating system, so that tests can cut power and
// make calls fail (test_sim_files.h). Paths are those of the operating system.
//
// Threads: any for Files; a File is written by one thread at a time. Every call blocks. Errors are
// those of the system calls and name the path; NotFound where there is no such file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "services/graph/runs/run_reader.h"

namespace pulse::graph {

class File {
 public:
  virtual ~File() = default;
  virtual absl::Status WriteAt(std::string_view bytes, uint64_t offset) = 0;
  // What was written, and the size, survive a power cut once this returned OK. After an error
  // nobody knows what is durable of what was written since the last success.
  virtual absl::Status Sync() = 0;
  virtual absl::Status Truncate(uint64_t size) = 0;
  // For who else writes to it; -1: it has none.
  virtual int descriptor() const { return -1; }
};

class Files {
 public:
  virtual ~Files() = default;
  // Empty, whatever was there. Its name survives a power cut after SyncDirectory().
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForWriting(const std::string& path) = 0;
  virtual absl::StatusOr<std::string> Read(const std::string& path) = 0;
  // Bytes from `offset` on: `size` of them, or fewer where the file ends.
  virtual absl::StatusOr<std::string> ReadPart(const std::string& path, uint64_t offset,
                                               size_t size) = 0;
  virtual absl::StatusOr<uint64_t> Size(const std::string& path) = 0;
  // A run's bytes: mapped, where that is possible. What was read of them is in the process's memory
  // only until runs and checkpoints of some size were written: compactions read more than memory
  // may hold.
  virtual absl::StatusOr<RunBytes> Map(const std::string& path) = 0;
  // For who else reads it, a process say; where files have descriptors.
  virtual bool HasDescriptors() const { return false; }
  virtual absl::StatusOr<UniqueFd> Descriptor(const std::string& path) {
    return absl::UnimplementedError(path + " has no descriptor");
  }
  // Unavailable: somebody has it open for writing, or mapped so, and might change it under its
  // readers. OK also on file systems that do not tell.
  virtual absl::Status CheckUnwritten(const std::string& /*path*/) { return absl::OkStatus(); }
  // Held as long as the result lives, and by one process; FailedPrecondition, and by whom, where
  // another one has it. Whoever holds it may remove the file.
  virtual absl::StatusOr<std::shared_ptr<void>> Lock(const std::string& path) = 0;
  // Names, without the directory, in no order.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& directory) = 0;
  // A file, or an empty directory.
  virtual absl::Status Remove(const std::string& path) = 0;
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // OK also where it is there.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;

  // Writes a file so that, whatever happens, either its old or its new content is there.
  absl::Status Replace(const std::string& directory, const std::string& name,
                       std::string_view content);
};

// As Files::Lock, of a file that is open.
absl::StatusOr<std::shared_ptr<void>> LockForWriter(int fd, const std::string& path);

// The operating system's; it lives as long as the program.
Files* SystemFiles();

}  // namespace pulse::graph
