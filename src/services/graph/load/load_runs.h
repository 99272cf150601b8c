// The relationships of a load on their way into the sink. Internal to LoadCsv.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "services/graph/load/load.h"
#include "services/graph/load/sink.h"

namespace pulse::graph {

// The relationships of one file, and where they begin among all.
struct LoadedEdges {
  uint32_t first = 0;
  uint32_t count = 0;
  LoadColumns columns;
};

struct EdgeTable {
  std::vector<uint32_t> sources, targets;  // rows of nodes
  std::vector<uint32_t> types;             // numbers in `tokens`; empty: all are of tokens[0]
  std::vector<Token> tokens;               // ascending
  std::vector<LoadedEdges> files;
  std::vector<NodeId> ids;  // of nodes, by row
};

struct BuildTimes {
  int64_t sort_ns = 0;
  int64_t write_ns = 0;
};

// Sorts both directions by counting and writes them as two runs, each by a thread of its own.
absl::Status WriteRuns(const EdgeTable& table, const RunOptions& options, LoadSink* sink,
                       const std::function<void()>& tick, BuildTimes* times);

}  // namespace pulse::graph
