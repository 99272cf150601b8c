#include "channel/status_message.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/json.h"
#include "channel/handshake.h"

namespace pulse {
namespace {

constexpr uint64_t kMaxAnswer = uint64_t{64} << 20;

absl::StatusOr<UniqueFd> MemoryWith(absl::string_view text) {
  UniqueFd fd(memfd_create("pulse-status", MFD_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "making memory for", "a status", kRaiseOpenFiles);
  PULSE_RETURN_IF_ERROR(WriteAll(fd.get(), text, "writing", "a status"));
  return fd;
}

absl::StatusOr<std::string> ReadAll(int fd, uint64_t bytes, const std::string& path) {
  // The descriptor is the peer's choice: a pipe could keep the reader waiting.
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || bytes > kMaxAnswer ||
      st.st_size < static_cast<off_t>(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the agent at ", path, " gave an answer that is none"));
  }
  return ReadFirst(fd, bytes, "reading the status of the agent at", path);
}

}  // namespace

absl::Status SendStatus(int socket, absl::string_view json) {
  auto memory = MemoryWith(json);
  if (!memory.ok()) return SendRefusal(socket, wire::MessageType::kStatusAck, memory.status());
  wire::Message ack = MakeMessage(wire::MessageType::kStatusAck);
  ack.args[0] = json.size();
  return SendMessage(socket, ack, {memory->get()}, /*wait=*/false);
}

absl::StatusOr<std::string> AskStatus(const std::string& path, int timeout_ms) {
  PULSE_ASSIGN_OR_RETURN(auto socket, ConnectUnix(path, timeout_ms));
  PULSE_RETURN_IF_ERROR(SetSocketTimeout(socket.get(), timeout_ms));
  PULSE_ASSIGN_OR_RETURN(auto peer, GetPeerCredentials(socket.get()));
  if (peer.uid != geteuid() && peer.uid != 0 && geteuid() != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("the agent at ", path, " runs as user ", peer.uid,
                     ", which is neither this user nor root; ask as that user"));
  }
  const auto with_path = [&](const absl::Status& st) {
    return absl::Status(st.code(), absl::StrCat("the agent at ", path, ": ", st.message()));
  };
  absl::Status st = SendFirst(socket.get(), MakeMessage(wire::MessageType::kStatus));
  if (!st.ok()) return with_path(st);
  auto answer = ReceiveMessage(socket.get());
  if (absl::IsDeadlineExceeded(answer.status())) {
    return absl::DeadlineExceededError(absl::StrCat("the agent at ", path,
                                                    " hangs, or is stopped: no answer in ",
                                                    timeout_ms, " ms; if that lasts, restart it"));
  }
  if (!answer.ok()) return with_path(answer.status());
  const wire::Message& m = answer->message;
  if (m.version != wire::kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the agent at ", path, " speaks protocol version ", m.version, ", this program ",
        wire::kProtocolVersion, "; use the pulse of the agent's release"));
  }
  if (m.status != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent at ", path, " refused: ", CleanText(TextOf(m))));
  }
  if (answer->fds_lost) {
    return ErrnoError(EMFILE, "taking the answer of", path, "raise the limit of open files");
  }
  if (m.type != static_cast<uint32_t>(wire::MessageType::kStatusAck) || answer->fds.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the agent at ", path, " gave an answer that is none"));
  }
  return ReadAll(answer->fds[0].get(), m.args[0], path);
}

}  // namespace pulse
