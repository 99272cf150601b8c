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

#include "absl/status/statusor.h"
#include "examples/common/load.h"

namespace pulse::pages {

struct LoadOptions : examples::LoadOptions {
  LoadOptions() { read_share = 0.9; }
  uint32_t threads = 2;  // `requests` are each one's
  uint32_t records = 4;  // of an append
  bool verify_all = true;
};

using examples::LoadResult;  // its writes are appends
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options);

}  // namespace pulse::pages
