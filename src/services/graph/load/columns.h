// The columns of a node or relationship file: their names and types from its header, plain or as
// Neo4j's import writes it, and fields as values. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/graph/load/csv.h"
#include "services/graph/model/graph.h"

namespace pulse::graph {

// Of a file.
inline constexpr size_t kMostColumns = 10'000;

enum class FieldType : uint8_t {
  kInferred,  // kInt where every value is one, else kFloat, kBool, kString (InferredType)
  kBool,
  kInt,
  kFloat,
  kString,
  kDate,
  kLocalTime,
  kTime,
  kLocalDateTime,
  kDateTime,
  kDuration,
  kPoint,  // a map of Cypher, as {x: 1, y: 2}
  kAny,    // a literal of Cypher (model/literal.h): any value, each of its own type
};

// "int", "long", "double", "string", "date" and so on; InvalidArgument lists those there are.
absl::StatusOr<FieldType> ParseFieldType(absl::string_view name);

enum class ColumnRole : uint8_t { kProperty, kKey, kSource, kTarget, kLabels, kType, kIgnored };

struct FileColumn {
  std::string name;  // of the property; empty: it is none
  ColumnRole role = ColumnRole::kProperty;
  FieldType type = FieldType::kInferred;
  bool list = false;               // of `type`, separated by the dialect's array_delimiter
  std::string space;               // of keys: kKey, kSource, kTarget; may be empty
  std::optional<cypher::Crs> crs;  // of points that say none themselves
};

struct FileHeader {
  std::vector<FileColumn> columns;
  std::vector<std::string> names;  // of the columns, also where they are no properties
  bool neo4j = false;
  uint64_t end = 0;  // where the first record begins
};

// The header of a file of nodes: plain, where the first column is the key, or with :ID. Of one of
// relationships: plain, where the first two are keys of source and target, or with :START_ID and
// :END_ID. `types`: given by name, before what the header says. InvalidArgument for a header that
// is none, with the column's name.
absl::StatusOr<FileHeader> ReadHeader(absl::string_view file, bool of_nodes,
                                      const CsvDialect& dialect,
                                      const std::map<std::string, std::string>& types);

// The narrowest type that holds the fields of a column without changing any: a number that no type
// of numbers holds exactly makes it a column of texts.
class InferredType {
 public:
  void Add(const CsvField& field, const CsvDialect& dialect);
  // Of the same column.
  void Add(const InferredType& other) {
    Widen(other.type_);
    rounded_ |= other.rounded_;
  }
  // kInferred: no field had a value.
  FieldType type() const {
    return type_ == FieldType::kFloat && rounded_ ? FieldType::kString : type_;
  }

 private:
  void Widen(FieldType type);
  FieldType type_ = FieldType::kInferred;
  bool rounded_ = false;  // there is an integer that a double does not hold exactly
};

// Whether a field is no number or truth value of a column whose type is inferred, though it could
// be read as one: what is quoted, 007, and of floats "nan" and "inf".
bool MustBeText(const CsvField& field, FieldType type);

// Whether it is an integer that a double does not hold exactly, of 64 bits or of more.
bool IsRoundedByDouble(absl::string_view text);

bool IsNullField(const CsvField& field, const CsvDialect& dialect);
bool ParseInt(absl::string_view text, int64_t* value);
bool ParseFloat(absl::string_view text, double* value);

// Appends a field to a column of this type (kInts for kInt, kFloats for kFloat, else kValues). Null
// for an empty field. False: it is no such value; nothing is appended.
bool AppendField(const FileColumn& column, const CsvField& field, const CsvDialect& dialect,
                 cypher::Column* out);
void StartColumn(const FileColumn& column, cypher::Column* out);
// "an integer", for messages.
absl::string_view FieldTypeText(const FileColumn& column);

}  // namespace pulse::graph
