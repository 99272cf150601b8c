// What `pulse top` shows of graph servers, as lines below those of others. Pure functions of the
// rates; any thread.
#pragma once

#include <string>
#include <vector>

#include "apps/pulse/top/graph_sample.h"
#include "apps/pulse/top/screen_line.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::top {

// A `pulse graph serve --metrics` that is watched.
struct WatchedGraph {
  std::string address;
  std::string error;  // why there is nothing new; empty: there is
  GraphRates rates;   // the last known; not measured yet if `rates.seconds` is 0
  bool known = false;
};

// An empty line first.
std::vector<std::string> GraphLines(const WatchedGraph& graph, const Look& look);

// The same for programs: an element for each server (docs/reference/metrics.md).
nlohmann::json ToJson(const std::vector<WatchedGraph>& graphs);

}  // namespace pulse::top
