// The relationships of a load on their way into the sink. Internal to LoadCsv.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "services/graph/load/load.h"
#include "services/graph/load/parsed_file.h"
#include "services/graph/load/sink.h"

namespace pulse::graph {

// The relationships of one file, and where they begin among all.
struct LoadedEdges {
  uint32_t first = 0;
  uint32_t count = 0;
  LoadColumns columns;
  // Where long texts of each column are, with offsets in their place; null: there are none.
  std::vector<const ParsedFile*> texts;

  bool HasLongTexts() const {
    for (size_t c = 0; c < texts.size(); ++c) {
      if (texts[c] == nullptr) continue;
      for (const Value& value : columns[c].second.values) {
        if (value.is_int()) return true;
      }
    }
    return false;
  }
  Value WithText(size_t column, const Value& value) const {
    const bool offset = texts[column] != nullptr && value.is_int();
    return offset ? texts[column]->TextAt(static_cast<uint64_t>(value.as_int())) : value;
  }
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
