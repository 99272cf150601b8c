// The end of a command that has written to a graph database. Internal to the command line.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "services/graph/core/store.h"

namespace pulse {

// What was committed is durable whether or not the checkpoint at close succeeds: where it fails, a
// warning says so, and the command has done what it was asked for. A command that failed would be
// repeated, and write twice.
inline absl::Status CloseWritten(graph::GraphStore* store, const std::string& db) {
  absl::Status closed = store->Close();
  if (closed.ok() || !closed.GetPayload(graph::kCommitsAreDurable).has_value()) return closed;
  Say(absl::StrCat("pulse graph: warning: ", db, ": ", closed.message(),
                   ". What was written is committed: do not write it again. Remedy: see to the "
                   "cause, such as a full file system; the next `pulse graph` that writes to the "
                   "database makes the checkpoint."),
      LogLevel::kWarn);
  return absl::OkStatus();
}

}  // namespace pulse
