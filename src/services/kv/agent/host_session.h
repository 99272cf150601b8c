// HostSession: a client's connection to an agent, as the host's flows see a connection: requests
// come from a lane, and replies go there.
//
// Owned by its HostLane, whose thread calls it; remote() is for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/application.h"
#include "net/ring.h"
#include "services/kv/agent/wire.h"
#include "services/redis/host_flow.h"

namespace pulse::kv {

class HostLane;

class HostSession final : public net::Connection {
 public:
  HostSession(HostLane* lane, uint16_t number, std::string peer, std::string local);
  ~HostSession() override;
  // With an error: the client is told it, and no flow is made.
  void Begin(bool other_protocol, std::string_view refusal);

  // A piece of a request. False: it makes no sense.
  bool Take(LaneOp op, std::string_view bytes, bool more);
  // As SplitFlow's, of a session whose client takes its replies.
  redis::SplitFlow::Idle WhileIdle();
  // To a request that the flow has not been given.
  void ReplyToNext(std::string_view bytes) { Reply(next_ticket_++, bytes); }
  void Resume();
  // The agent has ended it. True: both sides have.
  bool EndByAgent();

  // The end of a turn in which something happened to it. True: it is over, and may go.
  bool EndTurn();
  // Sends what waits for room, as far as there is any, a piece at a time. True: nothing is left.
  bool SendPiece();
  // Bytes of whole requests, and of replies, that it keeps.
  size_t held() const;

  void Forward(net::Ticket ticket, std::string_view bytes, uint32_t replies) override;
  void Reply(net::Ticket ticket, std::string_view bytes) override;
  void Reply(net::Ticket ticket, net::Buffer bytes) override;
  bool Push(std::string_view bytes) override;
  void Close(std::string_view last_words) override;
  std::shared_ptr<net::Remote> remote() override;
  net::BufferPool* buffers() override { return nullptr; }
  size_t outstanding() const override { return next_ticket_ - 1 - answered_; }
  // All that was sent is not taken, as far as it is known, until the agent says so.
  size_t unsent() const override;
  const std::string& peer() const override { return peer_; }
  std::string local() const override { return local_; }

 private:
  friend class HostLane;
  class Remote;
  struct Piece {
    size_t size = 0;
    uint8_t flags = 0;
    bool closed = false;
  };
  void Send(LaneStatus status, uint8_t flags, std::string_view bytes);
  void SendPieces(uint8_t flags, std::string_view bytes);
  void CloseWithError(std::string_view error);
  void DropIncoming();
  // What it holds, in the lane's sums.
  void Count();

  HostLane* const lane_;
  const uint16_t number_;
  const std::string peer_;
  const std::string local_;  // the agent's end
  std::shared_ptr<Remote> remote_;
  std::unique_ptr<net::Flow> flow_;
  redis::SplitFlow* split_ = nullptr;  // flow_, of Redis's protocol
  net::Ticket next_ticket_ = 1;
  net::Ticket answered_ = 0;
  std::string incoming_;  // pieces of a request that is not whole
  bool given_ = false;    // requests, in this turn
  std::string out_;       // replies that found no room
  size_t out_at_ = 0;
  net::Ring<Piece> pieces_;  // of out_
  uint64_t sent_ = 0;        // bytes, since the agent has said that there is room
  bool paused_ = false;
  bool closing_ = false;      // no flow any more
  bool closed_sent_ = false;  // kClosed is on its way
  bool closed_by_agent_ = false;
  bool touched_ = false;
  bool waits_ = false;
  uint64_t counted_ = 0, counted_paused_ = 0;  // in the lane's bytes
};

}  // namespace pulse::kv
