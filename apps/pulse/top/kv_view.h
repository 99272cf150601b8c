// What `pulse top` shows of in-memory stores, as lines below those of agents. Pure functions of the
// rates; any thread.
#pragma once

#include <string>
#include <vector>

#include "apps/pulse/top/graph_view.h"
#include "apps/pulse/top/kv_sample.h"
#include "apps/pulse/top/screen_line.h"
#include "apps/pulse/top/view.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::top {

// A `pulse kv` or `pulse serve` that is watched.
struct WatchedKv {
  std::string address;
  std::string error;  // why there is nothing new; empty: there is
  KvRates rates;      // the last known; not measured yet if `rates.seconds` is 0
  bool known = false;
};

// As Render, which it is without servers.
std::vector<std::string> RenderAll(const std::vector<Watched>& agents,
                                   const std::vector<WatchedKv>& servers,
                                   const std::vector<WatchedGraph>& graphs, double interval,
                                   const std::string& clock, const Look& look, size_t height,
                                   bool keys);

// The same for programs: an element for each server (docs/reference/metrics.md).
nlohmann::json ToJson(const std::vector<WatchedKv>& servers);

}  // namespace pulse::top
