// ExportGraph: one snapshot of a graph as CSV files with Neo4j's headers, one for each label and
// each type, and a schema file (schema_file.h) with the indexes and constraints. Text in quotes,
// dates as ISO 8601; a property of several types, or of lists that CSV cannot write, is a column of
// type `any` with literals of Cypher. Nodes are numbered as they are written; import.h reads it.
//
// Any thread; blocks. Memory: a buffer. Errors: the store's, those of the system with the file's
// name, Cancelled; InvalidArgument for a name or value that no file can have.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/exchange/directory.h"
#include "services/graph/model/database.h"

namespace pulse::graph {

struct ExchangeReport {
  uint64_t nodes = 0, edges = 0;
  uint64_t indexes = 0, constraints = 0;
  uint64_t files = 0, bytes = 0;
};

struct ExportOptions {
  // Asked for each batch; true ends it with Cancelled. Null: not asked.
  std::function<bool()> stopped = {};
  // How many nodes and relationships are done of both passes; may be null.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
};

// Commits `to`. `names` and `indexes`: at least those of the snapshot.
absl::StatusOr<ExchangeReport> ExportGraph(const cypher::GraphView& view,
                                           const cypher::DatabaseNames& names,
                                           const std::vector<cypher::IndexDefinition>& indexes,
                                           const ExportOptions& options, NewDirectory* to);

// Of the database's newest state.
absl::StatusOr<ExchangeReport> ExportDatabase(cypher::Database* database,
                                              const ExportOptions& options, NewDirectory* to);

}  // namespace pulse::graph
