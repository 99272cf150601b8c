// The wire format of a compaction that an agent does all of: the request, in a sealed memfd that a
// kService message passes, and the frames that come back on the stream socket passed with it.
// docs/reference/protocol.md has the same in prose. Little-endian, fixed width; the peer is
// untrusted. Pure functions, but for the two that name a descriptor.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace pulse::lsm {

struct TaskRequest {
  std::string db;             // the database's directory, absolute
  std::string output_dir;     // where its outputs go: below `db`, made by the host, empty
  std::string column_family;  // of the compaction
  std::string input;          // as RocksDB has serialised it, for DB::OpenAndCompact
  std::string version;        // of the host's RocksDB: both sides must have the same
  // Of `db` as the host sees it: under the same path the agent may have another one.
  uint64_t device = 0;
  uint64_t inode = 0;
  bool manual = false;  // the user has asked for it, as by DB::CompactRange
  bool urgent = false;  // of level 0, whose tables make writers wait first
};

// Below a database's directory: where whole compactions put their outputs, each into a directory of
// its own, until RocksDB moves them to their place.
inline constexpr char kTaskDirectory[] = "pulse-tasks";
bool IsInTaskDirectory(const std::string& path);

inline constexpr uint64_t kMaxTaskBytes = uint64_t{64} << 20;  // of a request, and of a result

std::string EncodeTask(const TaskRequest& request);
absl::StatusOr<TaskRequest> DecodeTask(absl::string_view bytes);

// A request as the memfd that carries it. The reader takes only one that is sealed, so that it
// cannot shrink while it is read.
absl::StatusOr<UniqueFd> WriteTask(const TaskRequest& request);
absl::StatusOr<TaskRequest> ReadTask(int fd);

enum class TaskFrameKind : uint32_t {
  kBeat =
      1,  // the agent is at it; every kTaskBeatMs. code: of kFullShare, what its tasks have of
          // a CPU that they want, if others have most of its CPUs, else kFullShare; 0: nothing new
  kDone = 2,    // payload: what DB::OpenAndCompact made, for RocksDB
  kFailed = 3,  // code: absl::StatusCode; payload: the reason. Unimplemented: never offer it again
};

struct TaskFrame {
  uint32_t magic;
  uint32_t kind;
  uint32_t code;
  uint32_t reserved;
  uint64_t length;  // bytes of payload that follow
};
static_assert(sizeof(TaskFrame) == 24);

inline constexpr uint32_t kTaskFrameMagic = 0x4b545350;  // "PSTK"
inline constexpr int kTaskBeatMs = 250;
inline constexpr uint32_t kFullShare = 1000;

// Checks a frame that the agent has sent.
absl::Status CheckTaskFrame(const TaskFrame& frame);

}  // namespace pulse::lsm
