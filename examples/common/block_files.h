// BlockFiles: where a host program keeps its files: the operating system's (the baseline) or the
// store's, through the file library. The code above is the same. DDS section 8.1.
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
#include "uring/io_backend.h"

namespace pulse::examples {

inline constexpr uint32_t kMaxIo = uint32_t{32} << 10;  // bytes that one Io moves

// As in the protocol of `blocks`.
enum class Op : uint16_t {
  kRead = 1,
  kWrite = 2,
  kOpen = 3,  // of the protocol only
  kSync = 4,  // what was written and acknowledged before becomes durable
};

struct FileInfo {
  uint64_t file;
  uint64_t size;
};

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

struct FilesOptions {
  std::string agent;            // its socket: files are in the store
  std::string store_directory;  // there
  std::string directory;        // or here, by the operating system; made when missing
  uint32_t files = 1;
  uint64_t file_bytes = uint64_t{1} << 30;
  // Of a directory.
  EngineKind engine = EngineKind::kUring;
  uint32_t depth = 256;
  bool direct = true;  // past the page cache; what is not aligned to the device's blocks is not
};

// InvalidArgument unless either the agent or the directory is given. An agent that is lost is
// looked for until it is back; meanwhile I/O fails at once.
absl::StatusOr<std::unique_ptr<BlockFiles>> OpenFiles(const FilesOptions& options,
                                                      BlockFiles::Sink* sink);

// The two implementations of it.
absl::StatusOr<std::unique_ptr<BlockFiles>> OpenOsFiles(const FilesOptions& options,
                                                        BlockFiles::Sink* sink);
absl::StatusOr<std::unique_ptr<BlockFiles>> OpenStoreFiles(const FilesOptions& options,
                                                           BlockFiles::Sink* sink);

}  // namespace pulse::examples
