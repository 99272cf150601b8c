// BlockFiles: where the host program of `blocks` keeps its files: the operating system's (OsFiles,
// the baseline) or the store's, through the file library (StoreFiles). The network code above is
// the same. DDS section 8.1.
//
// Files are made when it is opened, named "0", "1", ..., all of one size, and stay open. Submit is
// for any thread and does not block; results are told on a thread of the implementation's, which
// names itself "pulse-host-io". Errors: see Io::status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/blocks/wire.h"
#include "uring/io_backend.h"

namespace pulse::blocks {

// One read, write or sync. The caller's, until it was told; the data besides.
struct Io {
  Op op = Op::kRead;
  uint64_t file = 0;
  uint64_t offset = 0;
  uint32_t size = 0;
  char* data = nullptr;
  // Results. OutOfRange: the file ends first; nothing was written. Unavailable: the agent was lost.
  absl::Status status;
  void* owner = nullptr;  // the caller's
};

class BlockFiles {
 public:
  // Told of each Io once; may destroy it.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnDone(Io* io) = 0;
  };

  virtual ~BlockFiles() = default;  // everything submitted was told before
  virtual absl::StatusOr<FileInfo> Find(std::string_view name) const = 0;
  virtual void Submit(Io** ios, size_t count) = 0;
  // Changes when another agent has the files. Any thread.
  virtual uint64_t generation() const { return 1; }
};

struct FilesShape {
  uint32_t files = 1;
  uint64_t file_bytes = uint64_t{1} << 30;
};

struct OsFilesOptions {
  std::string directory;  // must exist
  FilesShape shape;
  EngineKind engine = EngineKind::kUring;
  uint32_t depth = 256;
  bool direct = true;  // past the page cache; what is not aligned to the device's blocks is not
};
absl::StatusOr<std::unique_ptr<BlockFiles>> OpenOsFiles(const OsFilesOptions& options,
                                                        BlockFiles::Sink* sink);

struct StoreFilesOptions {
  std::string socket;  // of the agent
  FilesShape shape;
  std::string directory = "blocks";
};
// An agent that is lost is looked for until it is back; meanwhile I/O fails at once.
absl::StatusOr<std::unique_ptr<BlockFiles>> OpenStoreFiles(const StoreFilesOptions& options,
                                                           BlockFiles::Sink* sink);

}  // namespace pulse::blocks
