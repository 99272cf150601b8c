// The metrics of a command that runs and ends, in a file in Prometheus's text format, as
// node_exporter's textfile collector reads it. Main thread only. Blocks on the file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "services/ops/placement_numbers.h"

namespace pulse {

// InvalidArgument for a file that something else has written: it is not replaced. `path` empty: no
// metrics are wanted.
absl::Status CheckMetricsFile(const std::string& path);
// Replaces it at once, so that nobody reads a half. Not while an OutputFile is open.
absl::Status WriteMetricsFile(const std::string& path, const ops::PlacementNumbers& numbers);

}  // namespace pulse
