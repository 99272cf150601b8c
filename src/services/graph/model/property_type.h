// The type that a constraint wants of a property: INTEGER, ZONED DATETIME, LIST<STRING NOT NULL>.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "services/graph/model/value.h"

namespace pulse::cypher {

struct PropertyType {
  Type type = Type::kString;
  bool list = false;  // of values of that type
  bool operator==(const PropertyType&) const = default;
};

// Of its name in capitals, with one space between words and none beside brackets; names that mean
// the same (INT, TIMESTAMP WITH TIME ZONE) are taken, too. Nothing: no property has such a type.
std::optional<PropertyType> ParsePropertyType(std::string_view text);
// The name that Neo4j shows.
std::string PropertyTypeText(const PropertyType& type);
// Null is of each type.
bool FitsType(const Value& value, const PropertyType& type);

}  // namespace pulse::cypher
