#include "apps/pulse/top/kv_connection.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "services/redis/commands/codec.h"

namespace pulse::top {
namespace {

constexpr size_t kMostReply = size_t{1} << 20;

}  // namespace

KvConnection::KvConnection(std::string address, std::string password)
    : socket_(std::move(address), "pulse kv --port PORT", "; is it a pulse kv, without TLS?"),
      password_(std::move(password)) {}

absl::Status KvConnection::Connect(int64_t deadline) {
  PULSE_RETURN_IF_ERROR(socket_.Connect(deadline));
  if (password_.empty()) return absl::OkStatus();
  std::string request;
  redis::AppendRequest({"AUTH", password_}, &request);
  return Ask(request, deadline).status();
}

absl::StatusOr<std::string> KvConnection::Ask(std::string_view request, int64_t deadline) {
  const std::string& address = socket_.address();
  PULSE_RETURN_IF_ERROR(socket_.Send(request, deadline));
  redis::ReplySplitter splitter(redis::Limits{.max_reply_bulk = kMostReply, .max_elements = 0});
  std::string in;
  while (true) {
    const auto size = splitter.Next(in);
    if (!size.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("the server at ", address,
                                                     " does not speak Redis's protocol, or only "
                                                     "with TLS, which pulse top has not"));
    }
    if (*size > 0) break;
    const auto more = socket_.Receive(&in, deadline);
    if (absl::IsUnavailable(more.status()) || (more.ok() && *more == 0)) {
      return absl::UnavailableError(absl::StrCat("the server at ", address,
                                                 " has ended the connection; if it wants TLS, "
                                                 "pulse top has none"));
    }
    if (!more.ok()) return more.status();
    if (in.size() > kMostReply + 64) {
      return absl::InvalidArgumentError(absl::StrCat("the server at ", address, " says too much"));
    }
  }
  // "$N\r\n...\r\n", "+...\r\n" or "-...\r\n".
  const size_t line = in.find("\r\n");
  if (in[0] == '$') return in.substr(line + 2, in.size() - line - 4);
  if (in[0] == '+') return in.substr(1, line - 1);
  if (absl::StartsWith(in, "-NOAUTH")) {
    return absl::PermissionDeniedError(
        absl::StrCat("the server at ", address, " wants a password: set REDISCLI_AUTH"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the server at ", address, ": ", in.substr(1, line - 1)));
}

absl::StatusOr<std::string> KvConnection::Info(int patience_ms) {
  const int64_t deadline = NowNanos() + int64_t{patience_ms} * 1'000'000;
  const bool kept = socket_.is_open();
  if (!kept) {
    if (const absl::Status st = Connect(deadline); !st.ok()) {
      socket_.Close();
      return st;
    }
  }
  std::string request;
  redis::AppendRequest({"INFO"}, &request);
  auto text = Ask(request, deadline);
  if (!text.ok()) socket_.Close();
  // The server may have been started anew since.
  if (!text.ok() && kept && absl::IsUnavailable(text.status())) return Info(patience_ms);
  return text;
}

}  // namespace pulse::top
