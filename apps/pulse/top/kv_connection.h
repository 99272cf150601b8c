// A connection to a `pulse kv` or `pulse serve`, for INFO. It stays open between two looks, and is
// made anew when it was lost. One thread at a time; Info blocks for `patience_ms` at most, and
// while a name is resolved. The server is untrusted: what it sends is bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "apps/pulse/top/server_socket.h"

namespace pulse::top {

class KvConnection {
 public:
  // "HOST:PORT", or "unix:PATH". `password`: of the default user; empty: none is sent.
  KvConnection(std::string address, std::string password);

  absl::StatusOr<std::string> Info(int patience_ms);

 private:
  absl::Status Connect(int64_t deadline);
  // One bulk or simple string; the error that the server replied with.
  absl::StatusOr<std::string> Ask(std::string_view request, int64_t deadline);

  ServerSocket socket_;
  const std::string password_;
};

}  // namespace pulse::top
