#include "lsm/host_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/worker.h"
#include "base/errors.h"
#include "base/log.h"
#include "channel/handshake.h"
#include "channel/queue_pair.h"
#include "lsm/agent_service.h"
#include "lsm/wire.h"

namespace pulse::lsm {
namespace {

constexpr int kControlTimeoutMs = 10'000;
constexpr int kExitWaitMs = 2'000;

class EmbeddedLink : public AgentLink {
 public:
  absl::Status Start(const Options& options) {
    auto page = Region::CreatePrivate(wire::kPage);
    if (!page.ok()) return page.status();
    PULSE_RETURN_IF_ERROR(Prepare(*std::move(page)));
    WorkerOptions w;
    w.name = "pulse-agent-0";
    w.cpus = options.agent_cpus;
    w.backend.kind = options.engine;
    w.backend.factory = options.backend_factory;
    w.background = options.agent_background;
    w.nice = static_cast<int>(options.agent_nice);
    w.spin_nanos = options.spin_us * 1000;
    auto worker = Worker::Start(std::move(w));
    if (!worker.ok()) return worker.status();
    worker_ = *std::move(worker);
    worker_->Run([&] {
      Session::Config config;
      config.mover = options.mover;
      config.embedded = true;
      config.peer = getpid();
      config.name = "of this process";
      auto session = std::make_unique<Session>(std::move(config), control_, Region(),
                                               UniqueFd(fcntl(kick_.fd(), F_DUPFD_CLOEXEC, 0)),
                                               UniqueFd(fcntl(notify_.fd(), F_DUPFD_CLOEXEC, 0)),
                                               UniqueFd(), worker_->engine(), &CreateAgentService);
      session_ = session.get();
      worker_->AddSession(std::move(session));
    });
    return absl::OkStatus();
  }

  absl::StatusOr<Region> CreateRegion(size_t bytes) override {
    return Region::CreatePrivate(bytes);
  }

  absl::Status Attach(uint32_t queue_id, uint64_t arena_bytes, const Region& region) override {
    absl::Status st;
    worker_->Run([&] {
      st = session_->AttachQueue(queue_id, arena_bytes, reinterpret_cast<uintptr_t>(region.data()),
                                 Region(), &region);
    });
    return st;
  }

  absl::Status SendFile(uint32_t, int fd, uint32_t* flags, uint64_t* aux) override {
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return ErrnoError(errno, "duplicating", "a file descriptor");
    *flags = kFlagInlineFd;
    *aux = static_cast<uint64_t>(copy);
    return absl::OkStatus();
  }

  int death_fd() const override { return -1; }
  bool CheckDead() override { return false; }
  uint32_t max_queues() const override { return AgentLimits().max_queues; }

 private:
  Session* session_ = nullptr;
  std::unique_ptr<Worker> worker_;  // last: its destructor drains the session
};

class SocketLink : public AgentLink {
 public:
  explicit SocketLink(std::string path) : path_(std::move(path)) {}

  absl::Status Connect(const Options& options) {
    auto page = Region::CreateShared(wire::kPage);
    if (!page.ok()) return page.status();
    PULSE_RETURN_IF_ERROR(Prepare(*std::move(page)));
    auto socket = ConnectUnix(path_);
    if (!socket.ok()) {
      const int err = ErrnoOf(socket.status());
      absent_ = err == ENOENT || err == ECONNREFUSED;
      return socket.status();
    }
    socket_ = *std::move(socket);
    PULSE_RETURN_IF_ERROR(SetSocketTimeout(socket_.get(), kControlTimeoutMs));
    auto peer = GetPeerCredentials(socket_.get());
    if (!peer.ok()) return peer.status();
    if (peer->uid != geteuid() && peer->uid != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat("the agent at ", path_, " runs as user ", peer->uid,
                       ", which is neither this user nor root; data is not handed to it"));
    }
    peer_.reset(static_cast<int>(syscall(SYS_pidfd_open, peer->pid, 0)));
    wire::Message hello = MakeMessage(wire::MessageType::kHello);
    hello.args[0] = static_cast<uint64_t>(getpid());
    hello.args[2] = !options.mover_given ? 0 : options.mover == MoverKind::kShared ? 1 : 2;
    PULSE_RETURN_IF_ERROR(
        SendMessage(socket_.get(), hello, {control_region_.fd(), kick_.fd(), notify_.fd()}));
    auto ack = Expect(wire::MessageType::kHelloAck);
    if (!ack.ok()) return ack.status();
    if (ack->version != wire::kProtocolVersion) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the agent at ", path_, " speaks protocol version ", ack->version, ", this plug-in ",
          wire::kProtocolVersion, "; install agent and plug-in from the same release"));
    }
    max_queues_ = static_cast<uint32_t>(ack->args[0]);
    if (options.engine_given && ack->args[3] != static_cast<uint64_t>(options.engine)) {
      return absl::FailedPreconditionError(
          absl::StrCat("engine=", std::string(EngineName(options.engine)), ": the agent at ", path_,
                       " was started with another engine; choose it there (pulse agent --engine)"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Region> CreateRegion(size_t bytes) override { return Region::CreateShared(bytes); }

  absl::Status Attach(uint32_t queue_id, uint64_t arena_bytes, const Region& region) override {
    std::lock_guard lock(mu_);
    wire::Message m = MakeMessage(wire::MessageType::kAttachQueue);
    m.args[0] = queue_id;
    m.args[1] = arena_bytes;
    m.args[2] = reinterpret_cast<uintptr_t>(region.data());
    PULSE_RETURN_IF_ERROR(SendMessage(socket_.get(), m, {region.fd()}));
    auto ack = Expect(wire::MessageType::kAttachAck);
    return ack.ok() ? absl::OkStatus() : ack.status();
  }

  absl::Status SendFile(uint32_t file, int fd, uint32_t* flags, uint64_t* aux) override {
    wire::Message m = MakeMessage(wire::MessageType::kFile);
    m.args[0] = file;
    *flags = 0;
    *aux = 0;
    return SendMessage(socket_.get(), m, {fd});
  }

  int death_fd() const override { return socket_.get(); }

  bool CheckDead() override {
    pollfd p{socket_.get(), POLLRDHUP, 0};
    if (poll(&p, 1, 0) <= 0 || (p.revents & (POLLHUP | POLLRDHUP | POLLERR)) == 0) return false;
    // Its writes may still be under way: let the process end before anyone repeats them.
    if (peer_.valid()) {
      pollfd gone{peer_.get(), POLLIN, 0};
      poll(&gone, 1, kExitWaitMs);
    }
    return true;
  }
  uint32_t max_queues() const override { return max_queues_; }

  // After Connect failed: nobody listens there, or an agent of another protocol version. Any other
  // refusal has a cause that an embedded agent would hide.
  bool may_fall_back() const {
    return absent_ || (peer_version_ != 0 && peer_version_ != wire::kProtocolVersion);
  }

 private:
  absl::StatusOr<wire::Message> Expect(wire::MessageType type) {
    auto r = ReceiveMessage(socket_.get());
    if (!r.ok()) {
      return absl::Status(r.status().code(),
                          absl::StrCat("the agent at ", path_, ": ", r.status().message()));
    }
    peer_version_ = r->message.version;
    if (r->message.status != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the agent at ", path_, " refused: ", TextOf(r->message)));
    }
    if (r->message.type != static_cast<uint32_t>(type)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the agent at ", path_, " gave an answer out of order"));
    }
    return r->message;
  }

  const std::string path_;
  UniqueFd peer_;  // pidfd of the agent
  std::mutex mu_;  // one question at a time
  UniqueFd socket_;
  uint32_t max_queues_ = 0;
  bool absent_ = false;
  uint32_t peer_version_ = 0;
};

}  // namespace

absl::Status AgentLink::Prepare(Region control_region) {
  control_region_ = std::move(control_region);
  control_ = new (control_region_.data()) wire::ControlPage();
  control_->magic = wire::kRegionMagic;
  control_->version = wire::kProtocolVersion;
  for (auto [bell, flag] : {std::pair{&kick_, &control_->agent_sleeping.value},
                            std::pair{&notify_, &control_->host_waiting.value}}) {
    auto fd = Doorbell::CreateEventFd();
    if (!fd.ok()) return fd.status();
    *bell = Doorbell(*std::move(fd), flag);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<AgentLink>> StartEmbeddedAgent(const Options& options) {
  auto link = std::make_unique<EmbeddedLink>();
  if (absl::Status st = link->Start(options); !st.ok()) return st;
  return std::unique_ptr<AgentLink>(std::move(link));
}

absl::StatusOr<std::unique_ptr<AgentLink>> ConnectToAgent(const Options& options) {
  auto link = std::make_unique<SocketLink>(options.socket_path);
  absl::Status st = link->Connect(options);
  if (st.ok()) return std::unique_ptr<AgentLink>(std::move(link));
  if (!options.fallback_embedded || !link->may_fall_back()) return st;
  Log(LogLevel::kWarn, absl::StrCat(st.message(), ". Using an embedded agent (fallback=embedded)"));
  return StartEmbeddedAgent(options);
}

}  // namespace pulse::lsm
