// Which slots the steps behind a step read: all that rows need to have. A relationship that is only
// compared with others is kept as its number.
#include "services/graph/planner/planner.h"

namespace pulse::cypher {
namespace {

// Slots of some steps. `all` where they cannot be told.
struct Used {
  std::set<Slot> slots;
  bool all = false;

  void Add(Slot slot) {
    if (slot >= 0) slots.insert(slot);
  }
  void Add(const Expr* e) {
    if (e == nullptr) return;
    if (e->plan != nullptr) all = true;
    // Also those that hold aggregates, and elements of lists.
    Add(e->slot);
    for (const ExprPtr& kid : e->kids) Add(kid.get());
  }
};

// What a step reads. `numbers` has what it reads as the number of a relationship alone.
void AddStep(const Step& step, Used* used, Used* numbers) {
  switch (step.kind) {
    case Step::Kind::kScan:
    case Step::Kind::kEdgeColumns:
    case Step::Kind::kFilter:
    case Step::Kind::kUnwind:
    case Step::Kind::kLoadCsv:
    case Step::Kind::kSkip:
    case Step::Kind::kLimit:
      break;
    case Step::Kind::kExpand:
      used->Add(step.from);
      if (step.into) used->Add(step.slot);
      for (const Slot slot : step.unique) numbers->Add(slot);
      break;
    case Step::Kind::kQuantified:
      used->Add(step.from);
      if (step.into) used->Add(step.slot);
      for (const Slot slot : step.unique) numbers->Add(slot);
      for (const QuantifiedHop& hop : step.hops) {
        for (const Expr* predicate : hop.predicates) used->Add(predicate);
      }
      break;
    case Step::Kind::kCountPaths:
      for (const Step& hop : step.inner) {
        AddStep(hop, used, used);
        used->Add(hop.slot);
        used->Add(hop.edge);
      }
      break;
    case Step::Kind::kProject:
    case Step::Kind::kAggregate:
      for (const auto& [expr, slot] : step.items) used->Add(expr);
      for (const auto& [expr, slot] : step.aggregates) used->Add(expr);
      used->Add(step.weight);
      break;
    case Step::Kind::kDistinct:
      for (const auto& [expr, slot] : step.items) used->Add(slot);
      break;
    case Step::Kind::kImport:
      break;
    case Step::Kind::kSort:
      for (const auto& [expr, descending] : step.order) used->Add(expr);
      break;
    default:
      used->all = true;
  }
  for (const Expr* predicate : step.predicates) used->Add(predicate);
  for (const Expr* predicate : step.of_path) used->Add(predicate);
  for (const auto& [bound, less] : step.most_lengths) used->Add(bound);
  for (const Step::PathTest& test : step.tests) used->Add(test.expr);
  used->Add(step.expr);
  for (const Expr* sought : step.sought) used->Add(sought);
  for (const auto& [kind, value] : step.within) used->Add(value);
  for (const Expr* predicate : step.sought_by) used->Add(predicate);
}

}  // namespace

void Planner::FindLive(Plan::Branch* branch) {
  Used used, numbers;
  for (const Slot slot : branch->outputs) used.Add(slot);
  // Others copy rows in ways of their own.
  const auto known = [](Step::Kind kind) {
    return kind == Step::Kind::kScan || kind == Step::Kind::kExpand ||
           kind == Step::Kind::kEdgeColumns || kind == Step::Kind::kQuantified ||
           kind == Step::Kind::kFilter || kind == Step::Kind::kAggregate ||
           kind == Step::Kind::kDistinct || kind == Step::Kind::kSort ||
           kind == Step::Kind::kUnwind || kind == Step::Kind::kLoadCsv ||
           kind == Step::Kind::kCountPaths;
  };
  for (auto step = branch->steps.rbegin(); step != branch->steps.rend(); ++step) {
    // What the step itself makes is no part of the row that it copies, which does no harm.
    std::set<Slot> live = used.slots;
    live.insert(numbers.slots.begin(), numbers.slots.end());
    if (step->kind == Step::Kind::kExpand && step->edge >= 0) {
      step->edge_number = !used.slots.contains(step->edge);
      if (!live.contains(step->edge)) step->edge = -1;
    }
    if (step->kind == Step::Kind::kQuantified) {
      if (!live.contains(step->edge)) step->edge = -1;
      std::erase_if(step->groups, [&](const auto& group) { return !live.contains(group.slot); });
    }
    AddStep(*step, &used, &numbers);
    if (used.all) return;
    if (!known(step->kind)) continue;
    // A filter drops rows by one predicate before it looks at the next.
    if (step->kind == Step::Kind::kFilter) live.insert(used.slots.begin(), used.slots.end());
    step->live.assign(live.begin(), live.end());
    step->all_live = false;
  }
}

// The slots of what goes through it are the columns.
void Planner::Unite(Plan* plan) {
  Step& distinct = plan->unite.emplace_back();
  distinct.kind = Step::Kind::kDistinct;
  distinct.all_live = false;
  for (size_t i = 0; i < plan->columns.size(); ++i) {
    distinct.live.push_back(static_cast<Slot>(i));
    distinct.items.emplace_back(nullptr, distinct.live.back());
  }
  // What is spilled goes on when all parts have run: a node that one of them changes would be
  // another one by then.
  distinct.spills = !plan_->writes;
}

}  // namespace pulse::cypher
