// The load on a page server: threads with a connection each, that keep requests outstanding: reads
// of random pages at the LSN that the thread has had acknowledged for them, and appends of small
// records.
//
// Verified: a record writes cells of 16 bytes, which say who wrote them and the how-manieth. Each
// thread has cells of its own in every page. A read must show in each of them at least the last
// write that was acknowledged when the read was sent, at most the last that was sent. A cell whose
// write has no known outcome is not written again. At the end, if `verify_all`, each thread reads
// every page; what is refused then, since the server is behind or its agent away, is asked for
// again for up to a minute, and not counted.
//
// Blocks. Errors: no server, a broken protocol, DataLoss naming the page. Refusals are counted.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/histogram.h"

namespace pulse::pages {

struct LoadOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  uint32_t threads = 2;
  uint32_t outstanding = 16;  // of a thread
  double read_share = 0.9;
  uint32_t records = 4;  // of an append
  double seconds = 5;
  uint64_t requests = 0;   // of a thread; ends earlier; 0: no
  bool reconnect = false;  // for up to half a minute each time
  bool verify_all = true;
  uint64_t seed = 1;
};

struct LoadResult {
  uint64_t reads = 0;
  uint64_t appends = 0;
  uint64_t errors = 0;
  uint64_t reconnects = 0;
  uint64_t verified = 0;  // pages, at the end
  double seconds = 0;
  std::string last_error;
  Histogram read_nanos;
  Histogram append_nanos;
};

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

}  // namespace pulse::pages
