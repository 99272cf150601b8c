// What the LSM service's two halves say to each other inside wire::Descriptor.
// docs/reference/protocol.md has the same in prose. PulseDB III-B.1: write, range_sync, sync_close;
// and the fetch stage's read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pulse::lsm {

inline constexpr uint32_t kServiceId = 0;
inline constexpr uint32_t kServiceVersion = 1;

// What the hello's answer tells the host (AgentLink::fact): how many whole compactions the agent
// runs at a time, and how fast a core of it is, in thousandths of a host's.
enum class AgentFact : size_t { kMaxTasks = 0, kCoreSpeed = 1 };

// A whole compaction (placement/task_wire.h) is a kService message: args {number of the task},
// descriptors {request: sealed memfd, reply: stream socket}.

enum class Opcode : uint32_t {
  // Introduces `file`. The descriptor was passed over the socket, or is `aux` when host and agent
  // are one
  // process (kFlagInlineFd). `length` > 0 asks to preallocate that many bytes.
  kOpen = 1,
  // Writes arena [arena_offset, arena_offset+length) at file_offset. `position` reclaims the
  // payload.
  kWrite = 2,
  // Write-back of file bytes [file_offset, file_offset+length); length 0: to the end of the file.
  kRangeSync = 3,
  // Everything written so far is durable when this completes; the file stays open.
  kSync = 4,
  // Truncates to `aux` bytes unless ~0, syncs, closes; `file` is then unknown.
  kSyncClose = 5,
  // Closes without syncing; `file` is then unknown.
  kDiscard = 6,
  // Reads file [file_offset, +length) into arena [arena_offset, +length). The result may be short
  // at
  // the end of the file. The arena of a queue used for reads is managed by the host alone.
  kRead = 7,
};

inline constexpr uint32_t kFlagInlineFd = 1;
inline constexpr uint32_t kFlagReadOnly = 2;

// What a request is part of, in bits 8 to 11 of the flags: of a kOpen for all writes of the output,
// of a kRead for itself. Any other value counts as kUnknown.
enum class IoPurpose : uint32_t {
  kUnknown = 0,
  kFlush = 1,
  kBase = 2,  // a compaction into the base level, or within L0
  kDeep = 3,  // a deeper compaction
};
inline constexpr uint32_t kPurposeShift = 8;
inline constexpr uint32_t PurposeFlags(IoPurpose purpose) {
  return static_cast<uint32_t>(purpose) << kPurposeShift;
}
inline constexpr IoPurpose PurposeOf(uint32_t flags) {
  const uint32_t value = flags >> kPurposeShift & 0xf;
  return value <= static_cast<uint32_t>(IoPurpose::kDeep) ? static_cast<IoPurpose>(value)
                                                          : IoPurpose::kUnknown;
}

}  // namespace pulse::lsm
