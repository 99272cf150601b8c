// The numbers of `pulse graph serve`, as metrics. docs/reference/metrics.md lists them. No state.
#pragma once

#include "services/graph/bolt/server.h"
#include "services/graph/core/store.h"
#include "services/graph/session/running.h"
#include "services/graph/session/statement_counts.h"

namespace pulse::metrics {

class Families;

// At about one moment.
struct GraphNumbers {
  cypher::StatementNumbers statements;
  cypher::RunningList::Open transactions;
  uint64_t plans = 0;         // kept
  uint64_t query_memory = 0;  // that queries have taken of what all of them may take
  bolt::BoltNumbers bolt;
  graph::StoreStats store;
};

GraphNumbers TakeGraphNumbers(cypher::GraphService* service, const bolt::BoltServer& server,
                              const graph::GraphStore& store);
void AddGraph(const GraphNumbers& numbers, Families* out);

}  // namespace pulse::metrics
