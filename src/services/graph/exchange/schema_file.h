// graph.schema: what an export holds besides its CSV files, a map of Cypher's a line:
//
//   {export: 'pulse graph', version: 1, array_delimiter: ';'}
//   {nodes: 'nodes-1-Person.csv', label: 'Person', count: 3, properties: {name: 'string'}}
//   {relationships: 'relationships-1-KNOWS.csv', type: 'KNOWS', count: 2, properties: {}}
//   {index: 'by_name', label: 'Person', keys: ['name'], kind: 'index'}
//   {end: true, nodes: 3, relationships: 2}
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/model/database.h"

namespace pulse::graph {

inline constexpr char kSchemaFile[] = "graph.schema";
// 2, which a file has that needs it: constraints of relationships and of types.
inline constexpr int64_t kExportVersion = 2;

struct ExportedFile {
  std::string file;
  std::string name;  // of relationships: the type; of nodes: the first of their labels, or nothing
  uint64_t count = 0;
  // For readers; the files' headers count.
  std::vector<std::pair<std::string, std::string>> properties;
};

struct ExportSchema {
  char array_delimiter = ';';
  std::vector<ExportedFile> nodes, edges;
  std::vector<cypher::IndexDefinition> indexes;
  uint64_t node_count = 0, edge_count = 0;

  std::string Encode() const;
  // InvalidArgument names the line; FailedPrecondition where the version is newer.
  static absl::StatusOr<ExportSchema> Decode(std::string_view text, const std::string& shown);
};

}  // namespace pulse::graph
