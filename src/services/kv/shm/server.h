// ShmServer: shared-memory clients (pulse/kv_client.h) of a KvStore. Listens on a Unix socket of
// mode 0600, takes processes of its own user and of root, and makes each a sealed memory with a
// queue pair for each partition. ShmPollers carry the requests out. wire.h has the handshake.
//
// Memory: BytesFor(options, partitions) for all clients together, and not a byte more, whatever
// they do; that of a client whose socket ends is given back at once.
//
// Open returns when the socket accepts connections. Destruction removes the socket's file and cuts
// clients off; what they had under way may or may not have been carried out. Thread-safe but for
// that. A peer that does not say hello keeps nobody else waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/kv/shm/peer_listener.h"
#include "services/kv/shm/poller.h"

namespace pulse::kv {

struct ShmOptions {
  std::string path = {};
  uint32_t threads = 1;             // at most kMostShmThreads, and no more than partitions are used
  uint32_t max_clients = 16;        // at most 1024
  uint32_t value_bytes = 64 << 10;  // of key and value of a request, at most; 1 KiB to 32 MiB
  int64_t spin_nanos = 50'000;      // for how long a thread looks for requests before it sleeps
  std::vector<int> cpus = {};       // of the threads; empty: any
  int64_t hello_ms = 2000;          // how long a peer may take to say hello
};

class ShmServer final : private PeerHost {
 public:
  // `store` outlives it. InvalidArgument for options out of range; AlreadyExists when the path is
  // in use.
  static absl::StatusOr<std::unique_ptr<ShmServer>> Open(KvStore* store, const ShmOptions& options);

  // As Open says of the options.
  static absl::Status Check(const ShmOptions& options);
  static uint64_t BytesFor(const ShmOptions& options, int partitions);
  size_t clients() const { return client_count_.load(std::memory_order_relaxed); }

 private:
  ShmServer(const ShmOptions& options, const ShmFacts& facts);
  absl::StatusOr<std::shared_ptr<ShmPeer>> Welcome(UniqueFd* socket,
                                                   std::vector<UniqueFd> fds) override;
  void SetPeers(const ShmPeers& peers) override;

  const ShmOptions options_;
  const ShmFacts facts_;
  std::vector<std::unique_ptr<ShmPoller>> pollers_;
  std::atomic<size_t> client_count_{0};
  std::unique_ptr<PeerListener> listener_;  // ends first
};

}  // namespace pulse::kv
