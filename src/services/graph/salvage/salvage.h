// Salvage: makes a sound database of what can be read of a damaged one, which stays as it is.
//
// Whatever has a good checksum is taken: groups of nodes and segments of properties in runs, frames
// of the checkpoint, commits of the log, also behind a damage. Relationships of a part that is lost
// in the runs of one direction are taken from those of the other one, where they have no
// properties. What a lost commit deleted may be there again. Everything that was lost is counted,
// and named as far as its place is known; a cut of the log's end cannot be told from a kill.
//
// Memory: the nodes, the log's relationships and the store's limit; the new database is written as
// a log and opened, so that the disk holds its contents about twice for a while. Threads: one.
// Blocks on I/O. Nobody else has `from` open for writing meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/core/files.h"
#include "services/graph/runs/engines.h"

namespace pulse::graph {

struct SalvageOptions {
  uint64_t memory_limit = uint64_t{256} << 20;  // of the new database's store
  Files* files = nullptr;                       // null: the operating system's
  EngineSource* engines = nullptr;              // of the new database's store, as in StoreOptions
};

struct SalvageReport {
  uint64_t nodes = 0, edges = 0;  // in the new database
  // Lost.
  uint64_t files_lost = 0;    // runs, checkpoint, segments of the log of which nothing is left
  uint64_t records_lost = 0;  // of runs, each relationship in each direction
  uint64_t values_lost = 0;   // of properties of relationships; at most: nulls count
  uint64_t frames_lost = 0;   // stretches of the checkpoint
  uint64_t commits_lost = 0;  // of the log; at most: numbers that stand for nothing count
  uint64_t edges_without_node = 0;  // left out: a node of theirs was deleted
  // Taken in spite of that.
  uint64_t edges_from_other_side = 0;  // structure without properties
  uint64_t bare_nodes = 0;             // known by their relationships only
  uint64_t names_made_up = 0;          // of labels, types and keys
  std::vector<std::string> damages;    // each with its file and place; the first 1,000
  uint64_t more_damages = 0;
};

// NotFound: `from` has nothing of a database. FailedPrecondition: a process has `from` open for
// writing, its format is newer, or `to` is there and not empty. PermissionDenied: the manifest must
// not be read. ResourceExhausted: this process is short of memory or descriptors, or there is no
// space. What else cannot be read of `from` is named and counted as lost. Errors of writing; what
// was made until then is removed.
absl::StatusOr<SalvageReport> SalvageGraph(const std::string& from, const std::string& to,
                                           const SalvageOptions& options = {});

}  // namespace pulse::graph
