// Control messages between host and agent over a Unix socket (SOCK_SEQPACKET), with descriptors by
// SCM_RIGHTS. docs/reference/protocol.md has the sequence. Calls block; SetTimeout bounds them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "channel/wire.h"

namespace pulse {

inline constexpr size_t kMaxMessageFds = 3;

// The remedy for lost descriptors.
inline constexpr char kRaiseOpenFiles[] = "raise its limit of open files (ulimit -n, LimitNOFILE=)";

wire::Message MakeMessage(wire::MessageType type, std::initializer_list<uint64_t> args = {});
// Copies `text` into the message, truncated to fit.
void SetText(wire::Message* m, absl::string_view text);
std::string TextOf(const wire::Message& m);

// With `wait` false, fails rather than wait for a peer that does not read.
absl::Status SendMessage(int socket, const wire::Message& m, const std::vector<int>& fds = {},
                         bool wait = true);

// Sends what begins a conversation. OK also where the peer has hung up and an answer of it can be
// received: who refuses whoever connected does not wait for his words.
absl::Status SendFirst(int socket, const wire::Message& m, const std::vector<int>& fds = {});

// Answers with `why`, as a message of type `ack`, so that the peer can show it; does not wait for a
// peer that is gone or does not read. Returns `why`.
absl::Status SendRefusal(int socket, wire::MessageType ack, const absl::Status& why);

// Receives one message and its descriptors. Unavailable at end of stream or when nothing is there
// on a non-blocking socket with `wait` false (then the text is "no message"); InvalidArgument for a
// message of wrong size or magic. The version is left to the caller, who answers the peer.
// `fds_lost`: the peer sent descriptors that this process had no room for (RLIMIT_NOFILE); the
// message itself is whole.
struct Received {
  wire::Message message;
  std::vector<UniqueFd> fds;
  bool fds_lost = false;
};
absl::StatusOr<Received> ReceiveMessage(int socket, bool wait = true);
bool IsNoMessage(const absl::Status& status);

struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket);
// PermissionDenied unless the peer's user is this process's own or root. `who`: this process, as
// the peer is told.
absl::Status CheckPeerUser(int socket, absl::string_view who);
// A pidfd of the process that connected or listened; invalid where the kernel has none to give.
UniqueFd GetPeerPidfd(int socket);

// Listens at `path` with mode 0600. A socket file nobody listens on is replaced; AlreadyExists when
// an agent answers there, or when the path is something other than a socket.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path);
// Who is to listen at a path, for messages.
struct ListenerName {
  std::string who = "the agent";
  std::string start = "pulse agent --socket";  // before the path
  std::string instead = "; or let this process do the work with fallback=embedded";
};
// Waits at most `timeout_ms` for a place in the listener's backlog: DeadlineExceeded. Cancelled as
// soon as `cancel_fd` (-1: none) is readable.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path, int timeout_ms = 10'000,
                                     int cancel_fd = -1, const ListenerName& of = {});
absl::Status SetSocketTimeout(int socket, int milliseconds);

}  // namespace pulse
