// ShmAttachment: what the server has of one client: the memory that it made for it, a queue pair
// for each partition, and the ways to wake and to be woken.
//
// Ownership: the last holder's end gives the memory back. Threads: queue pair `p` and its doorbell
// are those of the poller `p % threads`; Ring and Break are for any. Nothing blocks. The client is
// untrusted (wire.h).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "channel/doorbell.h"
#include "channel/region.h"
#include "services/kv/processing.h"
#include "services/kv/shm/peer.h"
#include "services/kv/shm/wire.h"

namespace pulse::kv {

class ShmAttachment final : public ShmPeer {
 public:
  // `far`: the client's memory of `far_bytes` for values that fit into no buffer; checked.
  // `kick_rings`: for the client, the ring end of each thread's doorbell.
  static absl::StatusOr<std::shared_ptr<ShmAttachment>> Create(const ShmFacts& facts,
                                                               UniqueFd socket, UniqueFd notify,
                                                               UniqueFd far, uint64_t far_bytes,
                                                               std::vector<UniqueFd>* kick_rings);

  const ShmFacts& facts() const { return facts_; }
  int memory() const { return region_.fd(); }
  FarMemory far() const { return {far_.get(), far_bytes_}; }
  QueuePair& queue(uint32_t partition) { return queues_[partition]; }
  // Of its batches; used with the partition's lock.
  Lookahead& lookahead(uint32_t partition) { return lookaheads_[partition]; }
  Doorbell& kick(uint32_t thread) override { return kicks_[thread]; }
  // Wakes the client if it sleeps.
  void Ring() { notify_.Ring(); }

 private:
  ShmAttachment(const ShmFacts& facts, Region region, UniqueFd socket, UniqueFd notify,
                UniqueFd far, uint64_t far_bytes);
  ShmHeader* header() { return reinterpret_cast<ShmHeader*>(region_.data()); }

  const ShmFacts facts_;
  const Region region_;
  const UniqueFd far_;
  const uint64_t far_bytes_;
  Doorbell notify_;
  std::deque<QueuePair> queues_;
  std::vector<Lookahead> lookaheads_;
  std::vector<Doorbell> kicks_;
};

}  // namespace pulse::kv
