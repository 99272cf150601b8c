// From the text of a query to its plan. No state; any thread; blocks where the graph's indexes and
// counts do.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/graph/cypher/plan.h"
#include "services/graph/syntax/stop.h"

namespace pulse::cypher {

struct PlanOptions {
  // Counts paths without making them, and tests predicates where nodes are found. Off for tests,
  // which compare what comes out.
  bool shortcuts = true;
  // Samples are taken of graphs with this many nodes, for patterns that begin with a scan of as
  // many.
  uint64_t statistics_from = 1000;
  const StopHook* stop = nullptr;  // true: MakePlan ends with Cancelled
};

// Parses and plans. `view` is asked for indexes and counts only; plans stay right when these
// change.
absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(std::string_view query, const GraphView& view,
                                                     const ProcedureCatalog* procedures,
                                                     const PlanOptions& options = {});

}  // namespace pulse::cypher
