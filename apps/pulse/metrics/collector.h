// The numbers of an agent, of its front, or of a server, for Prometheus, taken when they are asked
// for. docs/reference/metrics.md lists them.
//
// A session's series carry `session`, `pid` and `database`, and end with it; so their number is
// bounded by --max-sessions. `database` is the first that the session was seen to have open, so
// that a series keeps its name; pulse_database_info has all of the moment.
//
// Thread-safe; does not block.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "apps/pulse/metrics/endpoint.h"

namespace pulse::metrics {

class Families;

class Collector : public prometheus::Collectable {
 public:
  explicit Collector(Sources sources) : sources_(std::move(sources)) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  void AddSessions(Families* out) const;

  const Sources sources_;
  mutable std::mutex mu_;
  mutable std::map<uint64_t, std::string> databases_;  // by session
};

}  // namespace pulse::metrics
