// Values of Cypher as Bolt 5 has them: nodes, relationships and paths with all that they hold,
// temporal values with UTC. Blocks on the graph where a value is of it. Any thread.
#pragma once

#include "absl/status/status.h"
#include "services/graph/bolt/packstream.h"
#include "services/graph/model/graph.h"

namespace pulse::bolt {

// A node or relationship that the graph does not have any more has neither labels nor properties.
// `graph` null: the value is nothing of a graph. Errors: the graph's.
absl::Status PackValue(const Value& value, const cypher::GraphView* graph, PackWriter* out);

}  // namespace pulse::bolt
