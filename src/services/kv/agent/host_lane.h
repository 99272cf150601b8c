// HostLane: the host's half of a lane (wire.h): the sessions of one loop of an agent, whose
// requests it gives to the flows that `pulse kv` has for its own connections, and whose replies it
// sends.
//
// Ownership: as ShmPeer. The flows end in Leave. Threads: the thread of its PeerPoller, but for
// what ShmPeer says. Nothing blocks.
//
// The agent is untrusted: what it writes is copied, and then checked. What makes no sense cuts the
// agent off. What one session has on its way, and what all sessions of a lane have, is bounded.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "channel/region.h"
#include "net/mailbox.h"
#include "services/kv/agent/host_session.h"
#include "services/kv/agent/reply_packer.h"
#include "services/kv/agent/wire.h"
#include "services/kv/shm/peer.h"
#include "services/redis/host_flow.h"

namespace pulse::kv {

// What all lanes of a server share.
struct LaneShared {
  redis::HostApplication* application = nullptr;  // outlives the lanes
  uint32_t most_sessions = 10000;                 // of all lanes together
  uint64_t lane_bytes = 0;   // of requests and replies on their way in a lane; one always fits
  uint64_t max_message = 0;  // of one request
  std::atomic<uint32_t> sessions{0};
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> transfers{0};  // of requests
};

class HostLane final : public ShmPeer {
 public:
  // `mailbox`: of the thread. `kick_ring`: for the agent, the ring end of the thread's doorbell.
  static absl::StatusOr<std::shared_ptr<HostLane>> Create(LaneShared* shared,
                                                          std::shared_ptr<net::Mailbox> mailbox,
                                                          UniqueFd socket, UniqueFd notify,
                                                          UniqueFd* kick_ring);
  ~HostLane() override;

  static LaneFacts FactsOf(const LaneShared& shared);
  const LaneFacts& facts() const { return facts_; }
  int memory() const { return region_.fd(); }
  Doorbell& kick(uint32_t thread) override { return kick_; }

  // Takes at most one transfer, and sends what there is. Returns how many requests it has taken,
  // and replies of other threads that it has sent.
  size_t Serve();
  bool HasWork();
  // Ends all sessions.
  void Leave();

 private:
  friend class HostSession;
  HostLane(LaneShared* shared, const LaneFacts& facts, std::shared_ptr<net::Mailbox> mailbox,
           Region region, UniqueFd socket, UniqueFd notify);
  LaneHeader* header() { return reinterpret_cast<LaneHeader*>(region_.data()); }

  size_t TakeRequests();
  // False: it makes no sense.
  bool Take(const char* buffer, const RequestDescriptor& descriptor);
  // A GET, SET or DEL. GETs and SETs of sessions that have nothing else under way are collected
  // (true), and RunPlain carries them out together; TakeWords gives one to its session.
  bool TakePlain(HostSession* session, LaneOp op, std::string_view key, std::string_view value);
  bool TakeWords(HostSession* session, LaneOp op, std::string_view key, std::string_view value);
  void RunPlain();
  bool TakeOpen(uint32_t number, std::string_view peer, std::string_view local, uint8_t flags);
  void EndTurn();
  // For sessions, see HostSession.
  bool TrySend(uint16_t session, LaneStatus status, uint8_t flags, std::string_view bytes);
  void Touch(HostSession* session);
  void WaitForRoom(HostSession* session);
  // Of those that are not being closed.
  HostSession* LargestPaused();
  bool OpenPacker();
  void Submit();
  void Broken();

  LaneShared* const shared_;
  const LaneFacts facts_;
  const std::shared_ptr<net::Mailbox> mailbox_;
  const Region region_;
  Doorbell notify_;
  Doorbell kick_;
  QueuePair requests_;  // the agent submits
  QueuePair replies_;   // the host does
  std::optional<ReplyPacker> packer_;
  std::vector<std::unique_ptr<HostSession>> sessions_;  // by number
  static constexpr uint32_t kMostRefused = 4096;
  uint32_t kept_sessions_ = 0;  // of sessions_ those that are there
  std::vector<HostSession*> touched_;
  std::vector<HostSession*> waiting_;  // have replies that found no room
  std::string scratch_;
  redis::PlainBatch plain_;
  struct PlainOwner {
    HostSession* session;
    const redis::Session* of_flow;
  };
  std::vector<PlainOwner> plain_of_;           // by entry
  redis::Executor* plain_executor_ = nullptr;  // of them all
  uint64_t held_ = 0;         // bytes of whole requests, and of replies that found no room
  uint64_t held_paused_ = 0;  // ... of clients that do not take their replies
  uint64_t assembling_ = 0;   // ... of requests that are not whole
  size_t sent_ = 0;           // replies of this turn
  bool gave_back_ = false;
  bool broken_ = false;
};

}  // namespace pulse::kv
