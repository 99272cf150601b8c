// The manifest: which files make up a database. It is replaced as a whole, which is the one commit
// that switches runs and checkpoints; a file that it does not name is a stray and is removed.
// docs/internals/graph-store.md specifies the bytes.
//
// Pure; any thread. Decoding takes any bytes: DataLoss where they are no manifest,
// FailedPrecondition where the format is newer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {

// 2: values may be byte arrays and points. 3: there may be constraints of relationships and of
// types; a database without any, ever, stays one of format 2, which older programs open.
inline constexpr uint32_t kStoreFormat = 3;
inline constexpr uint32_t kPlainFormat = 2;
inline constexpr char kManifestFile[] = "MANIFEST";
inline constexpr char kLockFile[] = "LOCK";
// Also where the manifest is lost.
inline bool IsFileOfDatabase(std::string_view name) {
  return name.ends_with(".wal") || name.ends_with(".run") || name.ends_with(".ckpt");
}

struct ManifestRun {
  std::string file;
  Side side = Side::kOut;
  int level = 1;
};

struct Manifest {
  uint32_t format = kPlainFormat;
  std::string checkpoint;            // empty: none
  uint64_t checkpoint_sequence = 0;  // of the nodes, names and schema in it
  uint64_t flushed = 0;              // relationships up to this commit are in runs
  uint64_t first_segment = 1;        // of the log
  uint64_t next_file = 1;
  uint64_t next_edge = 0;
  std::vector<ManifestRun> runs;                       // of each side, the newest first
  std::vector<std::pair<Token, int64_t>> edge_counts;  // by type, at `flushed`

  std::string Encode() const;
  static absl::StatusOr<Manifest> Decode(std::string_view bytes, const std::string& path);
  // The same whatever the format says that it is, for salvage.
  static absl::StatusOr<Manifest> DecodeBody(std::string_view bytes, const std::string& path);
  // Of all formats.
  static bool ChecksumFits(std::string_view bytes);
};

}  // namespace pulse::graph
