// Values as literals of Cypher, and back: 1, 0.5, 'text', true, null, [1, 2], {key: 1}, and
// date('2015-07-21'), point({x: 1.0, y: 2.0}) and the like. What is written reads back as the same
// value, of the same type. Two forms are not Cypher's: bytes('AP8=') is a byte array as base64, and
// datetime('2024-10-27T01:30Z', 3600, 'Europe/Berlin') is the instant, the offset and the zone
// where no ISO text has all of them.
//
// Pure, but that a date-time's zone reads its file once. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "services/graph/model/value.h"

namespace pulse::cypher {

// Nullopt: a node, relationship or path, which has none; or a date that ISO 8601 cannot write.
std::optional<std::string> LiteralText(const Value& value);
// All of `text`. Nullopt, and why in *error, where it is none.
std::optional<Value> ParseLiteral(std::string_view text, std::string* error);

// The text of a temporal value or a duration, where it reads back as the same.
std::optional<std::string> ExactTemporalText(const Value& value);

}  // namespace pulse::cypher
