#include "services/graph/bolt/server.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "net/director.h"
#include "services/graph/bolt/flow.h"
#include "services/graph/model/text.h"

namespace pulse::bolt {
namespace {

using cypher::Concat;

class ServerImpl : public BoltServer {
 public:
  ServerImpl(cypher::GraphService* service, const BoltOptions& options) : options_(options) {
    shared_.service = service;
    shared_.limits = options.limits;
    if (options.throttle != nullptr) shared_.throttle = options.throttle;
  }
  ~ServerImpl() override { Stop(); }

  absl::Status Start();
  uint16_t port() const override { return port_; }
  BoltNumbers numbers() const override {
    BoltNumbers numbers;
    if (director_ != nullptr) numbers.connections = director_->stats().connections;
    numbers.connections_total = shared_.connections;
    numbers.messages = shared_.messages;
    numbers.failures = shared_.failures;
    return numbers;
  }
  void Stop() override;

 private:
  void Sweep();

  const BoltOptions options_;
  net::Access access_;
  BoltShared shared_;
  uint16_t port_ = 0;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<BoltApplication> application_;
  std::unique_ptr<net::Director> director_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread sweeper_;
};

absl::Status ServerImpl::Start() {
  PULSE_ASSIGN_OR_RETURN(access_, net::OpenAccess(options_));
  PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseBind(options_.bind, options_.port));
  const bool v6 = options_.bind.find(':') != std::string::npos && options_.bind[0] != '[';
  const std::string host = Concat(v6 ? "[" : "", options_.bind, v6 ? "]" : "");
  net::AccessOptions named = options_;
  named.port_option = "--bolt";
  PULSE_RETURN_IF_ERROR(net::CheckListen(named, access_, options_.bind, address));
  shared_.users = &access_.users;
  pool_ = std::make_unique<WorkerPool>(options_.workers, "pulse-bolt-w", options_.cpus);
  shared_.pool = pool_.get();
  net::DirectorOptions options;
  options.listen = {address.ToString()};
  options.threads = options_.threads;
  options.thread_name = "pulse-bolt-";
  options.cpus = options_.cpus;
  options.limits.connections = options_.max_clients;
  options.limits.max_message = options_.limits.message_bytes + (size_t{64} << 10);
  options.limits.connection_bytes =
      std::max(options.limits.connection_bytes, options.limits.max_message);
  if (access_.tls != nullptr) {
    options.transport = [tls = access_.tls.get()] { return tls->NewTransport(); };
  }
  // A flow is asked to go on when half of connection_bytes is unsent, or less.
  constexpr size_t kRoom = size_t{256} << 10;
  application_ = std::make_unique<BoltApplication>(&shared_, kRoom);
  options.application = application_.get();
  options.on_listening = [&](const std::vector<uint16_t>& ports) {
    if (!ports.empty()) port_ = ports.front();
    shared_.address = Concat(host, ":", port_);
  };
  PULSE_ASSIGN_OR_RETURN(director_, net::Director::Open(options));
  sweeper_ = std::thread([this] { Sweep(); });
  return absl::OkStatus();
}

// Ends what waits too long: transactions of silent clients, and clients who do not say who they
// are.
void ServerImpl::Sweep() {
  constexpr std::chrono::milliseconds kPause{100};
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, kPause, [this] { return stopping_; })) {
    const int64_t now = NowNanos();
    shared_.service->running()->Sweep(now);
    shared_.unauthenticated.Sweep(now - options_.limits.logon.count() * 1'000'000);
  }
}

void ServerImpl::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  wake_.notify_all();
  if (sweeper_.joinable()) sweeper_.join();
  // The flows end what their connections run.
  director_.reset();
  pool_.reset();
  application_.reset();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BoltServer>> BoltServer::Open(cypher::GraphService* service,
                                                             const BoltOptions& options) {
  auto server = std::make_unique<ServerImpl>(service, options);
  PULSE_RETURN_IF_ERROR(server->Start());
  return server;
}

}  // namespace pulse::bolt
