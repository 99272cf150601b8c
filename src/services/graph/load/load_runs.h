// The relationships of a load on their way into the sink. Internal to LoadCsv.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "services/graph/load/load.h"
#include "services/graph/load/parsed_file.h"
#include "services/graph/load/sink.h"

namespace pulse::graph {

// Of texts that are fetched from their file, so many bytes are handed on at once, but for one.
inline constexpr uint64_t kFetchedTextBytes = uint64_t{1} << 20;

// The relationships of one file, and where they begin among all.
struct LoadedEdges {
  uint32_t first = 0;
  uint32_t count = 0;
  LoadColumns columns;
  // Where long texts of each column are, with their places instead of them; null: there are none.
  std::vector<const ParsedFile*> texts;

  bool IsLeft(size_t column, const Value& value) const {
    return texts[column] != nullptr && value.is_int();
  }
  absl::StatusOr<Value> WithText(size_t column, const Value& value) const {
    if (!IsLeft(column, value)) return value;
    return texts[column]->LeftText(value);
  }
  // Of the texts that are to be fetched for a row.
  uint64_t LeftBytes(uint32_t row) const {
    uint64_t bytes = 0;
    for (size_t c = 0; c < texts.size(); ++c) {
      if (texts[c] == nullptr) continue;
      const Value& value = columns[c].second.values[row];
      if (value.is_int()) bytes += ParsedFile::LeftBytes(value);
    }
    return bytes;
  }
};

struct EdgeTable {
  std::vector<uint32_t> sources, targets;  // rows of nodes
  std::vector<uint32_t> types;             // numbers in `tokens`; empty: all are of tokens[0]
  std::vector<Token> tokens;               // ascending
  std::vector<LoadedEdges> files;
  std::vector<NodeId> ids;  // of nodes, by row

  // The file that a relationship is of, by its number among all.
  size_t FileOf(uint32_t number) const {
    size_t f = 0;
    while (number - files[f].first >= files[f].count) ++f;
    return f;
  }
};

struct BuildTimes {
  int64_t sort_ns = 0;
  int64_t write_ns = 0;
};

// Sorts both directions by counting and writes them as two runs, each by a thread of its own.
absl::Status WriteRuns(const EdgeTable& table, const RunOptions& options, LoadSink* sink,
                       const std::atomic<bool>& stopped, const std::function<void()>& tick,
                       BuildTimes* times);

}  // namespace pulse::graph
