// UdpBatch: the datagrams that an endpoint has received together, as one batch of the engine for
// each partition (KvStore::RunRequests), and what is answered to each. No socket: the server moves
// the bytes, and tests and fuzzers give any.
//
// Add, until it returns false; Run; send replies(); Clear. The requests of one datagram, and of the
// datagrams of one client, take effect in the order of Add where they are for one key.
//
// Memory: kReplyBytes, and some for each request; bounded by kMostRequests. Threads: one. Blocking:
// Run waits for partitions. What makes no sense is refused or ignored, as wire.h says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/kv/core/batch.h"
#include "services/kv/store.h"
#include "services/kv/udp/codec.h"
#include "services/kv/udp/sessions.h"
#include "services/kv/udp/socket.h"

namespace pulse::kv {

// Written by one thread, read by any.
struct UdpStats {
  enum Counter {
    kDatagrams,  // of requests that were carried out, or answered again
    kRequests,   // in them
    kRepeats,    // datagrams that had come before
    kStale,      // datagrams that nobody waits for
    kRefused,    // datagrams that were answered by a refusal
    kIgnored,    // datagrams that were not answered
    kLost,       // datagrams of answers that could not be sent
    kBatches,    // that had at least one request
    kSessions,   // now
    kCounters
  };
  std::array<std::atomic<uint64_t>, kCounters> values{};
  void Add(Counter counter, uint64_t n = 1) { Set(counter, Get(counter) + n); }
  void Set(Counter counter, uint64_t n) { values[counter].store(n, std::memory_order_relaxed); }
  uint64_t Get(Counter counter) const { return values[counter].load(std::memory_order_relaxed); }
};

class UdpBatch {
 public:
  // Requests of a batch: it is full when the next datagram might have more.
  static constexpr size_t kMostRequests = 2048;
  static constexpr size_t kReplyBytes = size_t{2} << 20;
  struct Reply {
    const UdpPeer* peer;
    const char* bytes;
    size_t size;
  };

  // All outlive it. `facts` is what clients are told.
  UdpBatch(KvStore* store, const UdpWelcome* facts, const UdpCookies* cookies,
           UdpSessions* sessions, UdpStats* stats);

  // `datagram` and `peer` stay valid until Clear. False: it is full, and has not taken it.
  bool Add(const UdpPeer& peer, std::string_view datagram, int64_t now);
  void Run();
  // In the order in which they were made; valid until Clear.
  const std::vector<Reply>& replies() const { return replies_; }
  void Clear();

 private:
  // Requests that came together.
  struct Datagram {
    const UdpPeer* peer;
    UdpHeader header;        // of the answer
    UdpSession::Slot* slot;  // for a repeat; null: it has no writes, or they are known
    uint32_t count;
    uint32_t answered = 0;
    uint32_t record_bytes = 0;
    char* part = nullptr;  // the datagram of the answer that is being written
    char* at = nullptr;    // its end
    uint16_t in_part = 0;
    bool apart = false;  // it has a place of its own: others may be answered meanwhile
  };
  struct Ref {
    uint32_t datagram;
    uint16_t request;
  };
  // The requests for one partition.
  struct Lane {
    std::vector<BatchRequest> requests;
    std::vector<Ref> refs;
  };
  class Sink;

  bool Parse(std::string_view bytes, uint16_t count);
  bool HasRoom(const UdpHeader& header) const;
  void AddRequests(const UdpPeer& peer, const UdpHeader& header, std::string_view bytes,
                   UdpSession* session);
  void Greet(const UdpPeer& peer, UdpHeader header, std::string_view bytes, int64_t now);
  void Refuse(const UdpPeer& peer, UdpHeader header, UdpRefusal why);
  void AnswerHeader(const UdpPeer& peer, const UdpHeader& header, std::string_view body = {});
  static size_t MostAnswerBytes(const UdpHeader& header, size_t gets);
  void Answer(const Ref& ref, WireOp op, WireStatus status, std::string_view value);
  void OpenPart(Datagram* d);
  void ClosePart(Datagram* d);

  KvStore* const store_;
  const UdpWelcome* const facts_;
  const UdpCookies* const cookies_;
  UdpSessions* const sessions_;
  UdpStats* const stats_;
  std::unique_ptr<char[]> bytes_;  // of the answers
  char* end_;                      // of what is written there
  size_t promised_ = 0;            // bytes that what was added may take
  size_t request_count_ = 0;
  std::vector<Datagram> datagrams_;
  std::vector<Lane> lanes_;
  std::vector<UdpCommand> commands_;  // of the datagram that is being added
  std::vector<Reply> replies_;
};

}  // namespace pulse::kv
