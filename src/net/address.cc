#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::net {
namespace {

constexpr std::string_view kUnix = "unix:";

absl::Status Malformed(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("address '", std::string(text),
                                                 "': ", std::string(why),
                                                 "; write HOST:PORT, [IPV6]:PORT or unix:PATH"));
}

absl::StatusOr<Address> ParseUnix(std::string_view text) {
  Address a;
  auto* un = reinterpret_cast<sockaddr_un*>(&a.storage);
  const std::string_view path = text.substr(kUnix.size());
  if (path.empty() || path.size() >= sizeof(un->sun_path)) {
    return Malformed(text, "the path has to have 1 to 107 bytes");
  }
  un->sun_family = AF_UNIX;
  memcpy(un->sun_path, path.data(), path.size());
  a.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return a;
}

const char* RemedyForBind(int error, bool is_unix) {
  switch (error) {
    case EADDRINUSE:
      return is_unix ? "there is a file that is no socket; choose another path, or remove it"
                     : "another program has this port; choose another port, or 0 for any";
    case EADDRNOTAVAIL:
      return "this machine has no such address";
    case EACCES:
      return is_unix ? "this user may not make files in that directory; choose another path"
                     : "choose a port from 1024 on";
    case ENOENT:
      return "make the directory first, or choose another path";
    default:
      return "";
  }
}

absl::Status Bind(const UniqueFd& fd, const Address& address) {
  if (bind(fd.get(), address.get(), address.size) == 0) return absl::OkStatus();
  return ErrnoError(errno, "listening on", address.ToString(),
                    RemedyForBind(errno, address.is_unix()));
}

template <typename Call>
Address AddressBy(Call call, int socket) {
  Address a;
  a.size = sizeof(a.storage);
  if (call(socket, reinterpret_cast<sockaddr*>(&a.storage), &a.size) != 0) a.size = 0;
  return a;
}

// Why it cannot; empty: it has.
std::string Resolve(const std::string& host, const std::string& port, Address* address) {
  // Which getaddrinfo(3) takes for loopback.
  if (host.empty() || host == "*") {
    return "no address; 0.0.0.0 is all of this machine's of IPv4, and :: those of IPv6 as well";
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); rc != 0) {
    return gai_strerror(rc);
  }
  address->size = found->ai_addrlen;
  memcpy(&address->storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return "";
}

}  // namespace

uint16_t Address::port() const {
  if (storage.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  }
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return 0;
}

void Address::set_port(uint16_t port) {
  if (storage.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  } else if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  }
}

bool Address::is_any() const {
  if (storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr == INADDR_ANY;
  }
  return storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

bool Address::is_loopback() const {
  if (storage.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == 127;
  }
  if (storage.ss_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr) != 0;
  }
  return is_unix();
}

std::string Address::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text,
              sizeof(text));
    return absl::StrCat(text, ":", port());
  }
  if (storage.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, text,
              sizeof(text));
    return absl::StrCat("[", text, "]:", port());
  }
  const size_t header = offsetof(sockaddr_un, sun_path);
  if (!is_unix() || size <= header) return std::string(kUnix);
  const char* path = reinterpret_cast<const sockaddr_un*>(&storage)->sun_path;
  return absl::StrCat(std::string(kUnix), std::string(path, strnlen(path, size - header)));
}

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  if (text.substr(0, kUnix.size()) == kUnix) return ParseUnix(text);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Malformed(text, "it has no port");
  std::string_view host = text.substr(0, colon);
  const std::string port(text.substr(colon + 1));
  int number = 0;
  if (!absl::SimpleAtoi(port, &number) || number < 0 || number > 65535) {
    return Malformed(text, "the port is not a number from 0 to 65535");
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty()) return Malformed(text, "it has no host");
  Address a;
  if (const std::string why = Resolve(std::string(host), port, &a); !why.empty()) {
    return Malformed(text, why);
  }
  return a;
}

absl::StatusOr<Address> ParseBind(std::string_view bind, uint16_t port) {
  std::string host(bind);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  Address a;
  if (const std::string why = Resolve(host, absl::StrCat(port), &a); !why.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bind ", std::string(bind), ": ", why,
                     "; give an address of this machine without a port, such as 127.0.0.1 or ::1"));
  }
  return a;
}

// Takes away the socket that a server which was killed has left on the path.
static absl::Status MakeRoom(const Address& address, const std::string& name) {
  const char* path = reinterpret_cast<const sockaddr_un*>(&address.storage)->sun_path;
  struct stat info;
  // Of what is no socket bind(2) tells.
  if (lstat(path, &info) != 0 || !S_ISSOCK(info.st_mode)) return absl::OkStatus();
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return ErrnoError(errno, "making a socket for", name);
  if (connect(probe.get(), address.get(), address.size) == 0 || errno == EAGAIN) {
    return ErrnoError(EADDRINUSE, "listening on", name, "stop the server that listens there");
  }
  // Only that says that nobody listens.
  if (errno != ECONNREFUSED && errno != ENOENT) {
    return ErrnoError(errno, "listening on", name,
                      "it is a socket of another program; choose another path");
  }
  unlink(path);
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> Listen(const Address& address, int backlog) {
  const std::string name = address.ToString();
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError(errno, "making a socket for", name);
  if (address.is_unix()) {
    PULSE_RETURN_IF_ERROR(MakeRoom(address, name));
  } else {
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) {
      return ErrnoError(errno, "sharing the port of", name);
    }
  }
  PULSE_RETURN_IF_ERROR(Bind(fd, address));
  if (listen(fd.get(), backlog) != 0) return ErrnoError(errno, "listening on", name);
  return fd;
}

absl::Status CheckFree(const Address& address) {
  if (address.is_unix()) return absl::OkStatus();
  const UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  return Bind(fd, address);
}

Address LocalAddress(int socket) { return AddressBy(getsockname, socket); }

Address PeerAddress(int socket) { return AddressBy(getpeername, socket); }

int StartConnect(const Address& address) {
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return -errno;
  while (connect(fd.get(), address.get(), address.size) != 0) {
    if (errno == EINPROGRESS) break;
    // A Unix socket's backlog is full: nothing reports when it no longer is.
    if (errno != EINTR) return -errno;
  }
  return fd.release();
}

int ConnectError(int socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 && PeerAddress(socket).size == 0 ? ECONNREFUSED : error;
}

void TuneSocket(int socket, int64_t silent_ms) {
  const int on = 1;
  // Refused on Unix sockets, which need none of it.
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  if (silent_ms <= 0) return;
  const unsigned limit = static_cast<unsigned>(silent_ms);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
  const int seconds = static_cast<int>(silent_ms / 1000 / 2 + 1);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
}

}  // namespace pulse::net
