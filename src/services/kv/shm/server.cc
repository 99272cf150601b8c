#include "services/kv/shm/server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/kv/core/hash.h"

namespace pulse::kv {
namespace {

// Of a queue pair: so many batches of so many requests are under way.
constexpr uint32_t kSlots = 4;
constexpr uint32_t kBatch = 256;
// Peers that may be silent at the same time; one more, and the oldest is let go.
constexpr size_t kMostGreetings = 64;
// No descriptor was left for a connection: look again after this long.
constexpr int kPauseMs = 100;

ShmFacts FactsOf(const ShmOptions& options, int partitions) {
  const uint64_t bytes = RequestWriter::PayloadBegin(kBatch) + options.value_bytes;
  ShmFacts facts{};
  facts.magic = kShmMagic;
  facts.hash_seed = HashSeed();
  facts.version = kShmVersion;
  facts.partitions = static_cast<uint32_t>(partitions);
  facts.threads = std::min(options.threads, facts.partitions);
  facts.slots = kSlots;
  facts.batch = kBatch;
  facts.buffer_bytes = static_cast<uint32_t>((bytes + wire::kPage - 1) / wire::kPage * wire::kPage);
  return facts;
}

}  // namespace

absl::Status ShmServer::Check(const ShmOptions& options) {
  if (options.threads < 1 || options.threads > kMostShmThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shm-threads ", options.threads, ": 1 to ", kMostShmThreads));
  }
  if (options.max_clients < 1 || options.max_clients > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shm-clients ", options.max_clients, ": 1 to 1024"));
  }
  if (options.value_bytes < 1024 || options.value_bytes > (32 << 20)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shm-value: ", options.value_bytes, " bytes; 1K to 32M are possible"));
  }
  return absl::OkStatus();
}

uint64_t ShmServer::BytesFor(const ShmOptions& options, int partitions) {
  return uint64_t{options.max_clients} * FactsOf(options, partitions).bytes();
}

absl::StatusOr<std::unique_ptr<ShmServer>> ShmServer::Open(KvStore* store,
                                                           const ShmOptions& options) {
  PULSE_RETURN_IF_ERROR(Check(options));
  std::unique_ptr<ShmServer> server(
      new ShmServer(options, FactsOf(options, store->options().partitions)));
  auto listener = ListenUnix(options.path);
  if (absl::IsAlreadyExists(listener.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat("--shm ", options.path,
                     ": another server listens there, or the file is no socket; stop it, or choose "
                     "another path"));
  }
  PULSE_ASSIGN_OR_RETURN(server->listener_, std::move(listener));
  PULSE_ASSIGN_OR_RETURN(server->stop_, WakeEvent::Create());
  for (uint32_t i = 0; i < server->facts_.threads; ++i) {
    PULSE_ASSIGN_OR_RETURN(auto poller, ShmPoller::Start(store, {.number = i,
                                                                 .threads = server->facts_.threads,
                                                                 .spin_nanos = options.spin_nanos,
                                                                 .cpus = options.cpus}));
    server->pollers_.push_back(std::move(poller));
  }
  server->thread_ = std::thread([s = server.get()] { s->AcceptLoop(); });
  return server;
}

ShmServer::ShmServer(const ShmOptions& options, const ShmFacts& facts)
    : options_(options), facts_(facts) {}

ShmServer::~ShmServer() {
  if (thread_.joinable()) {
    stop_.Set();
    thread_.join();
  }
  if (listener_.valid()) unlink(options_.path.c_str());
  for (const auto& client : clients_) client->Break();
  pollers_.clear();
}

void ShmServer::SetClients() {
  for (const auto& poller : pollers_) poller->SetClients(clients_);
  client_count_.store(clients_.size(), std::memory_order_relaxed);
}

void ShmServer::AcceptLoop() {
  pthread_setname_np(pthread_self(), "pulse-kv-accept");
  bool paused = false;
  while (true) {
    std::vector<pollfd> fds = {{stop_.fd(), POLLIN, 0}, {paused ? -1 : listener_.get(), POLLIN, 0}};
    for (const Greeting& g : greetings_) fds.push_back({g.socket.get(), POLLIN, 0});
    for (const auto& client : clients_) fds.push_back({client->socket(), POLLIN, 0});
    int64_t wait_ms = paused ? kPauseMs : -1;
    if (!greetings_.empty()) {
      const int64_t left =
          std::max<int64_t>(0, greetings_.front().deadline - NowNanos()) / 1'000'000 + 1;
      wait_ms = wait_ms < 0 ? left : std::min(wait_ms, left);
    }
    if (poll(fds.data(), fds.size(), static_cast<int>(wait_ms)) < 0) {
      if (errno == EINTR) continue;
      Log(LogLevel::kError, ErrnoError(errno, "waiting on", options_.path).message());
      return;
    }
    if (fds[0].revents != 0) return;
    // A client says nothing more on its socket: whatever comes is its end.
    const pollfd* of_clients = fds.data() + 2 + greetings_.size();
    // Those that have ended are destroyed here, and not by a poller that others wait for.
    const auto ended = std::exchange(clients_, {});
    for (size_t i = 0; i < ended.size(); ++i) {
      if (of_clients[i].revents == 0) clients_.push_back(ended[i]);
    }
    if (clients_.size() < ended.size()) SetClients();
    std::vector<Greeting> waiting = std::exchange(greetings_, {});
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (fds[2 + i].revents != 0) {
        ReadHello(std::move(waiting[i]));
      } else if (NowNanos() < waiting[i].deadline) {
        greetings_.push_back(std::move(waiting[i]));
      }
    }
    paused = fds[1].revents != 0 && !Accept();
  }
}

bool ShmServer::Accept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) {
    if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return true;
    LogOnce("shm-accept",
            ErrnoError(errno, "accepting a client on", options_.path, kRaiseOpenFiles).message());
    return false;
  }
  if (greetings_.size() >= kMostGreetings) greetings_.erase(greetings_.begin());
  greetings_.push_back({std::move(socket), NowNanos() + options_.hello_ms * 1'000'000});
  return true;
}

void ShmServer::ReadHello(Greeting greeting) {
  auto hello = ReceiveMessage(greeting.socket.get(), /*wait=*/false);
  if (IsNoMessage(hello.status())) {
    greetings_.push_back(std::move(greeting));
    return;
  }
  if (absl::IsUnavailable(hello.status())) return;  // it looked whether somebody listens
  const absl::Status status =
      hello.ok() ? Welcome(&greeting.socket, *std::move(hello)) : hello.status();
  if (status.ok()) return;
  // Where it was welcomed so far, the socket is gone, and it sees the end.
  if (greeting.socket.valid()) {
    SendRefusal(greeting.socket.get(), wire::MessageType::kHelloAck, status).IgnoreError();
  }
  LogOnce(absl::StrCat("shm-refused", status.raw_code()),
          absl::StrCat("refused a shared-memory client: ", status.message()));
}

absl::Status ShmServer::Welcome(UniqueFd* socket, Received hello) {
  const wire::Message& m = hello.message;
  PULSE_RETURN_IF_ERROR(CheckPeerUser(socket->get(), "the server"));
  if (m.version != wire::kProtocolVersion ||
      m.type != static_cast<uint32_t>(wire::MessageType::kHello) || m.args[1] != kShmService ||
      m.args[3] != kShmVersion) {
    return ErrnoError(EPROTONOSUPPORT, "a client speaks", "another version of the protocol",
                      "install pulse and its client library from the same release");
  }
  if (hello.fds_lost) {
    return ErrnoError(EMFILE, "taking a client's", "doorbell", kRaiseOpenFiles);
  }
  if (hello.fds.size() != 1) return absl::InvalidArgumentError("a hello brings one doorbell");
  PULSE_RETURN_IF_ERROR(Doorbell::CheckRingEnd(hello.fds[0].get()));
  if (clients_.size() >= options_.max_clients) {
    return ErrnoError(EUSERS, "there are", absl::StrCat(clients_.size(), " clients already"),
                      "close one, or raise --shm-clients");
  }
  std::vector<UniqueFd> kicks;
  const int fd = socket->get();
  PULSE_ASSIGN_OR_RETURN(auto client, ShmAttachment::Create(facts_, std::move(*socket),
                                                            std::move(hello.fds[0]), &kicks));
  PULSE_RETURN_IF_ERROR(
      SendMessage(fd, MakeMessage(wire::MessageType::kHelloAck, {facts_.bytes(), kShmVersion}),
                  {client->memory()}, /*wait=*/false));
  for (uint32_t i = 0; i < facts_.threads; ++i) {
    PULSE_RETURN_IF_ERROR(SendMessage(fd, MakeMessage(wire::MessageType::kServiceAck, {i}),
                                      {kicks[i].get()}, /*wait=*/false));
  }
  clients_.push_back(std::move(client));
  SetClients();
  return absl::OkStatus();
}

}  // namespace pulse::kv
