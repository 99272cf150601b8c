// AgentFlow: a client's connection at an agent of its own (`pulse agent --serve-kv`). It finds the
// requests and their arguments, hands them over to the host by its loop's lane, and gives the
// replies to the client.
//
// The host's session begins with the first request. GET, SET and DEL of Redis's protocol cross as
// descriptors of their own, all else as commands, whose replies the host makes. A connection's
// first bytes tell its protocol, as on the store's own port.
//
// The host lost: requests that it was given are answered by an error that says that they may have
// been carried out, later ones by -LOADING until there is a host. What makes up a connection's
// state (AUTH, HELLO, CLIENT SETNAME and SETINFO) is repeated to the next host before its next
// request; a connection in MULTI or WATCH ends, as half a transaction must not run, and so does one
// whose state is too long to be kept; one that tracks, as it may have missed what has changed, or
// has subscribed; and one that does without replies (CLIENT REPLY), as it would take errors for
// others.
//
// Threads: the loop's, as net::Flow.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/application.h"
#include "net/ring.h"
#include "services/kv/agent/agent_lane.h"
#include "services/kv/memcached/codec.h"
#include "services/redis/commands/codec.h"
#include "services/redis/commands/commands.h"

namespace pulse::kv {

class AgentFlow final : public net::Flow {
 public:
  AgentFlow(AgentLane* lane, const redis::Limits& limits, net::Connection* connection);
  ~AgentFlow() override;

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override;
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override;
  void OnRequest(net::Ticket ticket, std::string_view bytes) override;
  size_t held() const override { return held_ + partial_.capacity(); }
  size_t expected() const override { return redis_.expected() + memcached_.expected(); }
  void OnRoom() override;
  bool waits_for_room() const override { return owes_resume_; }
  std::string OnHostLost(net::Ticket ticket, bool sent) override;
  std::string ErrorReply(const absl::Status& error) override;

  // Of its lane. False: it makes no sense.
  bool OnReply(std::string_view bytes, uint8_t flags, uint64_t max_reply);
  void OnClosed(std::string_view last_words);
  void OnLost();
  // Sends a fragment's worth of what found no room. True: it has sent some, and has more.
  bool SendMore();

 private:
  enum class Protocol : uint8_t { kUndecided, kRedis, kMemcached };
  enum class Kind : uint8_t {
    kPlain,
    kSetup,   // sets some of the connection's state
    kReset,   // as RESET does: all of that is gone
    kBegins,  // MULTI, WATCH: what follows belongs together, and cannot be repeated
    kEnds,    // EXEC, DISCARD
    kTracks,  // CLIENT TRACKING ON, SUBSCRIBE
    kTracksNot,
    kSilences,  // CLIENT REPLY OFF, SKIP
    kSpeaks,
    kSilent,   // memcached's noreply
    kRepeated  // a setup command that the client has an answer to already
  };
  // A request that the host has not answered.
  struct Expected {
    net::Ticket ticket = 0;
    uint64_t bytes = 0;
    Kind kind = Kind::kPlain;
    bool begun = false;  // the host has some of it
    bool whole = false;  // ... has all of it
  };
  // What a connection is in: as of the last answer, and by the last request for it, which may have
  // no answer yet.
  struct Mode {
    bool on = false;
    uint64_t asked = 0;  // the number of that request, of sent_; 0: none
  };
  // A request, or what is left of it, that found no room.
  struct Queued {
    LaneOp op{};
    uint8_t flags = 0;
    size_t key_size = 0;  // 0 of one that crosses in pieces
    size_t sent = 0;
    std::string bytes;     // key and value
    uint64_t request = 0;  // its number, of sent_; 0: of the opening
  };
  struct Setup {
    std::string what;   // it sets: a later one of the same takes its place
    std::string split;  // the request
    uint64_t number = 0;
    bool authenticates = false;
    bool accepted = false;
  };

  void OnRedisRequest(net::Ticket ticket, std::string_view bytes);
  void OnMemcachedRequest(net::Ticket ticket, std::string_view bytes);
  Kind KindOf(const redis::CommandInfo& command, std::string* what, bool* authenticates) const;
  void Expect(net::Ticket ticket, uint64_t bytes, Kind kind);
  void Send(LaneOp op, std::string_view key, std::string_view value);
  void WaitForRoom();
  bool EnsureSession();
  void Refuse(net::Ticket ticket, std::string_view bytes);
  void Answered(const Expected& request, std::string_view reply);
  bool OnPush(std::string_view bytes, uint8_t flags);
  void EndSession();
  bool IsStranger() const;
  // Whether the host may have the connection in it: who was not answered may have been heard.
  bool MayBe(const Mode& mode) const { return mode.on || mode.asked > sent_ - expected_.size(); }

  AgentLane* const lane_;
  net::Connection* const connection_;
  const uint64_t most_bulk_;
  redis::RequestSplitter redis_;
  memcached::RequestSplitter memcached_;
  Protocol protocol_ = Protocol::kUndecided;
  redis::Request request_;
  std::string scratch_;
  int32_t session_ = -1;
  bool closed_ = false;   // by the host
  bool drops_ = false;    // what the host still says
  bool waiting_ = false;  // in the lane's list
  bool owes_resume_ = false;
  redis::GroupPacer::Seen paced_;
  net::Ring<Expected> expected_;
  uint64_t sent_ = 0;  // requests, ever; expected_ are the last ones of them
  Mode within_;        // what belongs together
  Mode tracks_;        // or has subscribed
  Mode silent_;
  net::Ring<Queued> queued_;
  std::vector<Setup> setups_;
  std::string partial_;   // pieces of a reply, or of a message
  size_t pushed_ = 0;     // bytes of messages, since the last kResume
  bool pushing_ = false;  // partial_ is of a message
  uint64_t held_ = 0;
};

}  // namespace pulse::kv
