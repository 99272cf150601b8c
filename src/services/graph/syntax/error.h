// Errors of Cypher: a kind, when it is found, and a detail, by the names that the openCypher TCK
// uses, beside a message for people. They travel as absl::Status with a payload. Any thread;
// nothing blocks.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace pulse::cypher {

// Where something stands in the text of a query: a byte offset.
struct Pos {
  uint32_t offset = 0;
};

struct ErrorInfo {
  std::string kind;    // "SyntaxError"
  std::string phase;   // "compile time" or "runtime"
  std::string detail;  // "UndefinedVariable"
};

// Found before anything runs. InvalidArgument.
absl::Status CompileError(std::string_view kind, std::string_view detail, std::string_view message);
// Found while the query runs; what it changed is to be rolled back. FailedPrecondition.
absl::Status RuntimeError(std::string_view kind, std::string_view detail, std::string_view message);
// The detail of a limit that is none of memory: a disk, a quota or a limit of the size of files.
inline constexpr std::string_view kDiskFull = "DiskFull";

// A limit of memory, rows or time. ResourceExhausted, DeadlineExceeded or Cancelled.
absl::Status LimitError(absl::StatusCode code, std::string_view message,
                        std::string_view detail = "LimitExceeded");

// What the functions above stored; empty for a status from elsewhere (a store's).
ErrorInfo InfoOf(const absl::Status& status);

// `message (line 1, column 5)`, then the line of the query and a caret under the place. A long line
// is cut around it. Columns count characters, not bytes.
std::string AtPosition(std::string_view query, Pos pos, std::string_view message);

}  // namespace pulse::cypher
