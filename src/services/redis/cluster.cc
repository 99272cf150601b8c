#include "services/redis/cluster.h"

#include <sys/random.h>

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

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  if (getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    std::terminate();  // cannot fail so early
  }
  std::string hex;
  for (const char c : random) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back("0123456789abcdef"[byte >> 4]);
    hex.push_back("0123456789abcdef"[byte & 15]);
  }
  return hex;
}

Cluster::Cluster(bool enabled, int nodes, std::string host)
    : enabled_(enabled), host_(std::move(host)) {
  const int count = enabled ? nodes : 1;
  for (int i = 0; i < count; ++i) {
    // The first slot whose NodeOf is i.
    const auto first = [count](int node) { return (node * kSlots + count - 1) / count; };
    nodes_.push_back({RandomHex(20), 0, first(i), first(i + 1) - 1});
  }
}

void Cluster::Listen(const std::vector<uint16_t>& ports) {
  PULSE_CHECK(ports.size() == nodes_.size());
  for (size_t i = 0; i < ports.size(); ++i) nodes_[i].port = ports[i];
}

std::string Cluster::AddressOf(int node) const {
  return absl::StrCat(host_, ":", nodes_[static_cast<size_t>(node)].port);
}

}  // namespace pulse::redis
