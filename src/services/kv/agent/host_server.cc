#include "services/kv/agent/host_server.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu_profile.h"
#include "base/errors.h"
#include "net/director.h"
#include "services/redis/serve.h"

namespace pulse::kv {
namespace {

constexpr uint64_t kUsualBuffers = uint64_t{64} << 20;

}  // namespace

// A thread, and the lanes that it serves.
class AgentServer::Thread final : public PeerWork {
 public:
  absl::Status Start(const AgentServerOptions& options, int number) {
    if (!mailbox_->Open()) return ErrnoError(errno, "making", "an eventfd");
    PULSE_ASSIGN_OR_RETURN(poller_,
                           PeerPoller::Start(this, {.name = absl::StrCat("pulse-host-kv", number),
                                                    .spin_nanos = options.spin_nanos,
                                                    .cpus = options.cpus}));
    return absl::OkStatus();
  }
  // What others still carry out has nobody to come back to.
  ~Thread() override {
    poller_.reset();
    mailbox_->Close();
  }
  const std::shared_ptr<net::Mailbox>& mailbox() const { return mailbox_; }
  PeerPoller* poller() { return poller_.get(); }

  ShmPeers lanes;  // the accepting thread's

 private:
  static HostLane* Lane(const std::shared_ptr<ShmPeer>& peer) {
    return static_cast<HostLane*>(peer.get());
  }
  size_t Serve(const ShmPeers& peers) override {
    mailbox_->Take(&posted_, &events_);
    for (const auto& work : posted_) work();
    posted_.clear();
    size_t found = 0;
    for (const auto& peer : peers) found += Lane(peer)->Serve();
    return found;
  }
  bool HasWork(const ShmPeers& peers) override {
    return std::any_of(peers.begin(), peers.end(),
                       [](const auto& peer) { return Lane(peer)->HasWork(); });
  }
  void Leave(ShmPeer* peer) override { static_cast<HostLane*>(peer)->Leave(); }
  int wake_fd() const override { return mailbox_->wake_fd(); }
  bool MaySleep() override { return mailbox_->MaySleep(); }
  void Woke(bool readable) override {
    mailbox_->Woke();
    eventfd_t count;
    if (readable) eventfd_read(mailbox_->wake_fd(), &count);
  }

  const std::shared_ptr<net::Mailbox> mailbox_ = std::make_shared<net::Mailbox>();
  std::vector<std::function<void()>> posted_;
  std::vector<net::LocalEvent> events_;  // none come
  std::unique_ptr<PeerPoller> poller_;   // ends first
};

absl::Status AgentServer::Check(const AgentServerOptions& options) {
  if (options.threads < 1 || options.threads > 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("--agent-threads ", options.threads, ": 1 to 64"));
  }
  if (options.max_lanes < 1 || options.max_lanes > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("--agent-loops ", options.max_lanes, ": 1 to 1024"));
  }
  return absl::OkStatus();
}

uint64_t AgentServer::BytesFor(const AgentServerOptions& options) {
  return options.max_lanes * HostLane::FactsOf(LaneShared()).bytes();
}

absl::StatusOr<std::unique_ptr<AgentServer>> AgentServer::Open(redis::HostApplication* application,
                                                               const AgentServerOptions& options) {
  PULSE_RETURN_IF_ERROR(Check(options));
  std::unique_ptr<AgentServer> server(new AgentServer(options));
  LaneShared& shared = server->shared_;
  shared.application = application;
  shared.most_sessions = options.max_sessions;
  const redis::Limits& limits = application->limits();
  // As on the server's own port.
  net::DirectorLimits of_director;
  redis::LimitMessages(limits, &of_director);
  shared.max_message = of_director.max_message;
  const uint64_t all = options.buffer_bytes == 0 ? kUsualBuffers : options.buffer_bytes;
  shared.lane_bytes = std::max(all / options.max_lanes, 2 * limits.max_bulk);
  for (uint32_t i = 0; i < options.threads; ++i) {
    server->threads_.push_back(std::make_unique<Thread>());
    PULSE_RETURN_IF_ERROR(server->threads_.back()->Start(options, static_cast<int>(i)));
  }
  ListenerOptions listener;
  listener.option = "--agent-socket";
  listener.path = options.path;
  listener.thread = "pulse-kv-agents";
  listener.service = kLaneService;
  listener.version = kLaneVersion;
  PULSE_ASSIGN_OR_RETURN(server->listener_, PeerListener::Open(server.get(), listener));
  return server;
}

AgentServer::AgentServer(const AgentServerOptions& options) : options_(options) {}
AgentServer::~AgentServer() = default;

AgentServerNumbers AgentServer::numbers() const {
  AgentServerNumbers n;
  n.loops = lane_count_.load(std::memory_order_relaxed);
  n.clients = shared_.sessions.load(std::memory_order_relaxed);
  n.requests = shared_.requests.load(std::memory_order_relaxed);
  n.transfers = shared_.transfers.load(std::memory_order_relaxed);
  const size_t most = most_of_a_thread_.load(std::memory_order_relaxed);
  n.design = most == 0 ? "none" : most == 1 ? "lat" : "sav";
  for (const auto& thread : threads_) n.cpu_nanos += thread->poller()->cpu_nanos();
  return n;
}

void AgentServer::AddInfo(std::string* out) const {
  const AgentServerNumbers n = numbers();
  absl::StrAppend(out, "agent_loops:", n.loops, "\r\nagent_design:", n.design,
                  "\r\nagent_clients:", n.clients, "\r\nagent_requests:", n.requests,
                  "\r\nagent_transfers:", n.transfers, "\r\nagent_cpu_us:", n.cpu_nanos / 1000,
                  "\r\n");
}

// By turns: to the thread that has the fewest.
absl::StatusOr<std::shared_ptr<ShmPeer>> AgentServer::Welcome(UniqueFd* socket,
                                                              std::vector<UniqueFd> fds) {
  if (const size_t lanes = lane_count_.load(std::memory_order_relaxed);
      lanes >= options_.max_lanes) {
    return ErrnoError(EUSERS, "there are", absl::StrCat(lanes, " loops of agents already"),
                      "end one, or raise --agent-loops");
  }
  const auto least = std::min_element(
      threads_.begin(), threads_.end(),
      [](const auto& a, const auto& b) { return a->lanes.size() < b->lanes.size(); });
  const int fd = socket->get();
  UniqueFd kick;
  PULSE_ASSIGN_OR_RETURN(auto lane, HostLane::Create(&shared_, (*least)->mailbox(),
                                                     std::move(*socket), std::move(fds[0]), &kick));
  PULSE_RETURN_IF_ERROR(SendMessage(
      fd, MakeMessage(wire::MessageType::kHelloAck, {lane->facts().bytes(), kLaneVersion}),
      {lane->memory()}, /*wait=*/false));
  PULSE_RETURN_IF_ERROR(SendMessage(fd, MakeMessage(wire::MessageType::kServiceAck, {0}),
                                    {kick.get()}, /*wait=*/false));
  (*least)->lanes.push_back(lane);
  return lane;
}

void AgentServer::SetPeers(const ShmPeers& peers) {
  size_t most = 0;
  for (const auto& thread : threads_) {
    std::erase_if(thread->lanes, [&](const std::shared_ptr<ShmPeer>& lane) {
      return std::find(peers.begin(), peers.end(), lane) == peers.end();
    });
    thread->poller()->SetPeers(thread->lanes);
    most = std::max(most, thread->lanes.size());
  }
  most_of_a_thread_.store(most, std::memory_order_relaxed);
  lane_count_.store(peers.size(), std::memory_order_relaxed);
}

}  // namespace pulse::kv
