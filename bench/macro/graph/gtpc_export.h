// GTPC for other programs: its tables as CSV, with a description of them, and its queries as files.
// Main thread only; blocks.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "bench/macro/graph/gtpc_data.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

// DIR/*.csv, and DIR/gtpc.json: the tables, with their columns' types, and the queries in both
// dialects. The directory is made.
absl::Status WriteGtpcForOthers(const GtpcOptions& options, const std::string& directory);

// DIR/pulse/Q1.cypher and so on, DIR/ladybug/Q1.cypher and so on, and DIR/pulse/oltp.cypher.
absl::Status WriteGtpcQueries(bool repaired, const std::string& directory);

absl::Status WriteJson(const nlohmann::json& value, const std::string& path);

}  // namespace pulse::bench
