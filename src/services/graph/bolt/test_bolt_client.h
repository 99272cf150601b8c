// Messages as a client of Bolt has them: for tests alone.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/graph/bolt/framing.h"
#include "services/graph/bolt/packstream.h"
#include "services/graph/bolt/values.h"
#include "services/graph/model/text.h"

namespace pulse::bolt::test {

inline std::string Packed(uint8_t tag, const ValueList& fields) {
  std::string bytes;
  PackWriter out(&bytes);
  out.StructHeader(tag, fields.size());
  // Nothing of a graph, so that it cannot fail.
  for (const Value& field : fields) PackValue(field, nullptr, &out).IgnoreError();
  return bytes;
}

inline Value Text(std::string_view text) { return Value::String(text); }
inline Value Map(ValueMap map = {}) { return Value::Map(std::move(map)); }

inline std::string Hello(ValueMap extra = {}) { return Packed(0x01, {Map(std::move(extra))}); }
inline std::string Logon(ValueMap auth = {}) { return Packed(0x6A, {Map(std::move(auth))}); }
inline std::string Query(std::string_view query, ValueMap parameters = {}, ValueMap extra = {}) {
  return Packed(0x10, {Text(query), Map(std::move(parameters)), Map(std::move(extra))});
}
inline std::string Begin(ValueMap extra = {}) { return Packed(0x11, {Map(std::move(extra))}); }
inline std::string Pull(int64_t n = -1, int64_t result = -1) {
  return Packed(0x3F, {Map({{"n", Value::Int(n)}, {"qid", Value::Int(result)}})});
}
inline std::string Discard(int64_t n = -1, int64_t result = -1) {
  return Packed(0x2F, {Map({{"n", Value::Int(n)}, {"qid", Value::Int(result)}})});
}
inline std::string Commit() { return Packed(0x12, {}); }
inline std::string Rollback() { return Packed(0x13, {}); }
inline std::string Reset() { return Packed(0x0F, {}); }
inline std::string Goodbye() { return Packed(0x02, {}); }

// An answer as text: "SUCCESS", "FAILURE Neo....", "IGNORED", "RECORD 1, 'a'".
std::string AnswerText(const Message& message);
// Those of whole chunks.
std::vector<Message> ReadAnswers(std::string_view bytes);

// The handshake of a client that speaks one version.
inline std::string Handshake(int minor) {
  std::string bytes(kMagic);
  bytes += std::string("\0\0", 2);
  bytes += static_cast<char>(minor);
  bytes += '\x05';
  return bytes + std::string(12, '\0');
}

inline std::string AnswerText(const Message& message) {
  const auto field = [&](std::string_view name) -> std::string {
    const Value* value = message.fields.empty() || !message.fields[0].is_map()
                             ? nullptr
                             : message.fields[0].Find(name);
    return value == nullptr || !value->is_string() ? "" : value->as_string();
  };
  switch (message.tag) {
    case 0x70:
      return "SUCCESS";
    case 0x7E:
      return "IGNORED";
    case 0x7F:
      return "FAILURE " + field("code") + field("neo4j_code");
    case 0x71: {
      std::string text = "RECORD";
      for (const Value& value : message.fields[0].as_list()) {
        text += value.is_int()      ? cypher::Concat(" ", value.as_int())
                : value.is_string() ? cypher::Concat(" ", value.as_string())
                                    : std::string(" ?");
      }
      return text;
    }
    default:
      return cypher::Concat("?", int{message.tag});
  }
}

inline std::vector<Message> ReadAnswers(std::string_view bytes) {
  std::vector<Message> answers;
  ChunkSplitter splitter;
  while (const size_t size = splitter.Next(bytes)) {
    auto message = ReadMessage(JoinChunks(bytes.substr(0, size)));
    answers.push_back(message.ok() ? *std::move(message) : Message());
    bytes.remove_prefix(size);
  }
  return answers;
}

}  // namespace pulse::bolt::test
