#include "apps/pulse/top/metrics_request.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/top/server_socket.h"
#include "base/clock.h"
#include "base/errors.h"

namespace pulse::top {
namespace {

constexpr size_t kMostMetrics = size_t{4} << 20;

}  // namespace

absl::StatusOr<std::string> AskMetrics(const std::string& address, int patience_ms) {
  const bool port_alone = address.find_first_not_of("0123456789") == std::string::npos;
  const std::string whole = port_alone ? absl::StrCat("127.0.0.1:", address) : address;
  ServerSocket socket(whole, "pulse graph serve DB --metrics PORT");
  const int64_t deadline = NowNanos() + int64_t{patience_ms} * 1'000'000;
  PULSE_RETURN_IF_ERROR(socket.Connect(deadline));
  // Of 1.0 the answer ends with the connection, and comes in one piece.
  PULSE_RETURN_IF_ERROR(socket.Send(
      absl::StrCat("GET /metrics HTTP/1.0\r\nHost: ", whole, "\r\nAccept: text/plain\r\n\r\n"),
      deadline));
  std::string reply;
  for (size_t more = 1; more > 0;) {
    PULSE_ASSIGN_OR_RETURN(more, socket.Receive(&reply, deadline));
    if (reply.size() > kMostMetrics) {
      return absl::InvalidArgumentError(absl::StrCat("the server at ", whole, " says too much"));
    }
  }
  const size_t body = reply.find("\r\n\r\n");
  if (!absl::StartsWith(reply, "HTTP/1.") || body == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("the server at ", whole, " does not speak HTTP"));
  }
  if (reply.substr(9, 3) != "200") {
    return absl::InvalidArgumentError(
        absl::StrCat("the server at ", whole, " has no metrics (status ", reply.substr(9, 3),
                     "); watch the address of pulse graph serve --metrics"));
  }
  return reply.substr(body + 4);
}

}  // namespace pulse::top
