// A checkpoint: what the nodes, names, counters and indexes were at one commit, as operations like
// those of the log, in frames with a checksum each. docs/internals/graph-store.md specifies it.
//
// One thread. Blocks on I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "services/graph/core/files.h"
#include "services/graph/core/operations.h"

namespace pulse::graph {

inline constexpr std::string_view kCheckpointMagic = "PULSECKP";
inline constexpr size_t kCheckpointHeader = 16;
// A length of 0 ends the file; its payload is the number of frames, as 8 bytes.
struct CheckpointFrame {
  uint32_t length;
  uint32_t crc;  // of the payload
};

class CheckpointWriter {
 public:
  // `path` and the file outlive it.
  explicit CheckpointWriter(File* file) : file_(file) {}
  // What comes next goes here; call FlushIfFull() now and then.
  OperationWriter& operations() { return operations_; }
  absl::Status FlushIfFull();
  // Operations that were written apart, as a frame of their own.
  absl::Status AppendFrame(std::string_view operations);
  // The end, synced.
  absl::Status Finish();
  uint64_t size() const { return size_; }

 private:
  absl::Status WriteFrame();
  absl::Status Write(std::string_view payload);

  File* const file_;
  OperationWriter operations_;
  uint64_t size_ = 0;
  uint64_t frames_ = 0;
};

// Calls `apply` with the operations of each frame. DataLoss where the file is damaged or not whole.
absl::Status ReadCheckpoint(std::string_view bytes, const std::string& path,
                            const std::function<absl::Status(std::string_view)>& apply);

// Calls `apply` with the frames that begin with a name: all names are in such ones. The others are
// not read, so that damage in them is not found.
absl::Status ReadCheckpointNames(Files* files, const std::string& path,
                                 const std::function<absl::Status(std::string_view)>& apply);

}  // namespace pulse::graph
