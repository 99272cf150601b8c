// Quantified paths: ((a)-[r]->(b) WHERE a.x < b.x){1,5}. Within the brackets, variables are nodes
// and relationships of one repetition, and predicates see these and what earlier clauses have
// bound; outside, they are lists.
#include <algorithm>

#include "services/graph/model/text.h"
#include "services/graph/planner/planner.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
// The lists; what relationships may be of, by which others differ from them.
void Planner::DeclareQuantified(EdgePattern* edge, MatchState* state) {
  PatternPart& path = *edge->path;
  std::map<std::string, Slot> nodes;
  const auto taken = [this](const std::string& name, Pos pos) {
    Fail("VariableAlreadyBound", pos,
         Concat("`", name, "` is already defined: a variable of a quantified path is new"));
  };
  const auto declare = [&](const std::string& name) {
    const Slot slot = Declare(name, kListType);
    state->fresh.insert(slot);
    return slot;
  };
  for (NodePattern& node : path.nodes) {
    if (node.variable.empty()) continue;
    if (const auto known = nodes.find(node.variable); known != nodes.end()) {
      node.group = known->second;
      continue;
    }
    if (scope_.contains(node.variable)) return taken(node.variable, node.pos);
    node.group = nodes[node.variable] = declare(node.variable);
  }
  bool any_type = false;
  for (EdgePattern& inner : path.edges) {
    if (inner.types.empty() && !inner.test.ops.empty()) inner.types = AnyOf(inner.test);
    any_type = any_type || inner.types.empty();
    edge->types.insert(edge->types.end(), inner.types.begin(), inner.types.end());
    if (inner.variable.empty()) continue;
    if (scope_.contains(inner.variable)) return taken(inner.variable, inner.pos);
    inner.group = declare(inner.variable);
  }
  if (any_type) edge->types.clear();
}

void Planner::PlanQuantified(EdgePattern* edge, bool forward, Step* step, MatchState* state) {
  PatternPart& path = *edge->path;
  const size_t hops = path.edges.size();
  const Scope outside = scope_;
  scope_ = state->before;
  MatchState inner;
  for (NodePattern& node : path.nodes) {
    if (!Ended()) DeclareNode(&node, &inner);
  }
  for (EdgePattern& one : path.edges) {
    if (!Ended()) DeclareEdge(&one, &inner, true);
  }
  for (NodePattern& node : path.nodes) {
    if (!Ended()) BindNode(&node, &inner);
  }
  for (EdgePattern& one : path.edges) {
    if (!Ended()) BindEdge(&one, &inner);
  }
  if (path.where != nullptr && !failed()) {
    Bind(path.where.get(), {.predicate = true});
    if (!failed()) Want(*path.where, Bit(Type::kBool) | kNullType, "WHERE");
    if (!failed()) AddPredicate(path.where.get(), &inner);
  }
  scope_ = outside;
  if (failed()) return;
  // Each predicate as soon as what it needs is known: how many slots of it are not, and who waits
  // for a slot.
  std::vector<size_t> missing(inner.predicates.size(), 0);
  std::map<Slot, std::vector<size_t>> waiting;
  std::vector<size_t> now, last;
  for (size_t p = 0; p < inner.predicates.size() && !Ended(); ++p) {
    const Predicate& predicate = inner.predicates[p];
    if (predicate.opaque) {
      last.push_back(p);
      continue;
    }
    for (const Slot slot : predicate.needs) {
      if (IsBound(slot, inner)) continue;
      ++missing[p];
      waiting[slot].push_back(p);
    }
    if (missing[p] == 0) now.push_back(p);
  }
  const auto bind = [&](Slot slot) {
    if (!inner.bound.insert(slot).second) return false;
    const auto those = waiting.find(slot);
    if (those == waiting.end()) return true;
    for (const size_t p : those->second) {
      if (--missing[p] == 0) now.push_back(p);
    }
    return true;
  };
  const auto ready = [&](std::vector<const Expr*>* out) {
    if (AllBound(inner)) {
      now.insert(now.end(), last.begin(), last.end());
      last.clear();
    }
    std::sort(now.begin(), now.end());
    for (const size_t p : now) out->push_back(inner.predicates[p].expr);
    now.clear();
  };
  step->element = path.nodes[forward ? 0 : hops].slot;
  bind(step->element);
  ready(&step->predicates);
  for (size_t i = 0; i < hops && !Ended(); ++i) {
    const EdgePattern& one = path.edges[forward ? i : hops - 1 - i];
    QuantifiedHop& hop = step->hops.emplace_back();
    hop.direction = Walked(one, forward);
    hop.types = NameIndexes(one.types);
    hop.edge = one.slot;
    hop.node = path.nodes[forward ? i + 1 : hops - 1 - i].slot;
    hop.into = !bind(hop.node);
    bind(hop.edge);
    ready(&hop.predicates);
  }
  for (size_t i = 0; i <= hops; ++i) {
    const auto add = [&](Slot slot, bool edges) {
      if (slot < 0 || !state->bound.insert(slot).second) return;
      step->groups.push_back({slot, edges, i});
    };
    add(path.nodes[i].group, false);
    if (i < hops) add(path.edges[i].group, true);
  }
}

}  // namespace pulse::cypher
