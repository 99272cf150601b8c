// What `pulse top` shows, as lines: of agents, their sessions and the totals. Pure functions of the
// rates; any thread.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "apps/pulse/top/sample.h"
#include "apps/pulse/top/screen_line.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::top {

// An agent that is watched.
struct Watched {
  std::string socket;
  std::string error;  // why there is nothing new; empty: there is
  AgentRates rates;   // the last known; not measured yet if `rates.seconds` is 0
  bool known = false;
  std::deque<double> history;  // bytes written a second, newest last
};

// `height` lines at most (0: as many as it takes): sessions as blocks if they fit, else as rows of
// a table, else as many rows as fit. `clock` is shown as it is; `keys`: say which keys there are.
std::vector<std::string> Render(const std::vector<Watched>& agents, double interval,
                                const std::string& clock, const Look& look, size_t height,
                                bool keys);

// The same for programs (docs/reference/metrics.md).
nlohmann::json ToJson(const std::vector<Watched>& agents);

}  // namespace pulse::top
