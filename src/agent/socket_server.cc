#include "agent/socket_server.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "agent/status_server.h"
#include "base/errors.h"
#include "base/log.h"
#include "channel/handshake.h"

namespace pulse {

absl::StatusOr<std::unique_ptr<SocketServer>> SocketServer::Open(AgentOptions options,
                                                                 ServiceTable services) {
  if (options.workers < 1 || options.workers > 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers ", options.workers, ": use a number from 1 to 64"));
  }
  PULSE_RETURN_IF_ERROR(ResolveLimits(&options.limits, options.workers));
  std::unique_ptr<SocketServer> s(new SocketServer(std::move(options), std::move(services)));
  // Before what a second agent on this path would have to make.
  PULSE_ASSIGN_OR_RETURN(s->listener_,
                         HelloListener::Listen(s.get(), {.path = s->options_.socket_path,
                                                         .thread = "pulse-ag-accept",
                                                         .who = "the agent",
                                                         .hello_ms = s->options_.handshake_ms}));
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
  PULSE_RETURN_IF_ERROR(s->listener_->Start());
  return s;
}

SocketServer::~SocketServer() {
  listener_.reset();
  workers_.clear();  // drains
}

size_t SocketServer::session_count() const {
  size_t n = 0;
  for (const auto& w : workers_) n += w->session_count();
  return n;
}

void SocketServer::Refused(const absl::Status& why) {
  Log(LogLevel::kWarn,
      absl::StrCat(absl::IsUnavailable(why) ? "a session did not begin: " : "refused a session: ",
                   why.message()));
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
  return ErrnoError(
      EPROTOTYPE, "this socket is of `pulse agent`,",
      absl::StrCat("not of service ", asked.id, ", with ", names.empty() ? "none" : names),
      "give another path, or install both from the same release");
}

Worker* SocketServer::ChooseWorker(const ServiceSpec& service) const {
  if (service.one_worker) return workers_.front().get();
  return std::min_element(
             workers_.begin(), workers_.end(),
             [](const auto& a, const auto& b) { return a->session_count() < b->session_count(); })
      ->get();
}

absl::Status SocketServer::Welcome(UniqueFd* socket, Received message) {
  if (message.message.type == static_cast<uint32_t>(wire::MessageType::kStatus)) {
    const UniqueFd own = std::move(*socket);
    return AnswerStatus(own.get(), message.message, *status_);
  }
  // Before the descriptors, which are another service's where the socket is the wrong one.
  PULSE_ASSIGN_OR_RETURN(const AskedService asked, ReadAskedService(message.message));
  PULSE_ASSIGN_OR_RETURN(const OfferedService* const service, FindService(asked));
  PULSE_ASSIGN_OR_RETURN(Hello hello, CheckHello(std::move(message), options_.mover));
  if (session_count() >= options_.limits.max_sessions) {
    return absl::ResourceExhaustedError(absl::StrCat("the agent has its ",
                                                     options_.limits.max_sessions,
                                                     " sessions already; raise --max-sessions"));
  }
  PULSE_ASSIGN_OR_RETURN(Doorbell::Ends kick, Doorbell::CreatePair());
  PULSE_ASSIGN_OR_RETURN(const PeerCredentials peer, GetPeerCredentials(socket->get()));
  wire::Message ack = MakeMessage(
      wire::MessageType::kHelloAck,
      {options_.limits.max_queues, options_.limits.max_arena_bytes, static_cast<uint64_t>(getpid()),
       static_cast<uint64_t>(engine_kind()), service->facts[0], service->facts[1]});

  Worker* const worker = ChooseWorker(*service->spec);
  Session::Config config;
  config.mover = hello.mover;
  config.limits = options_.limits;
  config.peer = peer.pid;
  config.peer_process = GetPeerPidfd(socket->get());
  config.usage = usage_;
  config.wrap_mover = options_.wrap_mover;
  config.post = [worker](std::function<void()> fn) { worker->Post(std::move(fn)); };
  config.name = absl::StrCat("of process ", peer.pid);
  config.status = status_;
  config.service = service->spec;
  const int fd = socket->get();
  auto session = std::make_unique<Session>(
      std::move(config), hello.control, std::move(hello.region), std::move(kick.sleep),
      std::move(hello.notify), std::move(*socket), worker->engine(), service->factory);
  if (const absl::Status st = SendMessage(fd, ack, {kick.ring.get()}, /*wait=*/false); !st.ok()) {
    if (!absl::IsUnavailable(st)) return st;
    return absl::UnavailableError(absl::StrCat("process ", peer.pid, " had gone by then"));
  }
  kick.ring.reset();  // the session's end frees all that it has, whenever this thread goes on
  // Waits: the next peer must find this session counted.
  worker->Run([&] { worker->AddSession(std::move(session)); });
  return absl::OkStatus();
}

}  // namespace pulse
