// Errors as Neo4j's drivers know them: a code, by which they decide whether to try again, and a
// GQLSTATUS. No state; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace pulse::cypher {

// What was being done: the same status means something else for each.
enum class Doing { kStore, kQuery, kSchema, kCommit, kProtocol, kAuthentication };

struct Failure {
  std::string_view code;  // "Neo.ClientError.Statement.SyntaxError"
  std::string message;
  std::string_view gql_status;       // "42001"
  std::string_view gql_description;  // "error: ..."
};
Failure FailureOf(const absl::Status& status, Doing doing);

// A disk is full, or a quota or a limit of the size of files is reached: also ResourceExhausted, as
// a limit of memory is, but with another remedy.
bool IsDiskFull(const absl::Status& status);

// The same status as an error of a kind, by which FailureOf knows it.
absl::Status OfKind(const absl::Status& status, std::string_view kind);

}  // namespace pulse::cypher
