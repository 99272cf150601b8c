// UdpEndpoint: a client's half of the datagrams of one partition (services/kv/udp/wire.h): collects
// requests, numbers and repeats datagrams, and gives their answers out. It has a socket, but reads
// no clock and never waits: its owner does both.
//
// Threads: one. The server is untrusted: an answer to nothing that was asked is ignored.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/unique_fd.h"
#include "pulse/kv_udp_client.h"
#include "services/kv/udp/codec.h"
#include "services/kv/udp/socket.h"

namespace pulse::kv {

inline constexpr int64_t kUdpMillisecond = 1'000'000;  // in nanoseconds

class UdpEndpoint {
 public:
  using Complete = absl::FunctionRef<void(const KvUdpCompletion&)>;
  // `socket` is connected. `nonce` is random.
  UdpEndpoint(const KvUdpOptions& options, std::string name, UniqueFd socket, uint64_t nonce);

  // --- The greeting, until it is open, and again when the server has forgotten this client.
  enum class State {
    kGreeting,
    kOpen,
    kOther,  // the server is not the one that was greeted before: it has been started anew
  };
  State state() const { return state_; }
  // Why it has not been taken, as far as is known.
  std::optional<UdpRefusal> refusal() const { return refusal_; }
  // Once it was open.
  const UdpWelcome& facts() const { return facts_; }

  // --- Requests.
  // Whether it would begin a datagram: else Submit needs no time.
  bool Begins(const UdpCommand& command) const { return !collecting() || !Fits(command); }
  // False: as many are under way as may be.
  bool Submit(const UdpCommand& command, uint64_t tag, int64_t now);
  // Datagrams that are full and were not sent.
  size_t unsent() const { return unsent_; }
  // Sends what is due at `now`: hellos, full datagrams and repeats; with `flush` those that are not
  // full, too.
  void Send(int64_t now, bool flush);
  // What has no answer by now is kTimeout.
  void Expire(int64_t now, Complete complete);
  // All that is under way is kLost.
  void Lose(Complete complete);
  // When Send or Expire has something to do next; INT64_MAX: nothing.
  int64_t NextAt() const;

  // --- Answers.
  // A datagram has come. True: it has responses, which TakeNext gives out before the next one.
  bool Take(std::string_view datagram, int64_t now);
  // The next response, whose value is a view of the datagram; false when there is none left.
  bool TakeNext(KvUdpCompletion* completion);

  size_t outstanding() const { return outstanding_; }
  int socket() const { return socket_.get(); }
  const std::string& name() const { return name_; }
  const KvUdpStats& stats() const { return stats_; }

 private:
  // A datagram of requests.
  struct Flight {
    uint64_t sequence = 0;
    std::string bytes;  // begins with room for the header
    std::vector<uint64_t> tags;
    std::vector<char> answered;
    size_t left = 0;      // requests without an answer
    int64_t sent_at = 0;  // for the first time
    int64_t next_at = 0;  // when it is to be sent
    int64_t deadline = 0;
    int sends = 0;
    bool in_use = false;
    bool writes = false;
  };
  // A read whose value found no room beside the others.
  struct Again {
    std::string record;
    uint64_t tag;
    int64_t deadline;
    size_t answer_bytes;  // as its value was when it was asked for
  };
  Flight& FlightOf(uint64_t sequence) { return flights_[sequence % kUdpWindow]; }
  bool collecting() const { return !building_.tags.empty(); }
  // Beside what is in the datagram that is being filled.
  bool Fits(const UdpCommand& command) const;
  bool HasSlot() const;
  void Seal(Flight* flight);
  void SealBuilding();
  void SealAgain();
  void SendFlight(Flight* flight, uint64_t sequence, int64_t now);
  void SendHello(int64_t now);
  int64_t WaitFor(int sends) const;
  void TakeWelcome(const UdpHeader& header, std::string_view datagram);
  void TakeRefusal(const UdpHeader& header, int64_t now);
  bool MayFitAlone(const Flight& flight, const UdpAnswer& answer, uint64_t value_size) const;
  void AskAgain(const Flight& flight, size_t request, uint64_t value_size);
  void End(Flight* flight, KvUdpCode code, Complete complete);
  void EndAll(KvUdpCode code, int64_t until, Complete complete);
  void Advance();

  const KvUdpOptions options_;
  const std::string name_;
  const UniqueFd socket_;
  const uint64_t nonce_;
  const UdpPeer connected_{};
  UdpSender sender_;
  KvUdpStats stats_;

  State state_ = State::kGreeting;
  int64_t heard_at_ = 0;    // of the session
  bool has_moved_ = false;  // the session is there, of the address that this client had
  std::optional<UdpRefusal> refusal_;
  std::string hello_;
  uint64_t cookie_ = 0;
  int64_t hello_at_ = 0;  // when it is due
  int hellos_ = 0;
  UdpWelcome facts_{};
  uint64_t session_ = 0;

  Flight building_;
  size_t building_answer_ = 0;  // bytes that its answers are expected to have
  size_t usual_answer_ = 0;     // bytes of an answer to a read, smoothed
  std::array<Flight, kUdpWindow> flights_;
  uint64_t next_ = 1;   // number of the next datagram
  uint64_t floor_ = 1;  // the lowest that is in use, or next_
  size_t unsent_ = 0;
  size_t outstanding_ = 0;
  std::deque<Again> again_;
  int64_t smoothed_ = 0;  // nanoseconds that an answer takes
  uint32_t jitter_;

  // The responses that are handed out.
  UdpResponseReader reader_;
  uint64_t reading_ = 0;
  int64_t read_at_ = 0;
};

}  // namespace pulse::kv
