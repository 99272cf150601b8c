// The metrics of a server, as Prometheus asks for them: GET /metrics. Blocks for `patience_ms` at
// most, and while a name is resolved. The server is untrusted: what it sends is bounded.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace pulse::top {

// `address`: HOST:PORT, or PORT on this machine.
absl::StatusOr<std::string> AskMetrics(const std::string& address, int patience_ms);

}  // namespace pulse::top
