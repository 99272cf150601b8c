#include "apps/pulse/top/kv_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "net/address.h"
#include "services/redis/commands/codec.h"

namespace pulse::top {
namespace {

constexpr size_t kMostReply = size_t{1} << 20;

}  // namespace

absl::Status KvConnection::Wait(short events, int64_t deadline) const {
  pollfd p{socket_.get(), events, 0};
  while (true) {
    const int64_t left_ms = (deadline - NowNanos() + 999'999) / 1'000'000;
    const int n = left_ms <= 0 ? 0 : poll(&p, 1, static_cast<int>(left_ms));
    if (n > 0) return absl::OkStatus();
    if (n < 0 && errno == EINTR) continue;
    return absl::DeadlineExceededError(absl::StrCat("the server at ", address_,
                                                    " does not answer; is it a pulse kv, without "
                                                    "TLS?"));
  }
}

absl::Status KvConnection::Connect(int64_t deadline) {
  PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseAddress(address_));
  const int fd = net::StartConnect(address);
  int error = fd < 0 ? -fd : 0;
  if (fd >= 0) {
    socket_.reset(fd);
    PULSE_RETURN_IF_ERROR(Wait(POLLOUT, deadline));
    error = net::ConnectError(fd);
  }
  if (error != 0) {
    return ErrnoError(error, "no server at", address_, "start one with: pulse kv --port PORT");
  }
  if (password_.empty()) return absl::OkStatus();
  std::string request;
  redis::AppendRequest({"AUTH", password_}, &request);
  return Ask(request, deadline).status();
}

absl::StatusOr<std::string> KvConnection::Ask(std::string_view request, int64_t deadline) {
  while (!request.empty()) {
    const ssize_t n = send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      request.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      PULSE_RETURN_IF_ERROR(Wait(POLLOUT, deadline));
    } else if (errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("the server at ", address_, " is gone"));
    }
  }
  redis::ReplySplitter splitter(redis::Limits{.max_reply_bulk = kMostReply, .max_elements = 0});
  std::string in;
  while (true) {
    const auto size = splitter.Next(in);
    if (!size.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("the server at ", address_,
                                                     " does not speak Redis's protocol, or only "
                                                     "with TLS, which pulse top has not"));
    }
    if (*size > 0) break;
    PULSE_RETURN_IF_ERROR(Wait(POLLIN, deadline));
    char bytes[16384];
    const ssize_t n = recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (n > 0) {
      in.append(bytes, static_cast<size_t>(n));
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      return absl::UnavailableError(absl::StrCat("the server at ", address_,
                                                 " has ended the connection; if it wants TLS, "
                                                 "pulse top has none"));
    }
    if (in.size() > kMostReply + 64) {
      return absl::InvalidArgumentError(absl::StrCat("the server at ", address_, " says too much"));
    }
  }
  // "$N\r\n...\r\n", "+...\r\n" or "-...\r\n".
  const size_t line = in.find("\r\n");
  if (in[0] == '$') return in.substr(line + 2, in.size() - line - 4);
  if (in[0] == '+') return in.substr(1, line - 1);
  if (absl::StartsWith(in, "-NOAUTH")) {
    return absl::PermissionDeniedError(
        absl::StrCat("the server at ", address_, " wants a password: set REDISCLI_AUTH"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the server at ", address_, ": ", in.substr(1, line - 1)));
}

absl::StatusOr<std::string> KvConnection::Info(int patience_ms) {
  const int64_t deadline = NowNanos() + int64_t{patience_ms} * 1'000'000;
  const bool kept = socket_.valid();
  if (!kept) {
    if (const absl::Status st = Connect(deadline); !st.ok()) {
      socket_.reset();
      return st;
    }
  }
  std::string request;
  redis::AppendRequest({"INFO"}, &request);
  auto text = Ask(request, deadline);
  if (!text.ok()) socket_.reset();
  // The server may have been started anew since.
  if (!text.ok() && kept && absl::IsUnavailable(text.status())) return Info(patience_ms);
  return text;
}

}  // namespace pulse::top
