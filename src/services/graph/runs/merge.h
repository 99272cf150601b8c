// MergeRuns: compaction of runs of one side into one, wholly or for a range of nodes. What only one
// input has is copied as it is, by a plan that a copy engine carries out (groups, nodes' blocks,
// column segments); what several have is merged and encoded to scratch, then copied by the same
// plan. Sections III-A and III-B of the DSA paper, "Compaction".
//
// Threads: the caller's, and those of the engine; merges of different ranges may run at the same
// time, each with an engine of its own. Blocks on the sink. Memory: twice `buffer_bytes`, the
// output's index and what RunBuilder needs for properties.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "mover/copy_engine.h"
#include "services/graph/runs/copy_plan.h"
#include "services/graph/runs/run_builder.h"
#include "services/graph/runs/run_reader.h"

namespace pulse::graph {

struct MergeOptions {
  // Of versions that no snapshot from here on sees, none is kept.
  uint64_t oldest_snapshot = 0;
  // Nothing older lies below: tombstones that every snapshot sees go, with what they delete.
  bool bottom = false;
  NodeId first_node = 0;
  NodeId last_node = ~NodeId{0};
  uint32_t rows_per_segment = 4096;
  uint64_t segment_bytes = uint64_t{1} << 20;  // as RunOptions has it
  uint64_t buffer_bytes = uint64_t{4} << 20;
  // Whether groups and segments that are copied whole are checked first. Else the processor does
  // not touch them; damage in them stays where it is, with its checksum, and readers find it.
  bool check_copied = false;
  // Of one node's records, where several runs have them: in memory they are up to 500 times as
  // large as in a run. ResourceExhausted where they take more.
  uint64_t most_node_bytes = ~uint64_t{0};
  ExecutorOptions executor = {};
};

struct MergeStats {
  uint64_t nodes_copied = 0;  // as they are
  uint64_t nodes_merged = 0;  // encoded anew
  uint64_t bytes_copied = 0;  // blocks and directories of the former
  uint64_t bytes_encoded = 0;
  uint64_t column_bytes_copied = 0;
  uint64_t column_bytes_encoded = 0;
  uint64_t records_in = 0;  // of the range
  uint64_t records_out = 0;
  uint64_t versions_dropped = 0;  // superseded
  uint64_t tombstones_dropped = 0;
  int64_t waited_ns = 0;  // for the engine, with both buffers full: what did not overlap
  ExecutorStats copies;
};

struct MergeResult {
  RunInfo info;
  MergeStats stats;
};

// `runs`: the newest first. Of two records of one relationship with the same stamp, or with
// sequences that are no longer stored, that of the newer run counts.
absl::StatusOr<MergeResult> MergeRuns(std::span<const std::shared_ptr<const RunReader>> runs,
                                      const MergeOptions& options, CopyEngine* engine,
                                      RunSink* sink);

}  // namespace pulse::graph
