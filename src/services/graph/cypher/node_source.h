// Where the nodes of a scan come from: all with its label, or those that an index has within bounds
// where they are few.
//
// One thread at a time.
#pragma once

#include <span>
#include <vector>

#include "services/graph/cypher/plan.h"
#include "services/graph/expressions/eval.h"

namespace pulse::cypher {

class NodeSource {
 public:
  // Begins again. `row`: what the bounds are of. False: an error.
  bool Begin(const Step& scan, Token label, Value* row, EvalContext& context);
  // The next nodes, ascending; 0: the end.
  absl::StatusOr<size_t> Next(const GraphView& graph, std::span<NodeId> out);
  // About how many there are.
  uint64_t size() const { return size_; }

 private:
  bool FindWithin(const Step& scan, Value* row, EvalContext& context);

  Token label_ = kNoToken;
  uint64_t position_ = 0;  // as the graph has it, or in within_
  uint64_t size_ = 0;
  bool by_index_ = false;
  std::vector<NodeId> within_;
  size_t held_ = 0;  // by within_, as it was charged
  std::vector<Bound> bounds_;
};

}  // namespace pulse::cypher
