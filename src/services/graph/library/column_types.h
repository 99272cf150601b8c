// The one type that all values of a column have, for consumers whose columns have types: Arrow and
// NumPy. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/library/result_table.h"

namespace pulse::graph {

enum class FrameKind : uint8_t {
  kNull,  // there is no value
  kBool,
  kInt,
  kFloat,  // integers among them, too
  kString,
  kBytes,
  kDate,
  kLocalTime,
  kLocalDateTime,
  kInstant,   // date-times with a zone, in UTC
  kDuration,  // months, days, nanoseconds
  kList,
  kStruct,  // maps, points, nodes and relationships
  kMixed,   // there is no such type
};

struct FrameType {
  FrameKind kind = FrameKind::kNull;
  // Of date-times: a unit of nanoseconds, where one is no whole number of microseconds.
  bool nanos = false;
  // Of integers: a float does not have one of them.
  bool exact = false;
  // Of kInstant: the zone that all have, or UTC. Of kMixed: what was found, for messages.
  std::string zone;
  std::vector<std::string> names;   // of a struct's fields, ascending
  std::vector<FrameType> children;  // of a list, one; of a struct, by field
};

// Makes `type` wide enough for a value.
void Widen(const cypher::Value& value, const EntityRecords* entities, FrameType* type);
FrameType TypeOf(const ResultTable& table, size_t column);
// The same, where lists and structs are of no interest: kMixed for them.
FrameType FlatTypeOf(const ResultTable& table, size_t column);

// A point, node, relationship or path as maps and lists; others as they are.
cypher::Value Plain(const cypher::Value& value, const EntityRecords* entities);

// An integer, or the number by which Arrow and NumPy know a date or date-time of this type; 0 for
// null.
int64_t FixedInt(const FrameType& type, const cypher::Value& value);

}  // namespace pulse::graph
