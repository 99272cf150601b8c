// Two answers of the metrics of a `pulse graph serve`, and what went on between them. Plain data;
// any thread; does not block. What the server says is checked: a figure that is missing or no
// number is an error.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace pulse::top {

struct GraphSample {
  // Since the start.
  double reads = 0, writes = 0, schema = 0;  // statements
  double failed = 0, conflicts = 0, rows = 0;
  double statement_seconds = 0;
  double flushes = 0, flushed_bytes = 0;
  double compactions = 0, compacted_bytes = 0, compactions_on_agent = 0;
  double cpu = 0;  // seconds, of the process
  // Now.
  double connections = 0;
  double transactions = 0;
  double oldest_seconds = 0;  // since the oldest of them began
  double resident = 0, store_memory = 0;
  double runs = 0, run_bytes = 0, log_bytes = 0;
  bool maintenance_failed = false;

  double statements() const { return reads + writes + schema; }
};

// The text that Prometheus reads. InvalidArgument: it is none, or of no graph server.
absl::StatusOr<GraphSample> ParseGraphMetrics(std::string_view text);

struct GraphRates {
  GraphSample now;
  double seconds = 0;  // between the two answers; 0: there is one only
  // A second.
  double statements = 0, reads = 0, writes = 0;
  double failed = 0, conflicts = 0, rows = 0;
  double flushes = 0, flushed_bytes = 0;
  double compactions = 0, compacted_bytes = 0;
  double mean_seconds = 0;  // of a statement; 0: none ended
  double cpu_share = 0;     // of one CPU
};

// `before` may be null, and of another process: then nothing is measured. `seconds` lie between.
GraphRates CompareGraph(const GraphSample* before, const GraphSample& now, double seconds);

}  // namespace pulse::top
