// What the two halves of the compaction service say to each other. A compaction is a kService
// message with one descriptor: a SOCK_SEQPACKET socket of its own, into which the host has put the
// whole order before: messages of handshake.h with the files. The agent writes back Progress, now
// and then, and in the end one Report. Whoever is tired of it closes the socket.
// What is written is not synced: that is the host's.
//
// A change here raises kServiceVersion. docs/reference/protocol.md has the same in prose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pulse::graph::engines {

inline constexpr uint32_t kServiceId = 3;
inline constexpr uint32_t kServiceVersion = 1;

// First message: args {inputs | flags << 32, oldest snapshot, first node, last node, rows of a
// segment | bytes of a buffer in KiB << 32, shortest piece for the engine | longest in KiB << 32},
// descriptor {output, empty, open for writing}. Then one for each input: args {bytes}, text its
// name, descriptor {file}. All are of type kService.
inline constexpr uint32_t kMostInputs = 128;
inline constexpr uint32_t kBottom = 1;
inline constexpr uint32_t kCheckCopied = 2;
inline constexpr uint32_t kAllFlags = 3;

inline constexpr uint64_t kReportMagic = 0x31747065'72677370;

// A sign of life, a second apart at most while an honest agent works.
struct Progress {
  uint64_t bytes;  // that it has read and written
};
static_assert(sizeof(Progress) == 8 && std::is_trivially_copyable_v<Progress>);

// MergeStats, and how it ended.
struct Report {
  uint64_t magic;
  int32_t code;  // absl::StatusCode
  uint32_t reserved;
  uint64_t bytes;  // of the output
  uint64_t nodes_copied, nodes_merged, bytes_copied, bytes_encoded;
  uint64_t column_bytes_copied, column_bytes_encoded, records_in, records_out;
  uint64_t versions_dropped, tombstones_dropped;
  int64_t waited_ns;
  uint64_t pieces, plan_bytes, engine_bytes, small_bytes, fallback_bytes;
  uint64_t cpu_ns;  // of the agent's thread
  char text[248];   // for people, zero-terminated
};
static_assert(sizeof(Report) == 408 && std::is_trivially_copyable_v<Report>);

}  // namespace pulse::graph::engines
