// The client of `blocks`: connections that each keep some messages outstanding, each a batch of
// random reads and writes of whole blocks. DDS section 8.1.
//
// Closed loop: the next message of a connection leaves when one has been answered in full. Open
// loop (`rate`): requests are due at fixed times, and a latency counts from when the request was
// due, also where it had to wait for a free place: so what a slow server delays is not left out.
//
// Verified: blocks carry a stamp (stamps.h). A read must see a whole block of its place whose
// version is at least the last that was acknowledged before the read was sent, and at most the last
// that was sent before it was answered. So that this is exact, no block has two writes outstanding.
// A write without a known outcome leaves both versions allowed. One load at a time has a file.
//
// One thread, the caller's. Blocks for the length of the run. Errors: no server, a broken protocol;
// DataLoss for a block that is not what it must be, naming it. Requests that the server refuses are
// counted, and the run goes on; a connection that ends is made anew if `reconnect`.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "examples/common/load.h"

namespace pulse::blocks {

struct LoadOptions : examples::LoadOptions {
  std::string file = "0";
  uint32_t block = 1024;
  uint32_t batch = 1;  // requests in a message
  uint32_t connections = 1;
  double rate = 0;    // requests a second, all connections; 0: closed loop
  bool fill = false;  // writes all blocks, in order and in large requests, and syncs, instead
  bool verify = true;
};

using examples::LoadResult;
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

}  // namespace pulse::blocks
