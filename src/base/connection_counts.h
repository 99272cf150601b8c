// What a server counts of its connections (net/director.h), as those show it who know no server.
#pragma once

#include <cstdint>

namespace pulse {

struct ConnectionCounts {
  uint64_t connections = 0;          // now
  uint64_t spliced_connections = 0;  // now, of these
  uint64_t accepted = 0;
  uint64_t refused = 0;  // beyond a limit, or by the application
  uint64_t cut = 0;      // ended by a limit, an error of the client's, or its reset
  uint64_t requests = 0;
  uint64_t forwarded = 0;
  uint64_t lost = 0;              // forwarded, or meant to be, but the host was lost
  uint64_t host_connections = 0;  // made
  uint64_t host_failures = 0;     // to make one
  uint64_t spliced_bytes = 0;
  uint64_t held_bytes = 0;  // now: memory for bytes and requests on their way, all connections
  uint64_t pauses = 0;      // times that a side was not read for want of room
};

}  // namespace pulse
