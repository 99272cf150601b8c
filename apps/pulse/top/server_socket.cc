#include "apps/pulse/top/server_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "net/address.h"

namespace pulse::top {

absl::Status ServerSocket::Wait(short events, int64_t deadline) const {
  pollfd p{fd_.get(), events, 0};
  while (true) {
    const int64_t left_ms = (deadline - NowNanos() + 999'999) / 1'000'000;
    const int n = left_ms <= 0 ? 0 : poll(&p, 1, static_cast<int>(left_ms));
    if (n > 0) return absl::OkStatus();
    if (n < 0 && errno == EINTR) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("the server at ", address_, " does not answer", silent_));
  }
}

absl::Status ServerSocket::Connect(int64_t deadline) {
  PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseAddress(address_));
  const int fd = net::StartConnect(address);
  int error = fd < 0 ? -fd : 0;
  if (fd >= 0) {
    fd_.reset(fd);
    PULSE_RETURN_IF_ERROR(Wait(POLLOUT, deadline));
    error = net::ConnectError(fd);
  }
  if (error == 0) return absl::OkStatus();
  return ErrnoError(error, "no server at", address_, absl::StrCat("start one with: ", start_));
}

absl::Status ServerSocket::Send(std::string_view bytes, int64_t deadline) const {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      PULSE_RETURN_IF_ERROR(Wait(POLLOUT, deadline));
    } else if (errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("the server at ", address_, " is gone"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ServerSocket::Receive(std::string* in, int64_t deadline) const {
  char bytes[16384];
  while (true) {
    PULSE_RETURN_IF_ERROR(Wait(POLLIN, deadline));
    const ssize_t n = recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (n >= 0) {
      in->append(bytes, static_cast<size_t>(n));
      return static_cast<size_t>(n);
    }
    if (errno != EAGAIN && errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("the server at ", address_, " is gone"));
    }
  }
}

}  // namespace pulse::top
