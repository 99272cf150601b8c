// Where a director listens, and where its host is: "127.0.0.1:6379", "[::1]:6379",
// "localhost:6379", or "unix:/run/host.sock". Thread-safe; resolving a name may block.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::net {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_unix() const { return storage.ss_family == AF_UNIX; }
  uint16_t port() const;
  void set_port(uint16_t port);  // of TCP
  bool is_loopback() const;
  bool is_any() const;  // 0.0.0.0, ::
  // As it is parsed. "unix:" for a socket without a name.
  std::string ToString() const;
};

absl::StatusOr<Address> ParseAddress(std::string_view text);

// What a server's option --bind names, an address or a name without a port.
absl::StatusOr<Address> ParseBind(std::string_view bind, uint16_t port);

// A listening socket that does not block. For TCP one of several on its port (SO_REUSEPORT). A
// Unix socket's file that nobody listens on any more is replaced.
absl::StatusOr<UniqueFd> Listen(const Address& address, int backlog);

// An error when somebody listens there already: a shared port would not notice.
absl::Status CheckFree(const Address& address);

Address LocalAddress(int socket);
Address PeerAddress(int socket);

// A socket whose connection is being made; writable when it is, or has failed. -errno when it
// failed at once.
int StartConnect(const Address& address);
// Of one that is writable: 0, or why it has failed (errno).
int ConnectError(int socket);

// No delays for small messages; dead peers are noticed: `silent_ms` is how long sent bytes may stay
// unacknowledged, 0 for the system's.
void TuneSocket(int socket, int64_t silent_ms);

}  // namespace pulse::net
