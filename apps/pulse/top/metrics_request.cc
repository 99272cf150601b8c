#include "apps/pulse/top/metrics_request.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "net/address.h"

namespace pulse::top {
namespace {

constexpr size_t kMostMetrics = size_t{4} << 20;

class MetricsRequest {
 public:
  MetricsRequest(std::string address, int patience_ms)
      : address_(std::move(address)), deadline_(NowNanos() + int64_t{patience_ms} * 1'000'000) {}

  absl::StatusOr<std::string> Run() {
    PULSE_RETURN_IF_ERROR(Connect());
    // Of 1.0 the answer ends with the connection, and comes in one piece.
    const std::string text =
        absl::StrCat("GET /metrics HTTP/1.0\r\nHost: ", address_, "\r\nAccept: text/plain\r\n\r\n");
    PULSE_RETURN_IF_ERROR(Send(text));
    PULSE_ASSIGN_OR_RETURN(const std::string reply, Receive());
    const size_t body = reply.find("\r\n\r\n");
    if (!absl::StartsWith(reply, "HTTP/1.") || body == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("the server at ", address_, " does not speak HTTP"));
    }
    if (reply.substr(9, 3) != "200") {
      return absl::InvalidArgumentError(
          absl::StrCat("the server at ", address_, " has no metrics (status ", reply.substr(9, 3),
                       "); watch the address of pulse graph serve --metrics"));
    }
    return reply.substr(body + 4);
  }

 private:
  absl::Status Wait(short events) const {
    pollfd p{socket_.get(), events, 0};
    while (true) {
      const int64_t left_ms = (deadline_ - NowNanos() + 999'999) / 1'000'000;
      const int n = left_ms <= 0 ? 0 : poll(&p, 1, static_cast<int>(left_ms));
      if (n > 0) return absl::OkStatus();
      if (n < 0 && errno == EINTR) continue;
      return absl::DeadlineExceededError(
          absl::StrCat("the server at ", address_, " does not answer"));
    }
  }
  absl::Status Connect() {
    PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseAddress(address_));
    const int fd = net::StartConnect(address);
    int error = fd < 0 ? -fd : 0;
    if (fd >= 0) {
      socket_.reset(fd);
      PULSE_RETURN_IF_ERROR(Wait(POLLOUT));
      error = net::ConnectError(fd);
    }
    if (error == 0) return absl::OkStatus();
    return ErrnoError(error, "no server at", address_,
                      "start one with: pulse graph serve DB --metrics PORT");
  }
  absl::Status Send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t n = send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n >= 0) {
        text.remove_prefix(static_cast<size_t>(n));
      } else if (errno == EAGAIN) {
        PULSE_RETURN_IF_ERROR(Wait(POLLOUT));
      } else if (errno != EINTR) {
        return absl::UnavailableError(absl::StrCat("the server at ", address_, " is gone"));
      }
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Receive() const {
    std::string in;
    char bytes[16384];
    while (true) {
      PULSE_RETURN_IF_ERROR(Wait(POLLIN));
      const ssize_t n = recv(socket_.get(), bytes, sizeof(bytes), 0);
      if (n == 0) return in;
      if (n > 0) {
        in.append(bytes, static_cast<size_t>(n));
      } else if (errno != EAGAIN && errno != EINTR) {
        return absl::UnavailableError(absl::StrCat("the server at ", address_, " is gone"));
      }
      if (in.size() > kMostMetrics) {
        return absl::InvalidArgumentError(
            absl::StrCat("the server at ", address_, " says too much"));
      }
    }
  }

  const std::string address_;
  const int64_t deadline_;
  UniqueFd socket_;
};

}  // namespace

absl::StatusOr<std::string> AskMetrics(const std::string& address, int patience_ms) {
  const bool port_alone = address.find_first_not_of("0123456789") == std::string::npos;
  return MetricsRequest(port_alone ? absl::StrCat("127.0.0.1:", address) : address, patience_ms)
      .Run();
}

}  // namespace pulse::top
