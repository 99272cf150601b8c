// Asking what an agent does (wire::MessageType::kStatus), and the answer: a JSON text in a
// memory file, since control messages are small. docs/reference/protocol.md, "Status".
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse {

// Answers a kStatus with `json`. Does not wait for a peer that does not read.
absl::Status SendStatus(int socket, absl::string_view json);

// Asks who listens at `path`, an agent or a process that has an embedded one (status=PATH). Blocks
// for at most `timeout_ms`. NotFound or Unavailable where nobody listens, FailedPrecondition for an
// agent of another protocol version, DeadlineExceeded for one that
// is silent; the text says what to do. Refuses an answer of more than 64
// MiB, and one from another user that is not root.
absl::StatusOr<std::string> AskStatus(const std::string& path, int timeout_ms);

}  // namespace pulse
