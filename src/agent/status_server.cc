#include "agent/status_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/poll_again.h"
#include "base/shortage.h"
#include "channel/handshake.h"
#include "channel/status_message.h"

namespace pulse {
namespace {

// A peer that says nothing is let go; nobody but other watchers waits meanwhile.
constexpr int kPatienceMs = 1000;
// No descriptor or memory was left for a connection: look again after this long.
constexpr int kAcceptPauseMs = 100;

std::mutex servers_mu;

std::map<std::string, std::weak_ptr<StatusServer>>& Servers() {
  static auto* servers = new std::map<std::string, std::weak_ptr<StatusServer>>();
  return *servers;
}

absl::Status RefuseStatus(int socket, const absl::Status& why) {
  return SendRefusal(socket, wire::MessageType::kStatusAck, why);
}

}  // namespace

absl::Status AnswerStatus(int socket, const wire::Message& m, const AgentStatus& status) {
  if (m.version != wire::kProtocolVersion) {
    return RefuseStatus(
        socket, absl::FailedPreconditionError(absl::StrCat(
                    "the agent speaks protocol version ", wire::kProtocolVersion,
                    " and who asks version ", m.version, "; use the pulse of the same release")));
  }
  if (m.type != static_cast<uint32_t>(wire::MessageType::kStatus)) {
    return RefuseStatus(socket, absl::InvalidArgumentError(
                                    absl::StrCat("process ", getpid(),
                                                 " only tells its status here (status=PATH); for "
                                                 "an agent, start: pulse agent --socket PATH")));
  }
  return SendStatus(socket, ToJson(status.Take()));
}

absl::StatusOr<std::shared_ptr<StatusServer>> StatusServer::Open(const std::string& pattern) {
  const std::string path = absl::StrReplaceAll(pattern, {{"%p", absl::StrCat(getpid())}});
  std::shared_ptr<StatusServer> s;  // its destructor, after an error, takes the mutex itself
  std::lock_guard lock(servers_mu);
  std::weak_ptr<StatusServer>& known = Servers()[path];
  if (auto server = known.lock()) return server;
  auto listener = ListenUnix(path);
  if (absl::IsAlreadyExists(listener.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat("status=", pattern, ": another process already listens at ", path,
                     ", or the file is no socket; with %p in the path each process has its own"));
  }
  if (!listener.ok()) {
    return absl::Status(listener.status().code(),
                        absl::StrCat("status=", pattern, ": ", listener.status().message()));
  }
  s.reset(new StatusServer(path));
  s->listener_ = *std::move(listener);
  s->socket_file_ = MadeFile(path);
  PULSE_ASSIGN_OR_RETURN(s->stop_, WakeEvent::Create());
  PULSE_RETURN_IF_ERROR(StartThread(
      "status=", [server = s.get()] { server->Serve(); }, &s->thread_));
  known = s;
  return s;
}

StatusServer::~StatusServer() {
  // Whoever opens the next one of this path does not meet this one's socket.
  std::lock_guard lock(servers_mu);
  if (thread_.joinable()) {
    stop_.Set();
    thread_.join();
  }
  socket_file_.Remove();
}

void StatusServer::Serve() {
  pthread_setname_np(pthread_self(), "pulse-ag-status");
  bool paused = false;
  while (true) {
    pollfd fds[2] = {{stop_.fd(), POLLIN, 0}, {paused ? -1 : listener_.get(), POLLIN, 0}};
    if (poll(fds, 2, paused ? kAcceptPauseMs : -1) < 0) {
      if (!PollAgain(stop_, path_)) return;
      continue;
    }
    if (fds[0].revents != 0) return;
    paused = false;
    if (fds[1].revents == 0) continue;
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    paused = !socket.valid() && MustPauseAccepting(errno);
    if (socket.valid()) Answer(std::move(socket));
  }
}

void StatusServer::Answer(UniqueFd socket) {
  const auto peer = GetPeerCredentials(socket.get());
  if (!peer.ok()) return;
  if (peer->uid != geteuid() && peer->uid != 0) {
    RefuseStatus(socket.get(),
                 absl::PermissionDeniedError(absl::StrCat("process ", getpid(), " runs as user ",
                                                          geteuid(), "; ask as that user")))
        .IgnoreError();  // the peer was told
    return;
  }
  pollfd fds[2] = {{stop_.fd(), POLLIN, 0}, {socket.get(), POLLIN, 0}};
  const int64_t deadline = NowNanos() + int64_t{kPatienceMs} * 1'000'000;
  int ready = 0;
  do {
    const int64_t left_ms = std::max<int64_t>(0, (deadline - NowNanos()) / 1'000'000);
    ready = poll(fds, 2, static_cast<int>(left_ms));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0 || fds[0].revents != 0) return;
  const auto message = ReceiveMessage(socket.get(), /*wait=*/false);
  if (!message.ok()) return;  // a probe that connects and leaves, or a stranger
  const absl::Status st = AnswerStatus(socket.get(), message->message, status_);
  if (!st.ok()) LogOnce("status", absl::StrCat("refused a status: ", st.message()));
}

}  // namespace pulse
