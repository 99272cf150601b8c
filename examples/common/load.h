// The part that the loads of the examples have in common: options, results, connections. Any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "base/unique_fd.h"

namespace pulse::examples {

struct LoadOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  double read_share = 1.0;
  uint32_t outstanding = 16;  // messages of a connection
  double seconds = 5;
  uint64_t requests = 0;   // ends earlier, after so many; 0: no
  bool reconnect = false;  // for up to half a minute each time
  uint64_t seed = 1;
};

struct LoadResult {
  uint64_t reads = 0;  // answered well
  uint64_t writes = 0;
  uint64_t errors = 0;  // replies that say so
  uint64_t lost = 0;    // requests whose connection ended before the answer
  uint64_t reconnects = 0;
  uint64_t verified = 0;  // pages, at the end
  double seconds = 0;
  std::string last_error;
  Histogram read_nanos;
  Histogram write_nanos;
};

// A connection to host:port, blocking. `host` is an IPv4 address. Unavailable: nobody answers.
absl::StatusOr<UniqueFd> ConnectTcp(const std::string& host, uint16_t port);
// Calls `connect` until it succeeds, for up to half a minute. Blocks.
absl::Status ConnectAgain(const std::function<absl::Status()>& connect);

}  // namespace pulse::examples
