#include "services/kv/shm/attach.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"

namespace pulse::kv {
namespace {

// What the caller gave was right; the server's part is not.
template <typename T>
absl::StatusOr<T> OfServer(absl::StatusOr<T> result) {
  if (absl::IsInvalidArgument(result.status())) return NotAServer(result.status().message());
  return result;
}

// An answer with the one descriptor that belongs to it, by `deadline`. `whom` it may refuse.
absl::StatusOr<Received> ReceiveAnswer(int socket, wire::MessageType type, int64_t deadline,
                                       absl::string_view whom) {
  const int64_t left_ms = (deadline - NowNanos()) / 1'000'000;
  PULSE_RETURN_IF_ERROR(
      SetSocketTimeout(socket, static_cast<int>(std::clamp<int64_t>(left_ms, 1, INT32_MAX))));
  PULSE_ASSIGN_OR_RETURN(Received got, ReceiveMessage(socket));
  if (got.message.status != 0) {
    return ErrnoError(got.message.status, absl::StrCat("what listens there refuses ", whom, ":"),
                      TextOf(got.message));
  }
  if (got.message.version != wire::kProtocolVersion ||
      got.message.type != static_cast<uint32_t>(type)) {
    return NotAServer("an answer of another kind");
  }
  if (got.fds_lost) {
    return ErrnoError(EMFILE, "taking the server's", "descriptors", kRaiseOpenFiles);
  }
  if (got.fds.size() != 1) return NotAServer("an answer without its descriptor");
  return got;
}

absl::StatusOr<Attachment> ShakeHands(const AttachOptions& options, UniqueFd socket,
                                      int64_t deadline) {
  Attachment made;
  made.socket = std::move(socket);
  PULSE_ASSIGN_OR_RETURN(made.notify, Doorbell::CreatePair());
  const auto pid = static_cast<uint64_t>(getpid());
  std::vector<int> fds = {made.notify.ring.get()};
  if (options.own_memory >= 0) fds.push_back(options.own_memory);
  PULSE_RETURN_IF_ERROR(SendFirst(
      made.socket.get(),
      MakeMessage(wire::MessageType::kHello, {pid, options.service, 0, options.version}), fds));
  PULSE_ASSIGN_OR_RETURN(Received ack,
                         ReceiveAnswer(made.socket.get(), wire::MessageType::kHelloAck, deadline,
                                       absl::StrCat("a client of `", options.start, "`")));
  made.bytes = ack.message.args[0];
  if (ack.message.args[1] != options.version || made.bytes < options.least_bytes) {
    return NotAServer("it speaks another version");
  }
  PULSE_ASSIGN_OR_RETURN(made.region, Region::Map(std::move(ack.fds[0]), made.bytes));
  return made;
}

absl::StatusOr<UniqueFd> TakeKick(int socket, int64_t deadline) {
  PULSE_ASSIGN_OR_RETURN(Received kick,
                         ReceiveAnswer(socket, wire::MessageType::kServiceAck, deadline, "more"));
  PULSE_RETURN_IF_ERROR(Doorbell::CheckRingEnd(kick.fds[0].get()));
  return std::move(kick.fds[0]);
}

}  // namespace

absl::Status NotAServer(absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("what listens there is no server of this release's protocol: ", what,
                   "; install pulse and its client library from the same release"));
}

absl::StatusOr<UniqueFd> ReceiveKick(int socket, int64_t deadline) {
  return OfServer(TakeKick(socket, deadline));
}

absl::StatusOr<Attachment> AttachTo(const AttachOptions& options, int timeout_ms,
                                    int64_t deadline) {
  PULSE_ASSIGN_OR_RETURN(UniqueFd socket,
                         ConnectUnix(options.path, timeout_ms, /*cancel_fd=*/-1,
                                     {.who = "the server", .start = options.start, .instead = ""}));
  return OfServer(ShakeHands(options, std::move(socket), deadline));
}

}  // namespace pulse::kv
