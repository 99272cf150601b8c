#include "agent/socket_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "channel/handshake.h"

namespace pulse {
namespace {

constexpr int kHandshakeTimeoutMs = 2000;

// Answers with the reason, so that the host can show it; the connection ends either way.
absl::Status Refuse(int socket, absl::Status why) {
  wire::Message ack = MakeMessage(wire::MessageType::kHelloAck);
  ack.status = ErrnoOf(why) != 0 ? ErrnoOf(why) : EPROTO;
  SetText(&ack, why.message());
  SendMessage(socket, ack).IgnoreError();  // the peer may be gone; the reason is logged here too
  return why;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SocketServer>> SocketServer::Open(AgentOptions options,
                                                                 ServiceFactory factory) {
  if (options.workers < 1 || options.workers > 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers ", options.workers, ": use a number from 1 to 64"));
  }
  std::unique_ptr<SocketServer> s(new SocketServer(std::move(options), factory));
  auto listener = ListenUnix(s->options_.socket_path);
  if (!listener.ok()) return listener.status();
  s->listener_ = *std::move(listener);
  for (int i = 0; i < s->options_.workers; ++i) {
    WorkerOptions w;
    w.name = absl::StrCat("pulse-agent-", i);
    w.cpus = s->options_.cpus;
    w.backend.kind = s->options_.engine;
    w.backend.factory = s->options_.backend_factory;
    auto worker = Worker::Start(std::move(w));
    if (!worker.ok()) return worker.status();
    s->workers_.push_back(*std::move(worker));
  }
  auto stop = Doorbell::CreateEventFd();
  if (!stop.ok()) return stop.status();
  s->stop_event_ = *std::move(stop);
  s->thread_ = std::thread([server = s.get()] { server->AcceptLoop(); });
  return s;
}

SocketServer::~SocketServer() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    while (write(stop_event_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  if (listener_.valid()) unlink(options_.socket_path.c_str());
  listener_.reset();
  workers_.clear();  // drains
}

size_t SocketServer::session_count() const {
  size_t n = 0;
  for (const auto& w : workers_) n += w->session_count();
  return n;
}

void SocketServer::AcceptLoop() {
  pthread_setname_np(pthread_self(), "pulse-ag-accept");
  while (true) {
    pollfd fds[2] = {{listener_.get(), POLLIN, 0}, {stop_event_.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) {
      Log(LogLevel::kError, ErrnoError(errno, "waiting on", options_.socket_path).message());
      return;
    }
    if ((fds[1].revents & POLLIN) != 0) return;
    if ((fds[0].revents & POLLIN) == 0) continue;
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE) {
        LogOnce("accept",
                ErrnoError(errno, "accepting a session on", options_.socket_path).message());
        usleep(100'000);
      }
      continue;
    }
    if (absl::Status st = Welcome(std::move(socket)); !st.ok()) {
      Log(LogLevel::kWarn, absl::StrCat("refused a session: ", st.message()));
    }
  }
}

absl::Status SocketServer::Welcome(UniqueFd socket) {
  PULSE_RETURN_IF_ERROR(SetSocketTimeout(socket.get(), kHandshakeTimeoutMs));
  auto peer = GetPeerCredentials(socket.get());
  if (!peer.ok()) return peer.status();
  if (peer->uid != geteuid() && peer->uid != 0) {
    return Refuse(socket.get(),
                  absl::PermissionDeniedError(
                      absl::StrCat("the agent runs as user ", geteuid(), " and process ", peer->pid,
                                   " as user ", peer->uid, "; run both as the same user")));
  }
  auto hello = ReceiveMessage(socket.get());
  if (!hello.ok()) {
    // A probe that connects and leaves (another agent looking whether the socket is in use).
    if (absl::IsUnavailable(hello.status())) return absl::OkStatus();
    return Refuse(socket.get(), hello.status());
  }
  const wire::Message& m = hello->message;
  if (m.version != wire::kProtocolVersion) {
    return Refuse(socket.get(), absl::FailedPreconditionError(absl::StrCat(
                                    "the agent speaks protocol version ", wire::kProtocolVersion,
                                    " and the plug-in version ", m.version,
                                    "; install agent and plug-in from the same release")));
  }
  if (m.type != static_cast<uint32_t>(wire::MessageType::kHello) || hello->fds.size() != 3) {
    return Refuse(socket.get(), absl::InvalidArgumentError("the first message is not a hello"));
  }
  if (session_count() >= options_.limits.max_sessions) {
    return Refuse(socket.get(), absl::ResourceExhaustedError(
                                    absl::StrCat("the agent has its ", options_.limits.max_sessions,
                                                 " sessions already; raise --max-sessions")));
  }
  auto region = Region::Map(std::move(hello->fds[0]), wire::kPage);
  if (!region.ok()) return Refuse(socket.get(), region.status());
  auto* control = reinterpret_cast<wire::ControlPage*>(region->data());
  if (control->magic != wire::kRegionMagic || control->version != wire::kProtocolVersion) {
    return Refuse(socket.get(), absl::InvalidArgumentError("the control page is not PulseDB's"));
  }
  for (size_t i : {1u, 2u}) {
    const int flags = fcntl(hello->fds[i].get(), F_GETFL);
    // A blocking descriptor could stall the worker.
    if (flags < 0 || fcntl(hello->fds[i].get(), F_SETFL, flags | O_NONBLOCK) != 0) {
      return Refuse(socket.get(), ErrnoError(errno, "setting up", "a doorbell"));
    }
  }
  wire::Message ack = MakeMessage(wire::MessageType::kHelloAck);
  ack.args[0] = options_.limits.max_queues;
  ack.args[1] = options_.limits.max_arena_bytes;
  ack.args[2] = static_cast<uint64_t>(getpid());
  ack.args[3] = static_cast<uint64_t>(engine_kind());

  Worker* worker =
      std::min_element(workers_.begin(), workers_.end(), [](const auto& a, const auto& b) {
        return a->session_count() < b->session_count();
      })->get();
  Session::Config config;
  // The host may ask for a mover of its own; 0 leaves the choice to the agent.
  config.mover = m.args[2] == 0   ? options_.mover
                 : m.args[2] == 1 ? MoverKind::kShared
                                  : MoverKind::kVmRead;
  config.limits = options_.limits;
  config.peer = peer->pid;
  config.name = absl::StrCat("of process ", peer->pid);
  const int fd = socket.get();
  auto session = std::make_unique<Session>(std::move(config), control, *std::move(region),
                                           std::move(hello->fds[1]), std::move(hello->fds[2]),
                                           std::move(socket), worker->engine(), factory_);
  PULSE_RETURN_IF_ERROR(SendMessage(fd, ack));
  // Waits: the next peer must find this session counted.
  worker->Run([&] { worker->AddSession(std::move(session)); });
  return absl::OkStatus();
}

}  // namespace pulse
