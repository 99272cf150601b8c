// PackStream, the encoding of Bolt's messages: null, booleans, integers, floats, strings, bytes,
// lists, maps and structures. The reader trusts nothing: sizes, depth and the number of values are
// bounded by what is there.
//
// No state beyond the objects; one thread at a time each; nothing blocks. Errors: InvalidArgument;
// Unimplemented for a value that Cypher has no type for here, in a message that is sound so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/model/value.h"

namespace pulse::bolt {

using cypher::Value;
using cypher::ValueList;
using cypher::ValueMap;

// Structures of values.
enum class Tag : uint8_t {
  kNode = 'N',
  kRelationship = 'R',
  kUnboundRelationship = 'r',
  kPath = 'P',
  kDate = 'D',
  kTime = 'T',
  kLocalTime = 't',
  kDateTime = 'I',        // UTC, offset
  kDateTimeZoneId = 'i',  // UTC, name of a zone
  kLocalDateTime = 'd',
  kDuration = 'E',
  kPoint2d = 'X',  // SRID, x, y
  kPoint3d = 'Y',
};

// Appends to a string.
class PackWriter {
 public:
  // Not more than about `most` bytes are to come to it.
  explicit PackWriter(std::string* out, size_t most = SIZE_MAX) : out_(*out), most_(most) {}
  bool is_over() const { return out_.size() > most_; }
  void Null() { out_ += '\xC0'; }
  void Bool(bool value) { out_ += value ? '\xC3' : '\xC2'; }
  void Int(int64_t value);
  void Float(double value);
  void String(std::string_view text);
  void ByteArray(std::string_view bytes);
  // What follows: so many values; keys and values; fields.
  void ListHeader(size_t size) { Header(size, 0x90, 0xD4, 0xD5, 0xD6); }
  void MapHeader(size_t size) { Header(size, 0xA0, 0xD8, 0xD9, 0xDA); }
  void StructHeader(uint8_t tag, size_t fields);

 private:
  void Header(size_t size, int tiny, int small, int medium, int large);
  void Bytes(uint64_t value, int bytes);  // big-endian
  std::string& out_;
  const size_t most_;
};

// A message: a structure of values.
struct Message {
  uint8_t tag = 0;
  ValueList fields;
};

// What one message may hold.
struct ReadLimits {
  int depth = cypher::kMaxValueDepth - 4;
  size_t values = size_t{1} << 22;
};

absl::StatusOr<Message> ReadMessage(std::string_view bytes, const ReadLimits& limits = {});

}  // namespace pulse::bolt
