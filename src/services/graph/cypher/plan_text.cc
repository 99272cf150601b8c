// Plans as EXPLAIN shows them.
#include "services/graph/cypher/plan.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

std::string_view KindName(Step::Kind kind) {
  static constexpr std::string_view kNames[] = {
      "Scan",     "Expand",   "ExpandVariable", "ShortestPath", "FromRelationship", "Filter",
      "Path",     "Optional", "Project",        "Aggregate",    "AggregateColumns", "CountPaths",
      "Distinct", "Sort",     "Skip",           "Limit",        "Unwind",           "Procedure",
      "Subquery", "Create",   "Merge",          "Set",          "Delete",           "Foreach",
      "Eager"};
  return kNames[static_cast<int>(kind)];
}

void Append(const Steps& steps, const Plan& names, const StepRows* rows, int indent,
            std::string* out) {
  const auto name = [&names](int index) { return names.names[static_cast<size_t>(index)]; };
  for (const Step& step : steps) {
    *out += std::string(static_cast<size_t>(indent), ' ');
    *out += KindName(step.kind);
    if (step.label >= 0) *out += " :" + name(step.label);
    if (step.expr != nullptr && step.key >= 0) *out += " by index on " + name(step.key);
    if ((step.kind == Step::Kind::kScan ||
         (step.kind == Step::Kind::kColumns && !step.all_edges)) &&
        step.label < 0)
      *out += " all nodes";
    for (size_t i = 0; i < step.types.size(); ++i)
      *out += (i == 0 ? " :" : "|") + name(step.types[i]);
    if (step.direction != Direction::kBoth)
      *out += step.direction == Direction::kOut ? " out" : " in";
    if (step.into) *out += " into bound";
    if (step.kind == Step::Kind::kExpandVar) {
      *out += Concat(" *", step.min, "..", step.max < 0 ? std::string() : std::to_string(step.max));
    }
    if (!step.predicates.empty() &&
        (step.kind == Step::Kind::kFilter || step.kind == Step::Kind::kScan))
      *out += Concat(" (", step.predicates.size(), " predicates)");
    if (rows != nullptr) {
      const auto it = rows->find(&step);
      *out += Concat(" rows=", it == rows->end() ? uint64_t{0} : it->second);
    }
    *out += "\n";
    // The hops of CountPaths give no rows.
    const bool counted = step.kind != Step::Kind::kCountPaths;
    Append(step.inner, names, counted ? rows : nullptr, indent + 2, out);
    if (step.subplan != nullptr) {
      for (const Plan::Branch& branch : step.subplan->branches)
        Append(branch.steps, names, rows, indent + 2, out);
    }
  }
}

}  // namespace

std::string PlanText(const Plan& plan, const StepRows* rows) {
  std::string out;
  for (size_t i = 0; i < plan.branches.size(); ++i) {
    if (i > 0) out += plan.union_distinct ? "Union\n" : "Union all\n";
    Append(plan.branches[i].steps, plan, rows, 0, &out);
  }
  return out;
}

}  // namespace pulse::cypher
