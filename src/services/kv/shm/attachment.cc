#include "services/kv/shm/attachment.h"

#include <new>
#include <utility>

#include "base/errors.h"

namespace pulse::kv {

absl::StatusOr<std::shared_ptr<ShmAttachment>> ShmAttachment::Create(
    const ShmFacts& facts, UniqueFd socket, UniqueFd notify, UniqueFd far, uint64_t far_bytes,
    std::vector<UniqueFd>* kick_rings) {
  PULSE_ASSIGN_OR_RETURN(Region region, Region::CreateShared(facts.bytes()));
  std::shared_ptr<ShmAttachment> made(new ShmAttachment(
      facts, std::move(region), std::move(socket), std::move(notify), std::move(far), far_bytes));
  for (uint32_t thread = 0; thread < facts.threads; ++thread) {
    PULSE_ASSIGN_OR_RETURN(Doorbell::Ends ends, Doorbell::CreatePair());
    kick_rings->push_back(std::move(ends.ring));
    made->kicks_.emplace_back(std::move(ends.sleep),
                              &made->header()->server_sleeping[thread].value);
  }
  return made;
}

ShmAttachment::ShmAttachment(const ShmFacts& facts, Region region, UniqueFd socket, UniqueFd notify,
                             UniqueFd far, uint64_t far_bytes)
    : ShmPeer(std::move(socket)),
      facts_(facts),
      region_(std::move(region)),
      far_(std::move(far)),
      far_bytes_(far_bytes),
      lookaheads_(facts.partitions) {
  new (region_.data()) ShmHeader{.facts = facts, .client_waiting = {}, .server_sleeping = {}};
  notify_ = Doorbell(std::move(notify), &header()->client_waiting.value);
  for (uint32_t partition = 0; partition < facts.partitions; ++partition) {
    queues_.emplace_back(facts.queue(), region_.data() + ShmQueueOffset(facts, partition));
  }
}

}  // namespace pulse::kv
