// Turns the text of a query into tokens. The whole text is read before parsing, and brackets are
// matched, so that the parser can look past a bracket without reading what is in it. Linear in the
// text; no state; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/syntax/stop.h"

namespace pulse::cypher {

struct Lexeme {
  enum class Kind : uint8_t {
    kEnd,
    kName,        // also keywords; `text` is as written, `word` in capitals
    kQuotedName,  // `...`
    kInteger,
    kFloat,
    kString,
    kParameter,  // `text` is the name
    kSymbol,     // one of ( ) [ ] { } , . .. : ; | || + += - * / % ^ = =~ <> < <= > >= $
  };
  Kind kind = Kind::kEnd;
  uint32_t begin = 0, end = 0;  // byte offsets in the query
  uint32_t match = 0;           // of a bracket: the index of its partner; 0 where it has none
  uint32_t inside = ~0u;        // of a "|": the index of the bracket that it lies in
  std::string text;
  std::string word;
  uint64_t integer = 0;  // up to 2^63, which only a minus before it makes valid
  double number = 0;
};

// Errors: a character or literal that no token begins with or is, with its place.
// `stop`: as Parse() has it.
absl::StatusOr<std::vector<Lexeme>> Lex(std::string_view query, const StopHook* stop = nullptr);

}  // namespace pulse::cypher
