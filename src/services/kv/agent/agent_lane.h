// AgentLane: the agent's half of a lane (wire.h): what a loop of the agent hands over to the host,
// and the replies that come back. DPU-KV paper, section 4.3: what a turn of the loop has parsed is
// one transfer, and replies that are there leave in the same turn.
//
// Without a host, or once it is lost, flows are told so, and a link that is attached later is taken
// up by the same lane.
//
// Owned by the loop; all calls on its thread. Nothing blocks. The host is untrusted: what it writes
// is copied, and then checked; what makes no sense ends the link.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "channel/doorbell.h"
#include "channel/region.h"
#include "net/application.h"
#include "services/kv/agent/wire.h"
#include "services/redis/group_pacer.h"

namespace pulse::kv {

class AgentFlow;

// The memory that a loop shares with a host, and the ways to wake and to be woken. Made by another
// thread (link_keeper.h), which holds it, too, until the lane has let it go.
struct LaneLink {
  LaneFacts facts{};
  UniqueFd socket;
  Region region;
  Doorbell notify;  // the loop sleeps on it
  Doorbell kick;    // wakes the host's thread
  std::optional<QueuePair> requests;
  std::optional<QueuePair> replies;
  LaneHeader* header() { return reinterpret_cast<LaneHeader*>(region.data()); }
};

// Of all lanes of an agent.
struct LaneCounters {
  std::atomic<uint64_t> attached{0};   // lanes, now
  std::atomic<uint64_t> lost{0};       // times that one has lost its host
  std::atomic<uint64_t> transfers{0};  // of requests
  std::atomic<uint64_t> requests{0};   // handed over
  std::atomic<uint64_t> unknown{0};    // requests that the host was lost with
  std::atomic<uint64_t> refused{0};    // requests while there was no host
};

class AgentLane final : public net::LoopPeer {
 public:
  // `is_alone`: the loop has a CPU for itself, so that it may look for what comes, and hold back
  // what would wake the host often.
  AgentLane(net::EventLoop* loop, LaneCounters* counters, uint64_t max_reply, bool is_alone)
      : loop_(loop), counters_(counters), max_reply_(max_reply), is_alone_(is_alone) {}
  ~AgentLane() override;

  net::EventLoop* loop() const { return loop_; }
  void Attach(std::shared_ptr<LaneLink> link);
  // The host is gone, or the link is of no use.
  void Lose();
  bool attached() const { return link_ != nullptr && !broken_; }
  // Of the host, or of the last one there was.
  uint64_t max_bulk() const { return max_bulk_; }
  bool wants_auth() const { return wants_auth_; }
  LaneCounters& counters() { return *counters_; }

  // For flows. A number for a session; -1: there is none left.
  int32_t Enter(AgentFlow* flow);
  // The flow's session has ended here; `opened`: the host has heard of it, and is told; `closed`:
  // it has ended it, too.
  void Leave(int32_t session, bool opened, bool closed);
  // There is room again for the session's replies.
  void Resume(int32_t session) { controls_.push_back({session, LaneOp::kResume, false}); }
  // False: there is no room in this turn; then WaitForRoom.
  bool TrySend(int32_t session, LaneOp op, uint8_t flags, std::string_view key,
               std::string_view value);
  // A client has sent a request; after TrySend.
  void Count(redis::GroupPacer::Seen* seen) { pacer_.Count(loop_->now(), 1, seen); }
  // The flow's SendMore is called when there may be room.
  void WaitForRoom(AgentFlow* flow);
  void Forget(AgentFlow* flow);

  void Poll() override;
  void EndTurn() override;
  bool HasWork() override;
  void BeginSleep() override;
  void EndSleep() override;

 private:
  struct Place {
    AgentFlow* flow = nullptr;
    bool ending = false;  // the host has not said that it has ended
  };
  bool TakeReplies();
  bool TakeReply(const ResponseReader& reader, size_t index);
  void SendControls();
  void Submit();
  bool MustPace();
  void Break();

  net::EventLoop* const loop_;
  LaneCounters* const counters_;
  const uint64_t max_reply_;
  const bool is_alone_;
  redis::GroupPacer pacer_;
  size_t expected_ = 0;     // transfers of replies, about
  int64_t look_until_ = 0;  // for these
  std::shared_ptr<LaneLink> link_;
  std::shared_ptr<void> watch_;
  bool broken_ = false;
  uint64_t max_bulk_ = ~uint64_t{0};
  bool wants_auth_ = false;
  std::optional<RequestWriter> writer_;
  std::vector<Place> places_;
  std::vector<int32_t> free_;
  std::vector<AgentFlow*> waiting_;
  // What the host is to be told of sessions.
  struct Control {
    int32_t session;
    LaneOp op;
    bool closed;  // of kClose: the host has ended it, too
  };
  std::vector<Control> controls_;
};

}  // namespace pulse::kv
