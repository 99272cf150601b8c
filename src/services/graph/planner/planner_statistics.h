// What the planner estimates patterns by: samples of the graph's nodes, on which it evaluates
// predicates and counts relationships. Nothing is kept between queries; a plan that is kept stays
// right, if not the best, when the graph changes.
//
// One thread, as the planner that it belongs to. Reads block on the graph; where one fails, the
// estimate is a guess, and the execution will report the error.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "services/graph/expressions/eval.h"

namespace pulse::cypher {

class Statistics {
 public:
  explicit Statistics(const GraphView& view) : view_(view) {}

  // Nodes with the label; empty: all.
  double Nodes(const std::string& label) const;

  // The share of the nodes with a label for which predicates on one variable, in `slot`, hold.
  // `names` are those of the plan.
  double Share(const std::string& label, Slot slot, std::span<const Expr* const> predicates,
               const std::vector<std::string>& names, size_t width);

  // How many nodes with a label have the same value of a property, of those that have one.
  double Alike(const std::string& label, const std::string& key);

  // Of nodes with label `from`: how many relationships of the types each has, and the share of
  // these that lead to a node with label `to`.
  struct Hop {
    double degree = 0;
    double share = 1;
  };
  Hop HopOf(const std::string& from, Direction direction, const std::vector<std::string>& types,
            const std::string& to);

 private:
  const std::vector<NodeId>& Sample(const std::string& label);

  const GraphView& view_;
  std::map<std::string, std::vector<NodeId>> samples_;
  std::map<std::tuple<std::string, Direction, std::vector<std::string>, std::string>, Hop> hops_;
};

}  // namespace pulse::cypher
