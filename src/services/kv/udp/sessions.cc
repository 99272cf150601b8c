#include "services/kv/udp/sessions.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>

namespace pulse::kv {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;
  void Rounds(int count) {
    for (; count > 0; --count) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }
  void Take(uint64_t word) {
    v3 ^= word;
    Rounds(2);
    v0 ^= word;
  }
};

}  // namespace

uint64_t SipHash(const SipKey& key, std::string_view bytes) {
  SipState s{key.first ^ 0x736f6d6570736575, key.second ^ 0x646f72616e646f6d,
             key.first ^ 0x6c7967656e657261, key.second ^ 0x7465646279746573};
  uint64_t last = uint64_t{bytes.size()} << 56;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    s.Take(word);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    last |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  s.Take(last);
  s.v2 ^= 0xff;
  s.Rounds(4);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

SipKey DrawSipKey() {
  SipKey key{};
  if (getrandom(&key, sizeof(key), 0) != sizeof(key)) std::terminate();  // cannot fail so small
  return key;
}

UdpSession::Turn UdpSession::Begin(uint64_t sequence, uint64_t floor) {
  floor_ = std::max(floor_, floor);
  if (sequence < floor_) return Turn::kStale;
  const Slot& slot = SlotOf(sequence);
  if (slot.pending || slot.sequence > sequence) return Turn::kStale;
  return slot.sequence == sequence ? Turn::kRepeat : Turn::kNew;
}

UdpSession::Slot* UdpSession::Remember(uint64_t sequence, size_t requests) {
  Slot& slot = slots_[sequence % kUdpWindow];
  slot.sequence = sequence;
  slot.statuses.assign(requests, '\0');
  slot.pending = true;
  return &slot;
}

UdpSession* UdpSessions::Place() {
  if (sessions_.size() < most_) {
    sessions_.push_back(std::make_unique<UdpSession>());
    return sessions_.back().get();
  }
  const auto oldest =
      std::min_element(sessions_.begin(), sessions_.end(),
                       [](const auto& a, const auto& b) { return a->used_at_ < b->used_at_; });
  if (oldest == sessions_.end() || now_ - (*oldest)->used_at_ < kUdpIdleNanos) return nullptr;
  by_peer_.erase(std::string((*oldest)->peer_.bytes()));
  return oldest->get();
}

UdpSession* UdpSessions::Open(const UdpPeer& peer, uint64_t nonce, int64_t now) {
  now_ = now;
  const auto known = by_peer_.find(std::string(peer.bytes()));
  UdpSession* session = nullptr;
  size_t index = 0;
  if (known != by_peer_.end()) {
    index = known->second;
    session = sessions_[index].get();
    session->used_at_ = now;
    if (session->nonce_ == nonce) return session;
  } else {
    session = Place();
    if (session == nullptr) return nullptr;
    for (index = sessions_.size() - 1; sessions_[index].get() != session;) --index;
    by_peer_.emplace(std::string(peer.bytes()), index);
  }
  *session = UdpSession();
  ++opened_;
  const uint64_t random = SipHash(key_, {reinterpret_cast<const char*>(&opened_), sizeof(opened_)});
  session->id_ = (random << kIndexBits) | index;
  session->nonce_ = nonce;
  session->peer_ = peer;
  session->used_at_ = now;
  return session;
}

UdpSession* UdpSessions::Find(uint64_t id, const UdpPeer& peer, int64_t now) {
  const size_t index = id & ((uint64_t{1} << kIndexBits) - 1);
  if (index >= sessions_.size()) return nullptr;
  UdpSession* session = sessions_[index].get();
  if (session->id_ != id || !(session->peer_ == peer)) return nullptr;
  session->used_at_ = now;
  return session;
}

}  // namespace pulse::kv
