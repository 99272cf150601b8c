// HostLink: a client connection's own connection to the host. Opened at the first Forward, and at
// the next one after it was lost; its preface goes first. One loop's. It destroys nothing and calls
// no OnHostLost from within an event: its owner asks for what was lost at the end of its turn.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "net/application.h"
#include "net/loop.h"
#include "net/poller.h"
#include "net/ring.h"

namespace pulse::net {

class ProxyClient;

class HostLink final : private StreamEvents {
 public:
  struct Lost {
    Ticket ticket;
    bool sent;
  };
  HostLink(Loop* loop, ProxyClient* owner) : loop_(loop), owner_(owner) {}
  ~HostLink() override { Drop(); }

  // Queues a request. False where the host cannot be reached: the ticket is among the lost.
  bool Send(Ticket ticket, std::string_view bytes, uint32_t replies);
  // Bytes that wait for the host to take them.
  size_t pending() const;
  size_t held() const;
  // Goes on with replies that were kept back, sends, and sets whether the host is read.
  void EndTurn();
  // There is room again since the last EndTurn.
  bool WantsTurn();
  void Sweep(int64_t now);
  // Since the last call. No other connection begins before all that was lost is told.
  std::vector<Lost> TakeLost();
  // The connection that had been there is gone, and that was not told.
  bool closed() const { return closed_; }
  void AcknowledgeClosed() { closed_ = false; }
  bool has_lost() const { return !lost_.empty() || closed_; }
  // What was queued since is not sent, but lost, too. Only while closed().
  void Forget() { Drop(); }

 private:
  enum class State { kNone, kConnecting, kPreface, kReady };
  struct Sent {
    Ticket ticket = 0;
    uint32_t replies = 0;
    uint64_t begin = 0;  // in the stream of all bytes for this connection
  };

  void Connect();
  void Begin();
  void TryConnect();
  void ConnectLocal();
  void Connected();
  void Opened();
  void Ready();
  void Append(std::string_view bytes);
  // Gives whole messages away; returns how many bytes that took.
  size_t Take(std::string_view bytes);
  bool TakesReplies();
  bool TakeOne(std::string_view message);
  void Fail(const absl::Status& why);
  void Reject(const absl::Status& why);
  void Drop();

  void OnBytes(std::string_view bytes) override;
  void OnEnd() override;
  void OnError(int error) override;
  void OnSent() override;

  Loop* const loop_;
  ProxyClient* const owner_;
  State state_ = State::kNone;
  StreamPtr stream_;
  UniqueFd connecting_;
  WatchPtr connected_;
  int64_t connect_deadline_ = 0;
  std::string waiting_;  // for the connection and its preface
  std::string in_;       // an unfinished message, or what there was no room for
  bool kept_back_ = false;
  bool reads_ = false;
  bool ended_ = false;
  bool due_ = false;  // a connection is to begin at the end of the turn
  uint32_t preface_replies_ = 0;
  bool preface_taken_ = false;  // the first of them
  uint64_t queued_ = 0;         // bytes ever queued on this connection, the preface's too
  Ring<Sent> sent_;
  std::vector<Lost> lost_;
  bool closed_ = false;
};

}  // namespace pulse::net
