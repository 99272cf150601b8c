// Values as bytes: how the graph store keeps properties in memory, in its log and in its runs.
// docs/internals/graph-store.md specifies them. Small integers take one byte, other integers a
// varint.
//
// Any thread; nothing blocks. Decoding takes any bytes: what is damaged or hostile gives false, and
// nothing is read past the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "services/graph/model/value.h"

namespace pulse::cypher {

// No value begins with one of these bytes: others who write values may give them a meaning.
inline constexpr uint8_t kFirstForeignTag = 32, kLastForeignTag = 47;

// Base-128, the lowest digits first; at most ten bytes.
void AppendVarint(uint64_t value, std::string* out);
inline uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
inline int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}
// These take what they read off the front of *in.
bool ReadVarint(std::string_view* in, uint64_t* value);
bool ReadBytes(std::string_view* in, uint64_t length, std::string_view* bytes);

// Whether a value can be kept: all but nodes, relationships, paths, and what contains one.
bool IsStorable(const Value& value);
// PULSE_CHECKs that it is storable.
void AppendValue(const Value& value, std::string* out);
bool ReadValue(std::string_view* in, Value* value);
// Past a value, which is checked for its length alone.
bool SkipValue(std::string_view* in);
// Of entries by ascending key, a varint for the key and the value of each: what follows the key,
// which begins with its value. Empty where it is not there, and where what is before it is damaged.
std::string_view FindKey(std::string_view entries, uint64_t key);
// What most properties are: true and the number, or false with *in where it was.
bool ReadInt(std::string_view* in, int64_t* value);

}  // namespace pulse::cypher
