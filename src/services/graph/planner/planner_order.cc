// In which order the relationships of a pattern are walked, and from which node, by what samples of
// the graph say: the order with the fewest rows on the way. For patterns that nothing bound and no
// index begins; all others begin there.
#include <algorithm>
#include <limits>

#include "services/graph/planner/planner.h"

namespace pulse::cypher {
namespace {

// Of a relationship that is looked at, and of a row that is made of it.
constexpr double kLookCost = 1, kRowCost = 2;
// Hops of a relationship of variable length, which is a guess.
constexpr double kVariableHops = 3;
// Parts of a pattern, or hops of one, for which an order is chosen.
constexpr size_t kMostCompared = 64;

}  // namespace

// The label that a node is looked for by.
std::string Planner::RarestLabel(const NodePattern& node, Statistics* statistics) {
  std::string rarest;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& label : node.labels) {
    const double nodes = statistics->Nodes(label);
    if (nodes >= least) continue;
    least = nodes;
    rarest = label;
  }
  return rarest;
}

double Planner::ShareOf(const NodePattern& node, const MatchState& state, Statistics* statistics,
                        std::map<Slot, double>* shares) {
  const auto [it, added] = shares->try_emplace(node.slot, 1);
  if (!added) return it->second;
  std::vector<const Expr*> predicates;
  for (const Predicate& p : state.predicates) {
    if (!p.done && !p.opaque && p.needs.size() == 1 && p.needs.contains(node.slot)) {
      predicates.push_back(p.expr);
    }
  }
  it->second = statistics->Share(RarestLabel(node, statistics), node.slot, predicates, plan_->names,
                                 used_.size());
  return it->second;
}

Planner::WalkOrder Planner::OrderFrom(const PatternPart& part, size_t start,
                                      const MatchState& state, Statistics* statistics,
                                      std::map<Slot, double>* shares) {
  WalkOrder order;
  order.start = start;
  std::set<Slot> bound = {part.nodes[start].slot};
  double rows = 1;
  if (!IsBound(part.nodes[start].slot, state)) {
    const NodePattern& node = part.nodes[start];
    const std::string label = RarestLabel(node, statistics);
    const double share = ShareOf(node, state, statistics, shares);
    rows = statistics->Nodes(label);
    Seek seek;
    const double by_table = StartCost(part, start, state, &seek);
    if (seek.as == Step::Sought::kTable) {
      // For each row: the first key's nodes, and its part of making the table.
      rows = statistics->Alike(label, plan_->names[static_cast<size_t>(seek.keys[0])]);
      order.cost = by_table + rows * kLookCost;
    } else {
      const bool one_of = node.labels.empty() && !node.any_of.empty();
      order.cost = (one_of ? std::min(rows, CountOf(node.any_of)) : rows) * kLookCost;
      if (!label.empty() && FindRange(node, label, state).property != nullptr) order.cost *= share;
    }
    rows *= share;
  }
  size_t left = start, right = start;
  while ((left > 0 || right < part.edges.size()) && !Ended()) {
    struct Next {
      double looks = 0, rows = std::numeric_limits<double>::infinity();
    };
    const auto next = [&](size_t edge, bool forward) {
      const EdgePattern& e = part.edges[edge];
      const NodePattern& from = part.nodes[forward ? edge : edge + 1];
      const NodePattern& to = part.nodes[forward ? edge + 1 : edge];
      const std::string label = RarestLabel(to, statistics);
      const Statistics::Hop hop =
          statistics->HopOf(RarestLabel(from, statistics), Walked(e, forward), e.types, label);
      Next n;
      n.looks = rows * hop.degree * (e.variable_length ? kVariableHops : 1);
      n.rows = n.looks * hop.share;
      if (IsBound(to.slot, state) || bound.contains(to.slot)) {
        n.rows /= std::max(1.0, statistics->Nodes(label));
      } else {
        n.rows *= ShareOf(to, state, statistics, shares);
      }
      return n;
    };
    Next forward, backward;
    if (right < part.edges.size()) forward = next(right, true);
    if (left > 0) backward = next(left - 1, false);
    const bool ahead = forward.rows <= backward.rows && right < part.edges.size();
    const Next& chosen = ahead ? forward : backward;
    order.edges.emplace_back(ahead ? right : left - 1, ahead);
    bound.insert(part.nodes[ahead ? right + 1 : left - 1].slot);
    ahead ? ++right : --left;
    rows = chosen.rows;
    order.cost += chosen.looks * kLookCost + rows * kRowCost;
  }
  return order;
}

// The best of all parts that are left.
Planner::WalkOrder Planner::ChooseOrder(const Pattern& pattern, const std::vector<bool>& done,
                                        const MatchState& state) {
  WalkOrder best = PlainOrder(pattern, ChooseStart(pattern, done, state));
  const PatternPart& part = pattern[best.part];
  const bool large = view_.NodeCount(kNoToken) >= options_.statistics_from;
  const bool plain = part.kind == PatternPart::Kind::kPlain && state.relisted.empty();
  // Each choice looks at all that are left.
  if (pattern.size() > kMostCompared || part.edges.size() > kMostCompared) return best;
  if (!options_.shortcuts || !large || !plain) return best;
  Statistics statistics(view_);
  std::map<Slot, double> shares;
  Seek seek;
  StartCost(part, best.start, state, &seek);
  const bool found = !seek.values.empty() && seek.as != Step::Sought::kTable;
  // What is bound or found without a scan begins; a scan of few nodes needs no better one.
  if (found || best.cost <= static_cast<double>(options_.statistics_from)) {
    if (best.start == 0 || best.start == part.edges.size()) return best;
    const double cost = best.cost;
    const size_t index = best.part;
    best = OrderFrom(part, best.start, state, &statistics, &shares);
    best.part = index;
    best.cost = cost;
    return best;
  }
  best.cost = std::numeric_limits<double>::infinity();
  for (size_t p = 0; p < pattern.size(); ++p) {
    if (done[p] || pattern[p].kind != PatternPart::Kind::kPlain) continue;
    for (size_t n = 0; n < pattern[p].nodes.size(); ++n) {
      WalkOrder order = OrderFrom(pattern[p], n, state, &statistics, &shares);
      if (order.cost >= best.cost) continue;
      best = std::move(order);
      best.part = p;
    }
  }
  return best;
}

Planner::WalkOrder Planner::PlainOrder(const Pattern& pattern, const Start& start) {
  WalkOrder order;
  order.part = start.part;
  order.start = start.node;
  order.cost = start.cost;
  const size_t edges = pattern[start.part].edges.size();
  for (size_t i = start.node; i < edges; ++i) order.edges.emplace_back(i, true);
  for (size_t i = start.node; i > 0; --i) order.edges.emplace_back(i - 1, false);
  return order;
}

}  // namespace pulse::cypher
