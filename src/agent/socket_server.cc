#include "agent/socket_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "agent/status_server.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/poll_again.h"
#include "base/shortage.h"
#include "channel/handshake.h"

namespace pulse {
namespace {

// Peers that may be silent at the same time; one more, and the oldest is let go.
constexpr size_t kMaxHandshakes = 64;
// No descriptor was left for a connection: look again after this long.
constexpr int kPauseMs = 100;

absl::Status Refuse(int socket, const absl::Status& why) {
  return SendRefusal(socket, wire::MessageType::kHelloAck, why);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SocketServer>> SocketServer::Open(AgentOptions options,
                                                                 ServiceTable services) {
  if (options.workers < 1 || options.workers > 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers ", options.workers, ": use a number from 1 to 64"));
  }
  PULSE_RETURN_IF_ERROR(ResolveLimits(&options.limits, options.workers));
  std::unique_ptr<SocketServer> s(new SocketServer(std::move(options), std::move(services)));
  PULSE_ASSIGN_OR_RETURN(s->listener_, ListenUnix(s->options_.socket_path));
  s->socket_file_ = MadeFile(s->options_.socket_path);
  for (int i = 0; i < s->options_.workers; ++i) {
    WorkerOptions w;
    w.name = absl::StrCat("pulse-agent-", i);
    w.cpus = s->options_.cpus;
    w.backend.kind = s->options_.engine;
    w.backend.factory = s->options_.backend_factory;
    w.pace = s->options_.pace;
    w.status = s->status_;
    PULSE_ASSIGN_OR_RETURN(auto worker, Worker::Start(std::move(w)));
    s->workers_.push_back(std::move(worker));
  }
  PULSE_ASSIGN_OR_RETURN(s->stop_event_, WakeEvent::Create());
  PULSE_RETURN_IF_ERROR(StartThread(
      "an agent", [server = s.get()] { server->AcceptLoop(); }, &s->thread_));
  return s;
}

SocketServer::~SocketServer() {
  if (thread_.joinable()) {
    stop_event_.Set();
    thread_.join();
  }
  socket_file_.Remove();
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
  bool paused = false;
  while (true) {
    std::vector<pollfd> fds = {{stop_event_.fd(), POLLIN, 0},
                               {paused ? -1 : listener_.get(), POLLIN, 0}};
    int64_t wait_ms = paused ? kPauseMs : -1;
    if (!handshakes_.empty()) {
      const int64_t left_ms =
          std::max<int64_t>(0, handshakes_[0].deadline - NowNanos()) / 1'000'000;
      wait_ms = wait_ms < 0 ? left_ms + 1 : std::min(wait_ms, left_ms + 1);
    }
    for (const Handshake& h : handshakes_) fds.push_back({h.socket.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), static_cast<int>(wait_ms)) < 0) {
      if (!PollAgain(stop_event_, options_.socket_path)) return;
      continue;
    }
    if ((fds[0].revents & POLLIN) != 0) return;
    std::vector<Handshake> waiting = std::move(handshakes_);
    handshakes_.clear();
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (fds[i + 2].revents != 0) {
        ReadHello(std::move(waiting[i]));
      } else if (NowNanos() >= waiting[i].deadline) {
        GiveUpOn(std::move(waiting[i]));
      } else {
        handshakes_.push_back(std::move(waiting[i]));
      }
    }
    paused = (fds[1].revents & POLLIN) != 0 && !Accept();
  }
}

bool SocketServer::Accept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) {
    const int error = errno;
    if (!MustPauseAccepting(error)) return true;
    LogOnce("accept", ErrnoError(error, "accepting a session on", options_.socket_path).message());
    return false;
  }
  if (absl::Status st = CheckPeerUser(socket.get(), "the agent"); !st.ok()) {
    Refuse(socket.get(), st).IgnoreError();
    Log(LogLevel::kWarn, absl::StrCat("refused a session: ", st.message()));
    return true;
  }
  if (handshakes_.size() >= kMaxHandshakes) {
    Handshake oldest = std::move(handshakes_.front());
    handshakes_.erase(handshakes_.begin());
    GiveUpOn(std::move(oldest));
  }
  handshakes_.push_back({std::move(socket), NowNanos() + options_.handshake_ms * 1'000'000});
  return true;
}

void SocketServer::GiveUpOn(Handshake handshake) {
  const absl::Status st = Refuse(handshake.socket.get(),
                                 absl::DeadlineExceededError("the peer did not answer in time"));
  Log(LogLevel::kWarn, absl::StrCat("refused a session: ", st.message()));
}

void SocketServer::ReadHello(Handshake handshake) {
  auto hello = ReceiveMessage(handshake.socket.get(), /*wait=*/false);
  if (IsNoMessage(hello.status())) {
    handshakes_.push_back(std::move(handshake));
    return;
  }
  // A probe that connects and leaves (another agent looking whether the socket is in use).
  if (absl::IsUnavailable(hello.status())) return;
  const absl::Status st = hello.ok() ? Welcome(std::move(handshake.socket), *std::move(hello))
                                     : Refuse(handshake.socket.get(), hello.status());
  if (st.ok()) return;
  Log(LogLevel::kWarn,
      absl::StrCat(absl::IsUnavailable(st) ? "a session did not begin: " : "refused a session: ",
                   st.message()));
}

absl::StatusOr<const OfferedService*> SocketServer::FindService(const AskedService& asked) const {
  std::string names;
  for (const OfferedService& s : services_) {
    if (s.spec->id != asked.id) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", s.spec->name);
      continue;
    }
    if (s.spec->version == asked.version) return &s;
    return ErrnoError(EPROTONOSUPPORT,
                      absl::StrCat("the agent's service ", s.spec->name, " has version ",
                                   s.spec->version, ", and this host speaks"),
                      absl::StrCat("version ", asked.version),
                      "install agent and host from releases whose versions agree");
  }
  for (const ServiceSpec* known : options_.known_services) {
    if (known->id != asked.id) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the agent does not offer the service ", known->name, ", but ",
                     names.empty() ? "none" : names, "; start it with: ", known->start_hint));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("this socket is of an agent (pulse agent), which does not know service ",
                   asked.id, "; it offers: ", names.empty() ? "none" : names));
}

Worker* SocketServer::ChooseWorker(const ServiceSpec& service) const {
  if (service.one_worker) return workers_.front().get();
  return std::min_element(
             workers_.begin(), workers_.end(),
             [](const auto& a, const auto& b) { return a->session_count() < b->session_count(); })
      ->get();
}

absl::Status SocketServer::Welcome(UniqueFd socket, Received message) {
  if (message.message.type == static_cast<uint32_t>(wire::MessageType::kStatus)) {
    return AnswerStatus(socket.get(), message.message, *status_);
  }
  // Before the descriptors, which are another service's where the socket is the wrong one.
  const auto asked = ReadAskedService(message.message);
  if (!asked.ok()) return Refuse(socket.get(), asked.status());
  const auto found = FindService(*asked);
  if (!found.ok()) return Refuse(socket.get(), found.status());
  auto hello = CheckHello(std::move(message), options_.mover);
  if (!hello.ok()) return Refuse(socket.get(), hello.status());
  if (session_count() >= options_.limits.max_sessions) {
    return Refuse(socket.get(), absl::ResourceExhaustedError(
                                    absl::StrCat("the agent has its ", options_.limits.max_sessions,
                                                 " sessions already; raise --max-sessions")));
  }
  const OfferedService& service = **found;
  auto kick = Doorbell::CreatePair();
  if (!kick.ok()) return Refuse(socket.get(), kick.status());
  auto peer = GetPeerCredentials(socket.get());
  if (!peer.ok()) return Refuse(socket.get(), peer.status());
  wire::Message ack = MakeMessage(
      wire::MessageType::kHelloAck,
      {options_.limits.max_queues, options_.limits.max_arena_bytes, static_cast<uint64_t>(getpid()),
       static_cast<uint64_t>(engine_kind()), service.facts[0], service.facts[1]});

  Worker* const worker = ChooseWorker(*service.spec);
  Session::Config config;
  config.mover = hello->mover;
  config.limits = options_.limits;
  config.peer = peer->pid;
  config.peer_process = GetPeerPidfd(socket.get());
  config.usage = usage_;
  config.wrap_mover = options_.wrap_mover;
  config.post = [worker](std::function<void()> fn) { worker->Post(std::move(fn)); };
  config.name = absl::StrCat("of process ", peer->pid);
  config.status = status_;
  config.service = service.spec;
  const int fd = socket.get();
  auto session = std::make_unique<Session>(
      std::move(config), hello->control, std::move(hello->region), std::move(kick->sleep),
      std::move(hello->notify), std::move(socket), worker->engine(), service.factory);
  if (const absl::Status st = SendMessage(fd, ack, {kick->ring.get()}, /*wait=*/false); !st.ok()) {
    if (!absl::IsUnavailable(st)) return st;
    return absl::UnavailableError(absl::StrCat("process ", peer->pid, " had gone by then"));
  }
  kick->ring.reset();  // the session's end frees all that it has, whenever this thread goes on
  // Waits: the next peer must find this session counted.
  worker->Run([&] { worker->AddSession(std::move(session)); });
  return absl::OkStatus();
}

}  // namespace pulse
