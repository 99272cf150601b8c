// ProxyClient: a client's connection that the application looks at. Splits its bytes into requests,
// gives them to the flow, and keeps the replies' order. One loop's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/application.h"
#include "net/host_link.h"
#include "net/loop.h"
#include "net/poller.h"
#include "net/ring.h"
#include "net/transport.h"

namespace pulse::net {

class ClientRemote;

// Of an unfinished message, that is counted at once.
inline constexpr size_t kAlwaysAllowed = size_t{16} << 10;
// As long as others wait for the room that a client's message and replies have.
inline constexpr int64_t kSlowestForOthersPerMs = 128;

class ProxyClient final : public Client, public Connection, private StreamEvents {
 public:
  explicit ProxyClient(Loop* loop);
  ~ProxyClient() override;
  // With an error, the client is told it and nothing else.
  void Start(UniqueFd fd, const absl::Status& refusal);
  void Start(LocalOffer* offer, const absl::Status& refusal);

  void EndTurn() override;
  void Sweep(int64_t now) override;
  void Drain() override;

  void Forward(Ticket ticket, std::string_view bytes, uint32_t replies) override;
  void Reply(Ticket ticket, std::string_view bytes) override;
  void Reply(Ticket ticket, Buffer bytes) override;
  bool ReplyPart(Ticket ticket, std::string_view bytes) override;
  bool Push(std::string_view bytes) override;
  void Close(std::string_view last_words) override;
  Ticket AnotherTicket() override;
  std::shared_ptr<Remote> remote() override;
  BufferPool* buffers() override { return loop_->buffers(); }
  EventLoop* loop() override { return loop_; }
  size_t outstanding() const override { return unanswered_; }
  size_t unsent() const override { return Output(); }
  std::shared_ptr<ByteBudget> budget() override { return loop_->shared().budget; }
  bool MayExceed() override;
  const std::string& peer() const override { return peer_; }
  std::string local() const override;

 private:
  friend class ClientRemote;
  friend class HostLink;
  enum class State {
    kOpen,
    kAnswering,  // nothing more is taken; what was taken is answered
    kFlushing,   // all is answered; it is being sent
    kLingering,  // sent, and the end of the stream too: until the client ends its side
    kDead,
  };
  struct Slot {
    enum class State : uint8_t { kOpen, kForwarded, kDone };
    State state = State::kOpen;
    std::string text;  // goes before the buffer
    Buffer buffer;
  };

  size_t MostBytes() override;
  void OnBytes(std::string_view bytes) override;
  void OnEnd() override;
  void OnError(int error) override;
  void OnSent() override;

  // For the link to the host. Whether there is room for what the host says to `ticket`.
  bool TakesReplies(Ticket ticket);
  void HostReplied(Ticket ticket, std::string_view bytes, bool last);
  // Something happened: EndTurn is due.
  void Stirred() { loop_->Touch(this); }

  void Begin(const absl::Status& refusal);
  void Take(std::string_view bytes);
  void Keep(std::string_view bytes);
  size_t Split(std::string_view bytes);
  size_t GiveRequests(std::string_view bytes);
  bool SplitOne(std::string_view bytes, size_t* size);
  bool MayTake();
  void TakeKept();
  // Whether the message under way may grow, or has to wait for room.
  bool MayGrow();
  size_t Unsplit() const;
  bool WantsRoom() const;
  bool HasTurn();
  void NoteTurn(int64_t now);
  void NoteLack();
  void EndTurnInLine();
  bool WaitsWithMore() const;
  bool HasUnread() const;
  bool OthersWantRoom() const;
  bool OthersWait() const;
  bool HoldsRoomOthersNeed(int64_t now);
  bool IsTooSlowForOthers(int64_t now);
  void EndForOthers();
  size_t Held() const;
  void Refuse(const absl::Status& error);
  void BeginFinish(std::string last_words);

  Slot* Find(Ticket ticket, Slot::State state);
  bool IsNext(Ticket ticket) const;
  // Sends the bytes, or keeps them until it is the slot's turn.
  void Put(Ticket ticket, Slot* slot, std::string_view bytes);
  void Done(Slot* slot);
  void Advance();
  void Emit(std::string_view bytes);
  void Emit(Buffer buffer);
  void TellLost();
  void Progress();
  void NoteTaken(int64_t now);
  size_t Output() const;
  void Die(bool cut);

  Loop* const loop_;
  const Ordering ordering_;
  StreamPtr stream_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Flow> flow_;
  std::unique_ptr<HostLink> link_;
  std::shared_ptr<ClientRemote> remote_;
  std::string peer_;
  State state_ = State::kOpen;
  bool ended_ = false;                              // the client has ended its side
  bool mute_ = false;                               // TLS has failed: nothing is sent any more
  bool lingers_ = true;                             // see kLingering
  bool need_more_ = true;                           // in_ holds no whole message
  bool paused_ = false;                             // the client is not read
  std::optional<ByteBudget::Place> place_in_line_;  // it waits for room, or is first
  bool lacks_ = false;                              // what NoteLack has told
  bool used_turn_ = false;                          // its message is whole, or its reply is made
  bool has_exceeded_ = false;                       // in this turn, for a reply
  int64_t turn_since_ = 0;                          // it is first; 0: not yet
  size_t turn_bytes_ = 0;                           // the most that it has held since
  bool telling_closed_ = false;                     // the flow is in OnHostClosed
  std::string in_;
  size_t in_begin_ = 0;
  Ring<Slot> slots_;
  Ticket next_ticket_ = 1;
  Ticket current_ = 0;  // the one that is being given
  size_t unanswered_ = 0;
  size_t slot_bytes_ = 0;  // in slots, until their turn
  std::string last_words_;
  int64_t began_at_ = 0;
  int64_t active_at_ = 0;  // last byte either way
  int64_t sent_at_ = 0;    // last byte that left, or that found nothing before it
  int64_t taken_at_ = 0;   // the same, or when the client had taken some of it last
  int kernel_holds_ = 0;   // of what left, bytes that the client has not taken, when last looked at
  int64_t kernel_gave_ = 0;  // that it has taken, since this was progress
  int64_t gave_others_ = 0;  // the same, for taken_at_
  int64_t heard_at_ = 0;     // last time that it had sent some bytes more than a few
  int64_t heard_ = 0;        // bytes since
  int64_t message_since_ = 0;
  int64_t deadline_ = 0;  // of the end
};

}  // namespace pulse::net
