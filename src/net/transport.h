// Transport: a filter between a client's socket and its flow; TLS is one. None: bytes pass as they
// are. One per connection, made by DirectorOptions::transport and called on the loop's thread. It
// must not block, and fits OpenSSL's memory BIOs: what comes from the wire goes into one, what is
// in the other goes to the wire.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace pulse::net {

class Transport {
 public:
  virtual ~Transport() = default;

  // Takes what the peer sent. Appends what it says to `plain` and what must be sent back (a
  // handshake's messages, an alert) to `wire`. An error ends the connection once `wire` is sent.
  virtual absl::Status FromWire(std::string_view bytes, std::string* plain, std::string* wire) = 0;
  // Appends to `wire` what says `plain` to the peer. What is given before the handshake is done,
  // it keeps, and emits from FromWire.
  virtual absl::Status ToWire(std::string_view plain, std::string* wire) = 0;
  // The peer has ended its side (close_notify), as distinct from a cut connection.
  virtual bool ended() const = 0;
  // Nothing can be said yet. A connection that stays so for DirectorLimits::slow_ms is cut off.
  virtual bool handshaking() const = 0;
  // Bytes that it keeps; they count as the connection's.
  virtual size_t held() const = 0;
  // Appends this side's farewell. Nothing is given to ToWire afterwards.
  virtual void Finish(std::string* wire) = 0;
};

}  // namespace pulse::net
