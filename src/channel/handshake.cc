#include "channel/handshake.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace pulse {
namespace {

constexpr char kNoMessage[] = "no message";
constexpr int kConnectRetryMs = 10;
constexpr int kProbeMs = 1000;

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(addr.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.empty() ? "socket path is empty" : "socket path is too long", " (", path.size(),
        " bytes): \"", path, "\"; use 1 to ", sizeof(addr.sun_path) - 1, " bytes"));
  }
  std::memcpy(addr.sun_path, path.data(), path.size());
  return addr;
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError(errno, "creating a socket", "");
  return fd;
}

std::string RemedyForConnect(int err, const std::string& path, const ListenerName& of) {
  struct stat st;
  if (err == ECONNREFUSED && stat(path.c_str(), &st) == 0 && !S_ISSOCK(st.st_mode)) {
    return absl::StrCat("it is no socket; give the path that ", of.who, " was started with");
  }
  switch (err) {
    case ENOENT:
    case ECONNREFUSED:
      return absl::StrCat("start it with: ", of.start, " ", path, of.instead);
    case EACCES:
      return "it is another user's; run both as the same user";
    case EPROTOTYPE:
      return absl::StrCat("it is a socket of another program; give the path that ", of.who,
                          " was started with");
    default:
      return "";
  }
}

}  // namespace

wire::Message MakeMessage(wire::MessageType type, std::initializer_list<uint64_t> args) {
  wire::Message m{};
  m.magic = wire::kMessageMagic;
  m.version = wire::kProtocolVersion;
  m.type = static_cast<uint32_t>(type);
  std::copy(args.begin(), args.end(), m.args);
  return m;
}

void SetText(wire::Message* m, absl::string_view text) {
  const size_t n = std::min(text.size(), sizeof(m->text) - 1);
  if (n > 0) std::memcpy(m->text, text.data(), n);  // an empty view may have no data at all
  m->text[n] = '\0';
}

std::string TextOf(const wire::Message& m) {
  return std::string(m.text, strnlen(m.text, sizeof(m.text)));
}

absl::Status SendMessage(int socket, const wire::Message& m, const std::vector<int>& fds,
                         bool wait) {
  if (fds.size() > kMaxMessageFds) return absl::InternalError("too many descriptors for a message");
  iovec iov{const_cast<wire::Message*>(&m), sizeof(m)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)] = {};
  msghdr msg{};
  msg.msg_iov = &iov;
  msg.msg_iovlen = 1;
  if (!fds.empty()) {
    msg.msg_control = control;
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t n;
  do {
    n = sendmsg(socket, &msg, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
  } while (n < 0 && errno == EINTR);
  if (n != sizeof(m)) return ErrnoError(n < 0 ? errno : EMSGSIZE, "sending to", "the peer");
  return absl::OkStatus();
}

absl::Status SendFirst(int socket, const wire::Message& m, const std::vector<int>& fds) {
  absl::Status sent = SendMessage(socket, m, fds);
  if (!absl::IsUnavailable(sent)) return sent;
  for (int i = 0; i < 2; ++i) {  // the first one may tell of the peer's end alone
    char c;
    if (recv(socket, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0) return absl::OkStatus();
  }
  return sent;
}

absl::Status SendRefusal(int socket, wire::MessageType ack, const absl::Status& why) {
  wire::Message m = MakeMessage(ack);
  m.status = ErrnoOf(why) != 0 ? ErrnoOf(why) : EPROTO;
  SetText(&m, why.message());
  SendMessage(socket, m, {}, /*wait=*/false).IgnoreError();  // the caller logs the reason, too
  return why;
}

absl::StatusOr<Received> ReceiveMessage(int socket, bool wait) {
  Received out;
  iovec iov{&out.message, sizeof(out.message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)];
  msghdr msg{};
  msg.msg_iov = &iov;
  msg.msg_iovlen = 1;
  msg.msg_control = control;
  msg.msg_controllen = sizeof(control);
  ssize_t n;
  bool reset = false;
  do {
    n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    // A peer that ended without having read everything: said once, before what it had sent.
  } while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
  if (n < 0) {
    if (!wait && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return absl::UnavailableError(kNoMessage);
    }
    if (errno == EAGAIN) return absl::DeadlineExceededError("the peer did not answer in time");
    return ErrnoError(errno, "receiving from", "the peer");
  }
  for (cmsghdr* c = CMSG_FIRSTHDR(&msg); c != nullptr; c = CMSG_NXTHDR(&msg, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      out.fds.emplace_back(fd);
    }
  }
  if (n == 0) return absl::UnavailableError("the peer closed the connection");
  // Control data is cut short when the peer sent too much of it, or when this process may open no
  // more files; only then is there room left.
  const bool cut = (msg.msg_flags & MSG_CTRUNC) != 0;
  out.fds_lost = cut && out.fds.size() < kMaxMessageFds;
  if (n != sizeof(out.message) || (msg.msg_flags & MSG_TRUNC) != 0 || (cut && !out.fds_lost) ||
      out.fds.size() > kMaxMessageFds ||  // the room's alignment leaves place for one more
      out.message.magic != wire::kMessageMagic) {
    return absl::InvalidArgumentError("the peer does not speak PulseDB's protocol");
  }
  return out;
}

bool IsNoMessage(const absl::Status& status) {
  return absl::IsUnavailable(status) && status.message() == kNoMessage;
}

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket) {
  ucred cred{};
  socklen_t len = sizeof(cred);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
    return ErrnoError(errno, "reading the credentials of", "the peer");
  }
  return PeerCredentials{cred.pid, cred.uid, cred.gid};
}

absl::Status CheckPeerUser(int socket, absl::string_view who) {
  PULSE_ASSIGN_OR_RETURN(auto peer, GetPeerCredentials(socket));
  if (peer.uid == geteuid() || peer.uid == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(who, " runs as user ", geteuid(), " and process ",
                                                  peer.pid, " as user ", peer.uid,
                                                  "; run both as the same user"));
}

UniqueFd GetPeerPidfd(int socket) {
  int fd = -1;
  socklen_t len = sizeof(fd);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0) return UniqueFd(fd);  // 6.5
  auto peer = GetPeerCredentials(socket);
  if (!peer.ok() || peer->pid <= 0) return UniqueFd();
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, peer->pid, 0)));
}

absl::StatusOr<UniqueFd> ListenUnix(const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(auto addr, AddressOf(path));
  struct stat st;
  if (lstat(path.c_str(), &st) == 0) {
    if (!S_ISSOCK(st.st_mode)) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " exists and is not a socket; choose another path"));
    }
    const absl::Status answer = ConnectUnix(path, kProbeMs).status();
    if (answer.ok() || absl::IsDeadlineExceeded(answer)) {
      return absl::AlreadyExistsError(absl::StrCat("an agent already listens on ", path,
                                                   "; stop it, or give this one another --socket"));
    }
    if (absl::IsPermissionDenied(answer)) {
      return absl::AlreadyExistsError(absl::StrCat(path, " may not be examined (", strerror(EACCES),
                                                   "): it is another user's; choose another path"));
    }
    // Only a refused connection says that nobody listens: an agent that was killed left the file.
    if (ErrnoOf(answer) != ECONNREFUSED) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " is a socket of another program; choose another path"));
    }
    unlink(path.c_str());
  }
  PULSE_ASSIGN_OR_RETURN(auto fd, NewSocket());
  // The file gets the socket's mode (unix(7)). Not by umask(2): with status=PATH this is a thread
  // of a program of somebody else, whose other threads make files meanwhile.
  if (fchmod(fd.get(), 0600) != 0) return ErrnoError(errno, "preparing a socket for", path);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&addr), sizeof(addr)) != 0) {
    return ErrnoError(errno, "listening on", path,
                      "check that its directory exists and is writable");
  }
  if (listen(fd.get(), 64) != 0) return ErrnoError(errno, "listening on", path);
  return fd;
}

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path, int timeout_ms, int cancel_fd,
                                     const ListenerName& of) {
  PULSE_ASSIGN_OR_RETURN(auto addr, AddressOf(path));
  PULSE_ASSIGN_OR_RETURN(auto fd, NewSocket());
  // A blocking connect waits, deaf to everything else, while a listener that hangs has its backlog
  // full. This one is asked again until it has room.
  const int flags = fcntl(fd.get(), F_GETFL);
  if (fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return ErrnoError(errno, "preparing a socket for", path);
  }
  const int64_t until = NowNanos() + int64_t{timeout_ms} * 1'000'000;
  while (connect(fd.get(), reinterpret_cast<sockaddr*>(&addr), sizeof(addr)) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      const int err = errno;
      return ErrnoError(err, absl::StrCat("connecting to ", of.who, " at"), path,
                        RemedyForConnect(err, path, of));
    }
    if (NowNanos() >= until) {
      return absl::DeadlineExceededError(absl::StrCat(
          of.who, " at ", path, " takes no connection: it hangs, or is stopped; restart it"));
    }
    pollfd cancel{cancel_fd, POLLIN, 0};
    if (poll(&cancel, 1, kConnectRetryMs) > 0) return absl::CancelledError("no longer wanted");
  }
  if (fcntl(fd.get(), F_SETFL, flags) != 0)
    return ErrnoError(errno, "preparing a socket for", path);
  return fd;
}

absl::Status SetSocketTimeout(int socket, int milliseconds) {
  timeval tv{milliseconds / 1000, (milliseconds % 1000) * 1000};
  if (setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) != 0) {
    return ErrnoError(errno, "setting a time-out on", "a socket");
  }
  return absl::OkStatus();
}

}  // namespace pulse
