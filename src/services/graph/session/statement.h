// Statements that are no queries: indexes and constraints, SHOW and TERMINATE, AT SNAPSHOT, EXPORT
// and IMPORT DATABASE. The forms are those of Neo4j 5, and of the last two Kuzu's. What SHOW and
// TERMINATE say becomes a query that calls a procedure. No state; any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/graph/model/database.h"
#include "services/graph/syntax/stop.h"

namespace pulse::cypher {

struct SchemaCommand {
  // Of all: an export or import of the whole database, as files below `directory`.
  enum class Exchange : uint8_t { kNone, kExport, kImport };
  Exchange exchange = Exchange::kNone;
  std::string directory;
  bool drop = false;
  bool constraint = false;  // of a drop: DROP CONSTRAINT
  bool lenient = false;     // IF NOT EXISTS, IF EXISTS
  IndexDefinition index;    // of a drop: the name alone
};

struct ParsedStatement {
  // One of these two.
  std::optional<SchemaCommand> schema;
  std::string query;
  std::optional<uint64_t> snapshot;  // AT SNAPSHOT n before the query
};

// Errors: SyntaxError with its place, as the parser's; Unimplemented kinds of indexes.
absl::StatusOr<ParsedStatement> ParseStatement(std::string_view text,
                                               const StopHook* stop = nullptr);

// What CREATE INDEX or CREATE CONSTRAINT without a name calls it: always the same.
std::string MadeIndexName(const IndexDefinition& index);

// Whether it changes data or schema, as far as its text says; false for what is no statement.
bool StatementWrites(std::string_view text);

}  // namespace pulse::cypher
