// What operators that walk patterns have in common.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/eval.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {

// The tokens of a step's types. False: types are named, and the graph has none of them.
inline bool ResolveTypes(const std::vector<int>& names, EvalContext& ctx, std::vector<Token>* out) {
  out->clear();
  for (const int name : names) {
    const Token token = ctx.EdgeType(name);
    if (token != kNoToken) out->push_back(token);
  }
  return names.empty() || !out->empty();
}

// An edge's slot that is looked at for this alone holds its number (Step::edge_number).
inline bool HoldsEdge(const Value& v, EdgeId edge) {
  if (v.is_edge()) return v.as_edge().id == edge;
  if (v.is_int()) return static_cast<EdgeId>(v.as_int()) == edge;
  if (!v.is_list()) return false;
  for (const Value& item : v.as_list()) {
    if (item.is_edge() && item.as_edge().id == edge) return true;
  }
  return false;
}

inline bool Differs(const Value* row, const std::vector<Slot>& slots, EdgeId edge) {
  return std::none_of(slots.begin(), slots.end(),
                      [&](Slot slot) { return HoldsEdge(row[slot], edge); });
}

inline EdgeRef RefOf(const NeighbourBatch& batch, size_t i, NodeId from) {
  const bool in = batch.incoming[i] != 0;
  return {batch.edge[i], in ? batch.node[i] : from, in ? from : batch.node[i], batch.type[i]};
}

// The next relationships of the nodes, from *position on, in place of what `batch` has. False:
// stop.
inline bool ExpandNext(std::span<const NodeId> nodes, Direction direction,
                       std::span<const Token> types, EvalContext& ctx, ExpandPosition* position,
                       NeighbourBatch* batch) {
  batch->clear();
  return ctx.Check(ctx.graph->Expand(nodes, direction, types, kGraphBatch, position, batch)) &&
         ctx.Tick(batch->size() + 1);
}

// How many relationships each of the nodes has. False: stop.
inline bool FindDegrees(std::span<const NodeId> nodes, Direction direction,
                        std::span<const Token> types, EvalContext& ctx,
                        std::vector<uint64_t>* degrees) {
  degrees->assign(nodes.size(), 0);
  return ctx.Check(ctx.graph->Degrees(nodes, direction, types, *degrees)) && ctx.Tick(nodes.size());
}

// A bound variable that a pattern uses as a node.
inline bool NodeOf(const Value& v, EvalContext& ctx, NodeId* node) {
  if (v.is_null()) return false;
  if (!v.is_node()) {
    ctx.TypeError(Concat("a pattern needs a NODE, found a ", TypeName(v.type())));
    return false;
  }
  *node = v.as_node();
  return true;
}

}  // namespace pulse::cypher
