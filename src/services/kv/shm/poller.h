// ShmPoller: carries out the requests of all shared-memory clients on a share of the partitions, on
// a PeerPoller's thread. Each client has one batch of a partition carried out in a turn, so that
// none keeps the others waiting.
//
// Threads: as PeerPoller.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "services/kv/shm/attachment.h"
#include "services/kv/shm/peer_poller.h"
#include "services/kv/store.h"

namespace pulse::kv {

class ShmPoller final : public PeerWork {
 public:
  // Serves the partitions p with p % threads == number.
  struct Options {
    uint32_t number = 0;
    uint32_t threads = 1;
    int64_t spin_nanos = 0;
    std::vector<int> cpus = {};  // empty: any
  };
  static absl::StatusOr<std::unique_ptr<ShmPoller>> Start(KvStore* store, const Options& options);

  // ShmAttachments.
  void SetClients(const ShmPeers& clients) { thread_->SetPeers(clients); }

 private:
  ShmPoller(KvStore* store, const Options& options);
  size_t Serve(const ShmPeers& clients) override;
  bool HasWork(const ShmPeers& clients) override;
  bool ServeQueue(ShmAttachment* client, uint32_t partition);

  KvStore* const store_;
  const Options options_;
  const uint32_t partitions_;
  std::unique_ptr<PeerPoller> thread_;  // ends first
};

}  // namespace pulse::kv
