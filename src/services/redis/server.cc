#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/worker_pool.h"
#include "net/access.h"
#include "net/address.h"
#include "net/director.h"
#include "services/redis/commands/cluster.h"
#include "services/redis/designs.h"
#include "services/redis/executor.h"
#include "services/redis/host_flow.h"
#include "services/redis/open_database.h"
#include "services/redis/private_directory.h"
#include "services/redis/serve.h"
#include "services/redis/store.h"

namespace pulse::redis {
namespace {

// Of many keys or values; one value of any length is told.
uint64_t ReplyLimit(const Limits& limits) {
  return std::max(KeyspaceLimits().max_reply, limits.max_bulk + 64);
}

class ServerImpl : public Server {
 public:
  explicit ServerImpl(const ServeOptions& options) : options_(options) {}
  ~ServerImpl() override { Stop().IgnoreError(); }  // who wants to know has called it before

  absl::Status Start(const OffloadFactory& offload);
  uint16_t port() const override { return public_ == nullptr ? 0 : public_->port(); }
  const std::string& host_socket() const override { return options_.host_socket; }
  ServerNumbers numbers() const override;
  Traffic::Bytes Sent() const;
  const net::Director* agent() const override { return options_.offload ? public_.get() : nullptr; }
  HostApplication* host_application() override { return remote_app_.get(); }
  absl::Status Stop() override;

 private:
  absl::Status CheckAccess();
  absl::Status CheckUsersOfAgent();
  absl::Status OpenStore();
  net::DirectorOptions HostOptions();
  absl::Status OpenHostSocket();
  absl::Status OpenPublic(const OffloadFactory& offload);
  bool in_cluster() const { return options_.cluster != nullptr && options_.cluster->enabled(); }
  void LimitClients();
  void MakeExecutors();
  std::vector<Executor*> ExecutorList() const;

  ServeOptions options_;
  std::string tcp_address_;  // where it listens, once that was checked
  PrivateDirectory directory_;
  std::unique_ptr<net::TlsContext> tls_;
  ServerFacts facts_;  // which the store tells of what expires, to its end
  std::unique_ptr<Keyspace> store_;
  std::vector<std::unique_ptr<Executor>> executors_;  // one, or one for each node
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<HostApplication> public_app_;
  std::unique_ptr<HostApplication> private_app_;
  std::unique_ptr<HostApplication> remote_app_;
  std::unique_ptr<net::Director> private_;
  std::shared_ptr<net::Application> offload_app_;
  std::unique_ptr<net::Director> public_;
};

absl::Status ServerImpl::CheckAccess() {
  options_.any_user_words = true;
  PULSE_ASSIGN_OR_RETURN(net::Access access, net::OpenAccess(options_));
  if (options_.listen_tcp) {
    PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseBind(options_.bind, options_.port));
    PULSE_RETURN_IF_ERROR(net::CheckListen(options_, access, options_.bind, address));
    tcp_address_ = address.ToString();
  }
  PULSE_RETURN_IF_ERROR(facts_.users.Begin(access.users, options_.users_file));
  PULSE_RETURN_IF_ERROR(CheckUsersOfAgent());
  tls_ = std::move(access.tls);
  return absl::OkStatus();
}

// An agent answers reads by itself: of a user it knows no more than whether they may read.
absl::Status ServerImpl::CheckUsersOfAgent() {
  if (!options_.offload && options_.host_socket.empty()) return absl::OkStatus();
  facts_.users.Freeze(
      "the agent in front of this server answers reads by itself, and knows the users of the "
      "start");
  for (const AclUsers::User& user : facts_.users.List()) {
    if (user->reads_all_or_nothing()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(options_.users_file, ": user ", user->name(),
                     " may read some keys, or by some commands, which an agent that answers reads "
                     "does not know; use --offload off without --host-socket"));
  }
  return absl::OkStatus();
}

absl::Status ServerImpl::OpenStore() {
  StoreOptions store;
  store.limits.max_value = options_.limits.max_bulk;
  store.limits.max_reply = ReplyLimit(options_.limits);
  if (options_.buffer_bytes > 0) {
    store.limits.max_reply =
        std::min(store.limits.max_reply,
                 std::max<uint64_t>(options_.buffer_bytes / 4, options_.limits.max_bulk + 64));
    const uint64_t bytes = options_.transaction_bytes;
    facts_.transactions.SetLimit(bytes > 0 ? bytes : options_.buffer_bytes / 2, "--memory");
  }
  if (options_.keyspace != nullptr) {
    PULSE_ASSIGN_OR_RETURN(store_, options_.keyspace(store.limits));
    // What it could never store is refused when it is announced, before it takes memory.
    options_.limits.max_bulk = std::min(options_.limits.max_bulk, store_->most_value());
    if (options_.buffer_bytes > 0) {
      options_.limits.max_request = LongestRequest(options_.limits.max_bulk);
    }
    return absl::OkStatus();
  }
  store.path = options_.db;
  store.uri = options_.uri;
  store.cache_bytes = options_.cache_bytes;
  store.hot_bytes = options_.hot_bytes;
  store.sync = options_.sync;
  store.damaged_log = options_.damaged_log;
  PULSE_ASSIGN_OR_RETURN(store_, Store::Open(store));
  return absl::OkStatus();
}

// A connection for which there is no descriptor would not even be told so.
void ServerImpl::LimitClients() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max == RLIM_INFINITY) return;
  // Threads' sockets and events, and what other options open; RocksDB keeps its tables open.
  const bool in_memory = options_.keyspace != nullptr;
  const rlim_t others = in_memory ? 64 + 8 * static_cast<rlim_t>(options_.threads) : 4096;
  const rlim_t most = files.rlim_max - std::min(files.rlim_max / 2, others);
  if (options_.max_clients <= most) return;
  Log(LogLevel::kWarn,
      absl::StrCat("clients are limited to ", most, " instead of ", options_.max_clients,
                   ", as this process may open ", files.rlim_max, " files (ulimit -n)"));
  options_.max_clients = static_cast<uint32_t>(most);
}

net::DirectorOptions ServerImpl::HostOptions() {
  net::DirectorOptions options;
  options.threads = options_.threads;
  options.thread_name = "pulse-host-";
  options.cpus = options_.cpus;
  options.limits.connections = options_.max_clients;
  options.limits.patience_ms = options_.patience_ms;
  LimitMessages(options_.limits, &options.limits);
  if (options_.buffer_bytes > 0) {
    // Of larger requests and replies one goes on at a time.
    options.limits.all_bytes = options_.buffer_bytes / 2;
  }
  return options;
}

absl::Status ServerImpl::OpenHostSocket() {
  if (options_.offload) PULSE_RETURN_IF_ERROR(directory_.Make());
  if (options_.host_socket.empty() && options_.offload) {
    options_.host_socket = directory_.path() + "/host.sock";
  }
  if (options_.host_socket.empty()) return absl::OkStatus();
  private_app_ = std::make_unique<HostApplication>(ExecutorList(), store_.get(), &facts_,
                                                   pool_.get(), options_.limits, true);
  net::DirectorOptions options = HostOptions();
  options.application = private_app_.get();
  options.listen = {"unix:" + options_.host_socket};
  options.limits.connections = options_.max_clients + 64;  // fences too
  options.limits.slow_ms = 0;                              // the director in front sees to that
  PULSE_ASSIGN_OR_RETURN(private_, net::Director::Open(options));
  if (chmod(options_.host_socket.c_str(), 0600) != 0) {
    return ErrnoError(errno, "restricting access to", options_.host_socket);
  }
  return absl::OkStatus();
}

absl::Status ServerImpl::OpenPublic(const OffloadFactory& offload) {
  net::DirectorOptions options = HostOptions();
  options.listen.clear();
  options.limits.idle_ms = options_.idle_seconds * int64_t{1000};
  if (options_.listen_tcp) options.listen.push_back(tcp_address_);
  if (!options_.socket.empty()) options.listen.push_back("unix:" + options_.socket);
  if (options.listen.empty()) return absl::OkStatus();
  if (tls_ != nullptr) options.transport = [tls = tls_.get()] { return tls->NewTransport(); };
  if (options_.offload) {
    if (offload == nullptr) return absl::UnimplementedError("--offload on: no agent in this build");
    OffloadSetup setup;
    setup.db = options_.db;
    setup.secondary_dir = directory_.path() + "/secondary";
    setup.host_socket = options_.host_socket;
    setup.cache_bytes = options_.cache_bytes;
    setup.cpus = options_.agent_cpus;
    setup.limits = options_.limits;
    const AclUsers::User anonymous = facts_.users.Anonymous();
    setup.needs_auth = anonymous == nullptr || !anonymous->may_get_all();
    setup.wants_password = anonymous == nullptr;
    std::error_code error;
    std::filesystem::create_directory(setup.secondary_dir, error);
    if (error) return ErrnoError(error.value(), "making", setup.secondary_dir);
    PULSE_ASSIGN_OR_RETURN(offload_app_, offload(setup));
    options.application = offload_app_.get();
    options.local_host = private_->local_port();
    options.thread_name = "pulse-agent-";
    options.side = CpuSide::kAgent;
    options.cpus = options_.agent_cpus;
    options.spin_nanos = options_.agent_spin_us * int64_t{1000};
  } else {
    public_app_ = std::make_unique<HostApplication>(ExecutorList(), store_.get(), &facts_,
                                                    pool_.get(), options_.limits, false,
                                                    options_.designs, &options_.other);
    options.application = public_app_.get();
  }
  options.port_per_loop = in_cluster();
  options.on_listening = [this](const std::vector<uint16_t>& ports) {
    if (ports.empty()) return;
    facts_.port = ports.front();
    if (options_.cluster == nullptr) return;
    options_.cluster->Listen(in_cluster() ? ports : std::vector<uint16_t>{ports.front()});
  };
  PULSE_ASSIGN_OR_RETURN(public_, net::Director::Open(options));
  return absl::OkStatus();
}

void ServerImpl::MakeExecutors() {
  if (!in_cluster()) {
    executors_.push_back(std::make_unique<Executor>(store_.get(), &facts_));
    return;
  }
  for (int i = 0; i < options_.threads; ++i) {
    executors_.push_back(
        std::make_unique<Executor>(store_->Node(i), &facts_, ClusterNode{options_.cluster, i}));
  }
}

std::vector<Executor*> ServerImpl::ExecutorList() const {
  std::vector<Executor*> list;
  for (const auto& executor : executors_) list.push_back(executor.get());
  return list;
}

absl::Status ServerImpl::Start(const OffloadFactory& offload) {
  if (options_.db.empty() && options_.keyspace == nullptr) {
    return absl::InvalidArgumentError("--db is required: a directory");
  }
  PULSE_RETURN_IF_ERROR(CheckAccess());
  // What RocksDB starts inherits it.
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(options_.cpus));
  facts_.run_id = RandomHex(20);
  facts_.started_ms = WallMillis();
  LimitClients();
  facts_.others = options_.other.counts;
  facts_.max_clients = options_.max_clients;
  facts_.idle_seconds = options_.idle_seconds;
  PULSE_RETURN_IF_ERROR(OpenStore());
  facts_.directory = DirectoryIdentity(options_.db);
  facts_.max_bulk = options_.limits.max_bulk;
  store_->watch_table()->SetListener(&facts_.tracking);
  MakeExecutors();
  pool_ = std::make_unique<WorkerPool>(options_.workers, "pulse-host-w", options_.cpus);
  PULSE_RETURN_IF_ERROR(OpenHostSocket());
  remote_app_ =
      std::make_unique<HostApplication>(ExecutorList(), store_.get(), &facts_, pool_.get(),
                                        options_.limits, false, nullptr, &options_.other);
  PULSE_RETURN_IF_ERROR(OpenPublic(offload));
  facts_.command_rate.Reset(NowNanos());
  facts_.others_rate.Reset(NowNanos());
  facts_.traffic.Set([this] { return Sent(); });
  return absl::OkStatus();
}

// Of clients: an agent's connections in this process are none.
Traffic::Bytes ServerImpl::Sent() const {
  Traffic::Bytes bytes;
  for (const net::Director* director : {private_.get(), public_.get()}) {
    if (director == nullptr || (director == private_.get() && agent() != nullptr)) continue;
    const net::DirectorStats stats = director->stats();
    bytes.received += stats.received_bytes;
    bytes.sent += stats.sent_bytes;
    bytes.refused += stats.refused;
  }
  return bytes;
}

ServerNumbers ServerImpl::numbers() const {
  ServerNumbers n;
  for (const net::Director* host : {private_.get(), public_.get()}) {
    if (host == nullptr || host == agent()) continue;
    const net::DirectorStats stats = host->stats();
    n.connections += stats.connections;
    n.connections_total += stats.accepted;
    n.held_bytes += stats.held_bytes;
    n.loop_cpu_nanos += host->cpu_nanos();
  }
  const CommandCounts others = facts_.Others();
  n.commands = facts_.commands + others.commands;
  n.hits = facts_.hits + others.hits;
  n.misses = facts_.misses + others.misses;
  n.errors = facts_.error_stats.total();
  n.waited = facts_.waited;
  n.rejected = facts_.rejected;
  const Traffic::Bytes traffic = facts_.traffic.Take();
  n.received_bytes = traffic.received;
  n.sent_bytes = traffic.sent;
  return n;
}

absl::Status ServerImpl::Stop() {
  facts_.pause.End();  // what it holds is answered
  facts_.traffic.Set(nullptr);
  // From the front to the back: each answers with what is behind it.
  public_.reset();
  offload_app_.reset();
  private_.reset();
  // Their connections are gone: nobody waits for what was not answered in time.
  for (const auto& executor : executors_) executor->End();
  if (options_.designs != nullptr) options_.designs->StopWorkers();
  pool_.reset();  // to which those post
  return store_ == nullptr ? absl::OkStatus() : store_->Close();
}

}  // namespace

void LimitMessages(const Limits& limits, net::DirectorLimits* of_director) {
  const auto value = static_cast<size_t>(limits.max_bulk);
  // A request of several long arguments.
  of_director->max_message =
      limits.max_request > 0 ? static_cast<size_t>(limits.max_request) : value * 2 + (1 << 20);
  // With what is around each value, and the last one.
  of_director->max_host_message = 2 * ReplyLimit(limits) + value + (1 << 20);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Open(const ServeOptions& options,
                                                     OffloadFactory offload) {
  auto server = std::make_unique<ServerImpl>(options);
  PULSE_RETURN_IF_ERROR(server->Start(offload));
  return server;
}

}  // namespace pulse::redis
