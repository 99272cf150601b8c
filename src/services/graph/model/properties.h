// The properties of one node or relationship as bytes: by ascending key, a varint for the key and
// the value (model/value_codec.h). What versions in memory, the log and checkpoints hold.
//
// Pure; any thread. Input may come from a damaged file: what does not fit gives false.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "services/graph/model/graph.h"
#include "services/graph/model/value_codec.h"

namespace pulse::graph {

using cypher::Properties;
using cypher::Token;
using cypher::Value;

// Of properties in any order. Of equal keys the last counts; null values are left out, unless they
// are `changes`, in which null removes.
std::string EncodeProperties(const Properties& properties, bool changes = false);
bool DecodeProperties(std::string_view bytes, Properties* out);
// The bytes of one value, and whatever follows; empty where the key is not there.
std::string_view FindProperty(std::string_view bytes, Token key);
Value PropertyValue(std::string_view bytes, Token key);
// Whether each key has a value that is equal to the one at its place.
bool HasValues(std::string_view bytes, std::span<const Token> keys, std::span<const Value> values);
// `bytes` with `changes`, in which null removes.
bool ChangeProperties(std::string_view bytes, std::string_view changes, std::string* out);

}  // namespace pulse::graph
