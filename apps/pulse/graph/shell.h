// `pulse graph shell`: statements from a terminal, with history, or from standard input. Main
// thread only. Blocks on its user.
#pragma once

#include "absl/status/status.h"
#include "services/graph/session/service.h"

namespace pulse {

// On a terminal, Control-C is to end a statement and not the program, and text is UTF-8: to be
// called before any thread is started. Elsewhere it does nothing.
void PrepareTerminal();

// Ends at the end of the input, or where nobody reads what it prints. Without a terminal it stops
// at the first error, and returns it.
absl::Status RunGraphShell(cypher::GraphService* service, bool json);

// Runs one statement and prints its result. `transaction` null: in one of its own. That the reader
// of the result has gone (EPIPE; SIGPIPE has to be ignored) is no error.
absl::Status RunGraphStatement(cypher::GraphService* service, cypher::Transaction* transaction,
                               const std::string& text, const cypher::ValueMap& parameters,
                               bool json);

// The value of an expression of Cypher, which is of no graph.
absl::StatusOr<cypher::Value> ReadCypherValue(cypher::GraphService* service,
                                              const std::string& text);

}  // namespace pulse
