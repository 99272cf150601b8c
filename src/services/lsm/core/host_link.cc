#include "services/lsm/core/host_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/status_server.h"
#include "agent/worker.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "channel/handshake.h"
#include "channel/queue_pair.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {
namespace {

// For an answer on the socket. An agent that hangs is found out sooner, by its heartbeat.
constexpr int kMinControlTimeoutMs = 10'000;
constexpr int kExitWaitMs = 200;
constexpr uint64_t kMaxTasks = 1024;  // that an agent is believed to run

class EmbeddedLink : public AgentLink {
 public:
  absl::Status Start(const Options& options) {
    auto page = Region::CreatePrivate(wire::kPage);
    if (!page.ok()) return page.status();
    auto notify = Prepare(*std::move(page));
    if (!notify.ok()) return notify.status();
    auto kick = Doorbell::CreatePair();
    if (!kick.ok()) return kick.status();
    kick_ = Doorbell(std::move(kick->ring), &control_->agent_sleeping.value);
    WorkerOptions w;
    w.name = "pulse-agent-0";
    w.cpus = options.agent_cpus;
    w.backend.kind = options.engine;
    w.backend.factory = options.backend_factory;
    w.background = options.agent_background;
    w.nice = static_cast<int>(options.agent_nice);
    w.spin_nanos = options.spin_us * 1000;
    if (!options.status.empty()) {
      auto server = StatusServer::Open(options.status);
      if (!server.ok()) return server.status();
      status_ = *std::move(server);
      w.status = std::shared_ptr<AgentStatus>(status_, &status_->status());
    }
    const std::shared_ptr<AgentStatus> status = w.status;
    auto worker = Worker::Start(std::move(w));
    if (!worker.ok()) return worker.status();
    worker_ = *std::move(worker);
    worker_->Run([&] {
      Session::Config config;
      config.mover = options.mover;
      config.embedded = true;
      config.peer = getpid();
      config.name = "of this process";
      config.status = status;
      auto session = std::make_unique<Session>(std::move(config), control_, Region(),
                                               std::move(kick->sleep), *std::move(notify),
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

  bool embedded() const override { return true; }
  int death_fd() const override { return -1; }
  bool Gone() const override { return false; }
  uint32_t max_queues() const override { return AgentLimits().max_queues; }

 private:
  std::shared_ptr<StatusServer> status_;  // null: none was asked for
  Session* session_ = nullptr;
  std::unique_ptr<Worker> worker_;  // last: its destructor drains the session
};

class SocketLink : public AgentLink {
 public:
  explicit SocketLink(std::string path) : path_(std::move(path)) {}

  absl::Status Connect(const Options& options, int cancel_fd) {
    cancel_fd_ = cancel_fd;
    timeout_ms_ = std::max(kMinControlTimeoutMs, static_cast<int>(options.agent_deadline_ms));
    auto page = Region::CreateShared(wire::kPage);
    if (!page.ok()) return page.status();
    auto notify = Prepare(*std::move(page));
    if (!notify.ok()) return notify.status();
    auto socket = ConnectUnix(path_, timeout_ms_, cancel_fd);
    if (!socket.ok()) {
      const int err = ErrnoOf(socket.status());
      absent_ = err == ENOENT || err == ECONNREFUSED || absl::IsDeadlineExceeded(socket.status());
      return socket.status();
    }
    socket_ = *std::move(socket);
    PULSE_RETURN_IF_ERROR(SetSocketTimeout(socket_.get(), timeout_ms_));
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
    if (absl::Status st = SendMessage(socket_.get(), hello, {control_region_.fd(), notify->get()});
        !st.ok()) {
      absent_ = true;  // it hung up
      return absl::Status(st.code(), absl::StrCat("the agent at ", path_, ": ", st.message()));
    }
    auto answer = Expect(wire::MessageType::kHelloAck);
    if (!answer.ok()) {
      // Who hangs up, is silent, or answers with something else entirely, is no agent of this
      // release either. One that refuses has said its version.
      absent_ |= peer_version_ == 0;
      return answer.status();
    }
    const wire::Message* ack = &answer->message;
    peer_version_ = ack->version;
    if (ack->version != wire::kProtocolVersion) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the agent at ", path_, " speaks protocol version ", ack->version, ", this plug-in ",
          wire::kProtocolVersion, "; install agent and plug-in from the same release"));
    }
    cancel_fd_ = -1;  // the caller's; from here on Close() cancels
    if (answer->fds_lost) {
      return ErrnoError(EMFILE, "taking the doorbell of", path_,
                        "raise this process's limit of open files (ulimit -n)");
    }
    if (answer->fds.size() != 1 || !Doorbell::CheckRingEnd(answer->fds[0].get()).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the agent at ", path_, " passed no doorbell with its answer"));
    }
    kick_ = Doorbell(std::move(answer->fds[0]), &control_->agent_sleeping.value);
    max_queues_ = static_cast<uint32_t>(ack->args[0]);
    max_tasks_ = static_cast<int>(std::min<uint64_t>(ack->args[4], kMaxTasks));
    core_speed_ = static_cast<double>(std::clamp<uint64_t>(ack->args[5], 1, 100'000)) / 1000;
    if (options.engine_given && ack->args[3] != static_cast<uint64_t>(options.engine)) {
      return absl::InvalidArgumentError(
          absl::StrCat("engine=", std::string(EngineName(options.engine)), ": the agent at ", path_,
                       " was started with another engine; choose it there (pulse agent --engine)"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Region> CreateRegion(size_t bytes) override { return Region::CreateShared(bytes); }

  absl::Status Attach(uint32_t queue_id, uint64_t arena_bytes, const Region& region) override {
    wire::Message m = MakeMessage(wire::MessageType::kAttachQueue);
    m.args[0] = queue_id;
    m.args[1] = arena_bytes;
    m.args[2] = reinterpret_cast<uintptr_t>(region.data());
    return Ask(m, {region.fd()}, wire::MessageType::kAttachAck);
  }

  absl::Status StartTask(int request, int reply) override {
    wire::Message m = MakeMessage(wire::MessageType::kTask);
    m.args[0] = next_task_.fetch_add(1, std::memory_order_relaxed);
    return Ask(m, {request, reply}, wire::MessageType::kTaskAck);
  }

  absl::Status SendFile(uint32_t file, int fd, uint32_t* flags, uint64_t* aux) override {
    wire::Message m = MakeMessage(wire::MessageType::kFile);
    m.args[0] = file;
    *flags = 0;
    *aux = 0;
    return SendMessage(socket_.get(), m, {fd});
  }

  bool embedded() const override { return false; }
  int max_tasks() const override { return max_tasks_; }
  double core_speed() const override { return core_speed_; }
  int death_fd() const override { return socket_.get(); }

  bool Gone() const override {
    pollfd p{socket_.get(), POLLRDHUP, 0};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
  }

  void WaitForExit() const override {
    if (!peer_.valid()) return;
    pollfd gone{peer_.get(), POLLIN, 0};
    poll(&gone, 1, kExitWaitMs);
  }

  void Close() override {
    AgentLink::Close();
    shutdown(socket_.get(), SHUT_RDWR);
  }

  uint32_t max_queues() const override { return max_queues_; }

  // After Connect failed: nobody listens there, or an agent of another protocol version. Any other
  // refusal has a cause that an embedded agent would hide.
  bool may_fall_back() const {
    return absent_ || (peer_version_ != 0 && peer_version_ != wire::kProtocolVersion);
  }

 private:
  // Waits for the socket, for Close() and for the caller's cancellation at once.
  absl::Status AwaitAnswer(int64_t until) const {
    pollfd fds[3] = {
        {socket_.get(), POLLIN, 0}, {closed_.fd(), POLLIN, 0}, {cancel_fd_, POLLIN, 0}};
    int n;
    do {
      const int64_t left = (until - NowNanos()) / 1'000'000;
      n = poll(fds, 3, static_cast<int>(std::max<int64_t>(0, left)));
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
      return absl::DeadlineExceededError(absl::StrCat("the agent at ", path_, " gave no answer in ",
                                                      timeout_ms_,
                                                      " ms: it hangs, or is stopped; restart it"));
    }
    if (fds[1].revents != 0 || fds[2].revents != 0)
      return absl::CancelledError("the agent was given up");
    return absl::OkStatus();
  }

  // One question and its answer, which carries the same args[0].
  absl::Status Ask(const wire::Message& m, const std::vector<int>& fds, wire::MessageType type) {
    std::lock_guard lock(mu_);
    PULSE_RETURN_IF_ERROR(SendMessage(socket_.get(), m, fds));
    // An answer that came after its time-out is not the answer to this question. All of them share
    // one deadline.
    const int64_t until = Deadline();
    while (true) {
      auto r = Receive(until);
      if (!r.ok()) return r.status();
      const bool is_ack = r->message.type == static_cast<uint32_t>(wire::MessageType::kAttachAck) ||
                          r->message.type == static_cast<uint32_t>(wire::MessageType::kTaskAck);
      const bool is_ours =
          r->message.type == static_cast<uint32_t>(type) && r->message.args[0] == m.args[0];
      if (is_ack && !is_ours) continue;
      return Check(r->message, type);
    }
  }

  int64_t Deadline() const { return NowNanos() + int64_t{timeout_ms_} * 1'000'000; }
  absl::StatusOr<Received> Receive(int64_t until) {
    PULSE_RETURN_IF_ERROR(AwaitAnswer(until));
    auto r = ReceiveMessage(socket_.get());
    if (r.ok()) return r;
    return absl::Status(r.status().code(),
                        absl::StrCat("the agent at ", path_, ": ", r.status().message()));
  }
  absl::Status Check(const wire::Message& m, wire::MessageType type) {
    if (m.status != 0) {
      peer_version_ = m.version;
      // With the errno in its text, where the agent has named one.
      return absl::FailedPreconditionError(
          absl::StrCat("the agent at ", path_, " refused: ", TextOf(m)));
    }
    if (m.type != static_cast<uint32_t>(type)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the agent at ", path_, " gave an answer out of order"));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Received> Expect(wire::MessageType type) {
    auto r = Receive(Deadline());
    if (!r.ok()) return r;
    if (absl::Status st = Check(r->message, type); !st.ok()) return st;
    return r;
  }

  const std::string path_;
  int timeout_ms_ = 0;
  int cancel_fd_ = -1;
  UniqueFd peer_;  // pidfd of the agent
  std::mutex mu_;  // one question at a time
  std::atomic<uint64_t> next_task_{1};
  int max_tasks_ = 0;
  double core_speed_ = 1.0;
  UniqueFd socket_;
  uint32_t max_queues_ = 0;
  bool absent_ = false;
  uint32_t peer_version_ = 0;
};

}  // namespace

absl::StatusOr<UniqueFd> AgentLink::Prepare(Region control_region) {
  control_region_ = std::move(control_region);
  control_ = new (control_region_.data()) wire::ControlPage();
  control_->magic = wire::kRegionMagic;
  control_->version = wire::kProtocolVersion;
  auto closed = WakeEvent::Create();
  if (!closed.ok()) return closed.status();
  closed_ = *std::move(closed);
  auto ends = Doorbell::CreatePair();
  if (!ends.ok()) return ends.status();
  notify_ = Doorbell(std::move(ends->sleep), &control_->host_waiting.value);
  return std::move(ends->ring);
}

void AgentLink::Close() { closed_.Set(); }

absl::StatusOr<std::unique_ptr<AgentLink>> StartEmbeddedAgent(const Options& options) {
  auto link = std::make_unique<EmbeddedLink>();
  if (absl::Status st = link->Start(options); !st.ok()) return st;
  return std::unique_ptr<AgentLink>(std::move(link));
}

absl::StatusOr<std::unique_ptr<AgentLink>> ConnectToAgent(const Options& options, int cancel_fd,
                                                          bool* may_fall_back) {
  auto link = std::make_unique<SocketLink>(options.socket_path);
  absl::Status st = link->Connect(options, cancel_fd);
  if (st.ok()) return std::unique_ptr<AgentLink>(std::move(link));
  if (may_fall_back != nullptr) *may_fall_back = link->may_fall_back();
  return st;
}

}  // namespace pulse::lsm
