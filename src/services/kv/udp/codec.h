// Reads and writes the datagrams of wire.h. What was received is untrusted: each number is copied
// and checked before it is used; what makes no sense is an end of the records, and `bad`.
//
// Readers give views of the datagram. Nothing here blocks, allocates or keeps state elsewhere.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "services/kv/udp/wire.h"

namespace pulse::kv {

// False: too short, or another protocol's.
bool ReadUdpHeader(std::string_view datagram, UdpHeader* header);

// A structure behind a header. False: too short.
template <class T>
bool ReadUdpBody(std::string_view datagram, T* body) {
  if (datagram.size() < sizeof(UdpHeader) + sizeof(T)) return false;
  std::memcpy(body, datagram.data() + sizeof(UdpHeader), sizeof(T));
  return true;
}

struct UdpCommand {
  WireOp op;
  std::string_view key;
  std::string_view value;
  int64_t ttl_ms;  // 0: none
};

class UdpRequestReader {
 public:
  explicit UdpRequestReader(std::string_view datagram)
      : rest_(datagram.substr(sizeof(UdpHeader))) {}
  // False: there is none, or it is bad.
  bool Next(UdpCommand* command);
  bool bad() const { return bad_; }
  // Nothing was left over.
  bool at_end() const { return rest_.empty() && !bad_; }

 private:
  std::string_view rest_;
  bool bad_ = false;
};

struct UdpAnswer {
  uint16_t request;
  WireStatus status;
  std::string_view value;
};

class UdpResponseReader {
 public:
  explicit UdpResponseReader(std::string_view datagram)
      : rest_(datagram.substr(sizeof(UdpHeader))) {}
  bool Next(UdpAnswer* answer);
  bool bad() const { return bad_; }

 private:
  std::string_view rest_;
  bool bad_ = false;
};

inline size_t UdpRequestBytes(std::string_view key, std::string_view value, int64_t ttl_ms) {
  return UdpPadded(sizeof(UdpRequest) + (ttl_ms != 0 ? 8 : 0) + key.size() + value.size());
}
// Key and value have to be as short as the record says: 16 and 32 bits.
void AppendUdpRequest(const UdpCommand& command, std::string* out);

inline size_t UdpResponseBytes(size_t value_size) {
  return UdpPadded(sizeof(UdpResponse) + value_size);
}
// Writes UdpResponseBytes(value.size()) bytes.
void WriteUdpResponse(const UdpAnswer& answer, char* to);

}  // namespace pulse::kv
