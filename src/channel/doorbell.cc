#include "channel/doorbell.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/errors.h"

namespace pulse {

absl::StatusOr<Doorbell::Ends> Doorbell::CreatePair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
    return ErrnoError(errno, "creating", "a doorbell");
  }
  return Ends{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

absl::Status Doorbell::CheckRingEnd(int fd) {
  int domain = 0, type = 0;
  socklen_t size = sizeof(int);
  // Sending on a socket of another family may wait for a lock that its other holders can keep.
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX ||
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) {
    return absl::InvalidArgumentError("the peer's doorbell is not a Unix stream socket");
  }
  return absl::OkStatus();
}

void Doorbell::Kick() {
  const char one = 1;
  // EAGAIN means that more wake-ups wait than the socket holds: it is readable. EPIPE means that
  // nobody sleeps there any more.
  while (send(fd_.get(), &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void Doorbell::Drain() {
  if (hung_up_) return;
  char wakes[512];  // more than the socket holds of an honest peer's; the rest wakes again
  ssize_t n;
  do {
    n = recv(fd_.get(), wakes, sizeof(wakes), MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n == 0) hung_up_ = true;
}

}  // namespace pulse
