#include "services/redis/commands/cluster.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace pulse::redis {
namespace {

// kCrc16[k][b]: what a byte b is in the CRC when k bytes follow it, so that eight bytes are eight
// look-ups that do not wait for each other.
constexpr auto kCrc16 = [] {
  std::array<std::array<uint16_t, 256>, 8> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
    table[0][byte] = static_cast<uint16_t>(crc);
  }
  for (size_t k = 1; k < table.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const unsigned crc = table[k - 1][byte];
      table[k][byte] = static_cast<uint16_t>(crc << 8 ^ table[0][crc >> 8]);
    }
  }
  return table;
}();

uint16_t Crc16(std::string_view text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = at + text.size();
  uint16_t crc = 0;
  for (; end - at >= 8; at += 8) {
    crc = static_cast<uint16_t>(kCrc16[7][at[0] ^ crc >> 8] ^ kCrc16[6][at[1] ^ (crc & 0xff)] ^
                                kCrc16[5][at[2]] ^ kCrc16[4][at[3]] ^ kCrc16[3][at[4]] ^
                                kCrc16[2][at[5]] ^ kCrc16[1][at[6]] ^ kCrc16[0][at[7]]);
  }
  for (; at < end; ++at) crc = static_cast<uint16_t>(crc << 8 ^ kCrc16[0][crc >> 8 ^ *at]);
  return crc;
}

constexpr size_t kIdBytes = 20;

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back("0123456789abcdef"[byte >> 4]);
    hex.push_back("0123456789abcdef"[byte & 15]);
  }
  return hex;
}

}  // namespace

int SlotOf(std::string_view key) {
  if (const size_t open = key.find('{'); open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  return Crc16(key) % kSlots;
}

SlotRange SlotRange::Piece(int index, int count) const {
  // The first slot that rounding down gives to the piece.
  const auto begin = [this, count](int piece) {
    return first + (piece * size() + count - 1) / count;
  };
  return {begin(index), begin(index + 1) - 1};
}

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  if (getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    std::terminate();  // cannot fail so early
  }
  return Hex(random);
}

std::string NodeIdOf(std::string_view host, uint16_t port) {
  const std::string address = absl::StrCat(std::string(host), ":", port);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  PULSE_CHECK(EVP_Digest(address.data(), address.size(), digest, &size, EVP_sha256(), nullptr) ==
              1);
  return Hex({reinterpret_cast<const char*>(digest), kIdBytes});
}

Cluster::Cluster(bool enabled, int nodes, std::string host, SlotRange slots)
    : enabled_(enabled), host_(std::move(host)), slots_(slots) {
  const int count = enabled ? nodes : 1;
  PULSE_CHECK(slots.first >= 0 && slots.last < kSlots && count <= slots.size());
  for (int i = 0; i < count; ++i) {
    const SlotRange piece = slots.Piece(i, count);
    nodes_.push_back({RandomHex(kIdBytes), 0, piece.first, piece.last});
  }
  if (!enabled || slots.size() == kSlots) return;
  owners_ = std::make_unique<std::atomic<int16_t>[]>(kSlots);
  for (int slot = 0; slot < kSlots; ++slot) owners_[static_cast<size_t>(slot)] = kElsewhere;
}

void Cluster::Listen(const std::vector<uint16_t>& ports) {
  PULSE_CHECK(ports.size() == nodes_.size());
  PULSE_CHECK(announced_port_ == 0 || !enabled_);
  Members members;
  const State state = waits_ && spread() ? State::kSuperseded : State::kServes;
  for (size_t i = 0; i < ports.size(); ++i) {
    nodes_[i].port = announced_port_ == 0 ? ports[i] : announced_port_;
    if (spread()) nodes_[i].id = NodeIdOf(host_, ports[i]);
    members.push_back({nodes_[i], host_, state});
  }
  SetMembers(std::move(members));
}

std::string Cluster::AddressOf(int node) const {
  return absl::StrCat(host_, ":", nodes_[static_cast<size_t>(node)].port);
}

void Cluster::SetMembers(Members members) {
  if (spread()) {
    std::vector<int16_t> owners(kSlots, kElsewhere);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const Member& member : members) {
        if (member.id != nodes_[i].id || member.state != State::kServes) continue;
        std::fill(owners.begin() + member.first_slot, owners.begin() + member.last_slot + 1,
                  static_cast<int16_t>(i));
      }
    }
    for (size_t slot = 0; slot < owners.size(); ++slot) {
      owners_[slot].store(owners[slot], std::memory_order_relaxed);
    }
    generation_.fetch_add(1);
  }
  auto shared = std::make_shared<const Members>(std::move(members));
  const std::lock_guard<std::mutex> lock(mutex_);
  members_ = std::move(shared);
}

std::shared_ptr<const Cluster::Members> Cluster::members() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return members_;
}

std::string Cluster::OwnerOf(int slot) const {
  if (!spread()) return AddressOf(NodeOf(slot));
  const auto all = members();
  for (const Member& member : *all) {
    if (member.state == State::kServes && member.slots().Has(slot)) {
      return absl::StrCat(member.host, ":", member.port);
    }
  }
  return "";
}

}  // namespace pulse::redis
