#include "services/kv/shm/server.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "channel/handshake.h"
#include "services/kv/core/hash.h"

namespace pulse::kv {
namespace {

// Of a queue pair: so many batches of so many requests are under way.
constexpr uint32_t kSlots = 4;
constexpr uint32_t kBatch = 256;
static_assert(kShmFarBytes == kMaxValueBytes);

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

// Of a client's far memory, which is sealed, so that it stays so; a client whose files may not be
// large has less than others, or nothing.
absl::StatusOr<uint64_t> CheckFar(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoError(errno, "looking at", "the client's memory");
  if (S_ISREG(st.st_mode) && st.st_size == 0) return 0;
  const uint64_t bytes = std::min<uint64_t>(static_cast<uint64_t>(st.st_size), kShmFarBytes);
  PULSE_RETURN_IF_ERROR(Region::CheckFile(fd, bytes));
  return bytes;
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
  for (uint32_t i = 0; i < server->facts_.threads; ++i) {
    PULSE_ASSIGN_OR_RETURN(auto poller, ShmPoller::Start(store, {.number = i,
                                                                 .threads = server->facts_.threads,
                                                                 .spin_nanos = options.spin_nanos,
                                                                 .cpus = options.cpus}));
    server->pollers_.push_back(std::move(poller));
  }
  ListenerOptions listener;
  listener.option = "--shm";
  listener.path = options.path;
  listener.thread = "pulse-kv-accept";
  listener.service = kShmService;
  listener.version = kShmVersion;
  listener.descriptors = 2;
  listener.hello_ms = options.hello_ms;
  PULSE_ASSIGN_OR_RETURN(server->listener_, PeerListener::Open(server.get(), listener));
  return server;
}

ShmServer::ShmServer(const ShmOptions& options, const ShmFacts& facts)
    : options_(options), facts_(facts) {}

void ShmServer::SetPeers(const ShmPeers& peers) {
  for (const auto& poller : pollers_) poller->SetClients(peers);
  client_count_.store(peers.size(), std::memory_order_relaxed);
}

absl::StatusOr<std::shared_ptr<ShmPeer>> ShmServer::Welcome(UniqueFd* socket,
                                                            std::vector<UniqueFd> fds) {
  const size_t clients = this->clients();
  if (clients >= options_.max_clients) {
    return ErrnoError(EUSERS, "there are", absl::StrCat(clients, " clients already"),
                      "close one, or raise --shm-clients");
  }
  PULSE_ASSIGN_OR_RETURN(const uint64_t far_bytes, CheckFar(fds[1].get()));
  std::vector<UniqueFd> kicks;
  const int fd = socket->get();
  PULSE_ASSIGN_OR_RETURN(auto client,
                         ShmAttachment::Create(facts_, std::move(*socket), std::move(fds[0]),
                                               std::move(fds[1]), far_bytes, &kicks));
  PULSE_RETURN_IF_ERROR(
      SendMessage(fd, MakeMessage(wire::MessageType::kHelloAck, {facts_.bytes(), kShmVersion}),
                  {client->memory()}, /*wait=*/false));
  for (uint32_t i = 0; i < facts_.threads; ++i) {
    PULSE_RETURN_IF_ERROR(SendMessage(fd, MakeMessage(wire::MessageType::kServiceAck, {i}),
                                      {kicks[i].get()}, /*wait=*/false));
  }
  return client;
}

}  // namespace pulse::kv
