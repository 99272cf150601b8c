// The keys of what a commit changed, by which another one that changed the same is found. A key is
// a 64-bit hash: two things that share one conflict once without a need, and the transaction is run
// again.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {

inline uint64_t ClaimKey(uint64_t kind, uint64_t id, uint64_t more = 0) {
  const uint64_t words[3] = {kind, id, more};
  return XXH3_64bits(words, sizeof(words));
}
inline uint64_t NodeClaim(NodeId node) { return ClaimKey(1, node); }  // its properties or labels
inline uint64_t DeletionClaim(NodeId node) { return ClaimKey(2, node); }
inline uint64_t PropertyClaim(NodeId node, Token key) { return ClaimKey(3, node, key); }
inline uint64_t LabelClaim(NodeId node, Token label) { return ClaimKey(4, node, label); }
inline uint64_t EdgeClaim(EdgeId edge) { return ClaimKey(5, edge); }
// Any change of a node that a constraint looks at.
inline uint64_t ConstrainedClaim(NodeId node) { return ClaimKey(6, node); }
inline uint64_t UniqueClaim(uint64_t index, uint64_t values) { return ClaimKey(7, index, values); }

}  // namespace pulse::graph
