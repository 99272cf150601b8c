#include "examples/common/load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"

namespace pulse::examples {
namespace {

constexpr int64_t kGiveUpNanos = 30'000'000'000;
constexpr useconds_t kPauseMicros = 20'000;

}  // namespace

absl::StatusOr<UniqueFd> ConnectTcp(const std::string& host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return absl::InvalidArgumentError("not an IPv4 address: " + host);
  }
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(errno, "creating", "a socket");
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return absl::UnavailableError(
        ErrnoError(errno, "connecting to", absl::StrCat(host, ":", port), "is the server running?")
            .message());
  }
  const int one = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return fd;
}

absl::Status ConnectAgain(const std::function<absl::Status()>& connect) {
  const int64_t until = NowNanos() + kGiveUpNanos;
  while (true) {
    const absl::Status st = connect();
    if (st.ok() || NowNanos() > until) return st;
    usleep(kPauseMicros);
  }
}

}  // namespace pulse::examples
