// The sessions of a UDP endpoint, and the cookies that come before them. A session is a client's
// address that has been proved, and what became of its last writes, so that a datagram that comes
// twice is carried out once (wire.h).
//
// Memory: at most BytesFor(most). Threads: one. Nothing blocks. A session stays valid until the
// next call of Open.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/kv/udp/socket.h"
#include "services/kv/udp/wire.h"

namespace pulse::kv {

// A keyed hash of 64 bits that cannot be forged without the key: SipHash-2-4.
struct SipKey {
  uint64_t first;
  uint64_t second;
};
uint64_t SipHash(const SipKey& key, std::string_view bytes);
SipKey DrawSipKey();

// Proves that a client gets what is sent to its address. Never 0.
class UdpCookies {
 public:
  explicit UdpCookies(const SipKey& key = DrawSipKey()) : key_(key) {}
  uint64_t Of(const UdpPeer& peer) const {
    const uint64_t hash = SipHash(key_, peer.bytes());
    return hash == 0 ? 1 : hash;
  }

 private:
  const SipKey key_;
};

class UdpSession {
 public:
  // What came of a datagram that had writes.
  struct Slot {
    uint64_t sequence = 0;
    std::string statuses;  // a byte for each request; those of reads say nothing
    bool pending = false;  // it is being carried out
  };
  enum class Turn {
    kNew,
    kRepeat,  // its writes were carried out: SlotOf has what came of them
    kStale,   // nobody waits for it any more, or it is being carried out
  };
  // Of a datagram whose numbers make sense: see Fits.
  Turn Begin(uint64_t sequence, uint64_t floor);
  static bool Fits(uint64_t sequence, uint64_t floor) {
    return floor > 0 && floor <= sequence && sequence - floor < kUdpWindow;
  }
  // Of a new datagram that has writes: remembers it, as pending.
  Slot* Remember(uint64_t sequence, size_t requests);
  const Slot& SlotOf(uint64_t sequence) const { return slots_[sequence % kUdpWindow]; }
  uint64_t id() const { return id_; }

 private:
  friend class UdpSessions;

  uint64_t id_ = 0;
  uint64_t nonce_ = 0;
  UdpPeer peer_;
  int64_t used_at_ = 0;
  uint64_t floor_ = 0;
  std::array<Slot, kUdpWindow> slots_;
};

class UdpSessions {
 public:
  explicit UdpSessions(size_t most, const SipKey& key = DrawSipKey()) : most_(most), key_(key) {}
  static uint64_t BytesFor(size_t most) {
    return most * (sizeof(UdpSession) + 128 + uint64_t{kUdpWindow} * (kUdpMostRequests + 32));
  }
  // The session of a client whose address is proved: the one that it has with this nonce, or a new
  // one in its place. Null: there are as many as there may be, and all were used lately.
  UdpSession* Open(const UdpPeer& peer, uint64_t nonce, int64_t now);
  // Null: there is none, or it is another address's.
  UdpSession* Find(uint64_t id, const UdpPeer& peer, int64_t now);
  size_t size() const { return by_peer_.size(); }

 private:
  static constexpr uint64_t kIndexBits = 16;
  UdpSession* Place();

  const size_t most_;
  const SipKey key_;
  uint64_t opened_ = 0;
  std::vector<std::unique_ptr<UdpSession>> sessions_;
  absl::flat_hash_map<std::string, size_t> by_peer_;
  int64_t now_ = 0;
};

}  // namespace pulse::kv
