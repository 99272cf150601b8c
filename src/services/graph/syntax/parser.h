// Parses openCypher 9: recursive descent over the tokens of the whole query. Depth of nesting, and
// with it the stack, is bounded. No state; any thread; never blocks.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/graph/syntax/ast.h"
#include "services/graph/syntax/stop.h"

namespace pulse::cypher {

// How deep expressions, patterns and sub-queries nest.
inline constexpr int kMaxParseDepth = 100;
// How deep the tree of one expression may get, which also long chains of operators make it.
inline constexpr int kMaxExprDepth = 400;

// Errors: SyntaxError at compile time with line, column and a caret. What names mean is not looked
// at. Cancelled: `stop`, which may be null, has said so.
absl::StatusOr<std::unique_ptr<Query>> Parse(std::string_view query,
                                             const StopHook* stop = nullptr);

}  // namespace pulse::cypher
