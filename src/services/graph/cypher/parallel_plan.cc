// Which steps of a plan several threads may run.
#include <algorithm>

#include "services/graph/cypher/operators.h"
#include "services/graph/cypher/parallel.h"
#include "services/graph/functions/functions.h"

namespace pulse::cypher {
namespace {

bool IsSafe(const Plan& plan);

// Whether an expression has the same value whichever thread evaluates it, and however often others
// were evaluated before.
bool IsSafe(const Expr& e) {
  if (e.kind == Expr::Kind::kCall && e.function != nullptr) {
    if (!e.function->deterministic) return false;
    // The clock may be one that only the calling thread may ask.
    if (e.function->name.find("realtime") != std::string_view::npos) return false;
  }
  if (e.plan != nullptr && !IsSafe(*e.plan)) return false;
  return std::all_of(e.kids.begin(), e.kids.end(),
                     [](const ExprPtr& kid) { return kid == nullptr || IsSafe(*kid); });
}

bool AreSafe(const std::vector<const Expr*>& list) {
  return std::all_of(list.begin(), list.end(), [](const Expr* e) { return IsSafe(*e); });
}

bool HasSafeExpressions(const Step& step) {
  const auto safe = [](const Expr* e) { return e == nullptr || IsSafe(*e); };
  const auto first_safe = [&](const auto& pair) { return safe(pair.first); };
  return std::all_of(step.within.begin(), step.within.end(),
                     [](const auto& bound) { return IsSafe(*bound.second); }) &&
         AreSafe(step.predicates) && AreSafe(step.sought) && AreSafe(step.sought_by) &&
         safe(step.expr) && safe(step.top_skip) && safe(step.top_limit) &&
         AreSafe(step.arguments) && std::all_of(step.items.begin(), step.items.end(), first_safe) &&
         std::all_of(step.aggregates.begin(), step.aggregates.end(), first_safe) &&
         std::all_of(step.order.begin(), step.order.end(), first_safe) &&
         std::all_of(step.hops.begin(), step.hops.end(),
                     [](const QuantifiedHop& hop) { return AreSafe(hop.predicates); });
}

bool IsSafe(const Steps& steps) {
  return std::all_of(steps.begin(), steps.end(), [](const Step& step) {
    if (step.kind == Step::Kind::kProcedure || step.kind == Step::Kind::kLoadCsv) return false;
    return HasSafeExpressions(step) && IsSafe(step.inner) &&
           (step.subplan == nullptr || IsSafe(*step.subplan));
  });
}

// Of a subquery in an expression.
bool IsSafe(const Plan& plan) {
  return !plan.writes &&
         std::all_of(plan.branches.begin(), plan.branches.end(),
                     [](const Plan::Branch& branch) { return IsSafe(branch.steps); });
}

// Whether a step makes of each row what it makes, in the order of the rows, however these come in
// batches.
bool IsStreaming(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kScan:
    case Step::Kind::kExpand:
    case Step::Kind::kIntersect:
    case Step::Kind::kExpandVar:
    case Step::Kind::kQuantified:
    case Step::Kind::kEdge:
    case Step::Kind::kFilter:
    case Step::Kind::kPath:
    case Step::Kind::kProject:
    case Step::Kind::kUnwind:
      break;
    case Step::Kind::kCountPaths:
      // Of two hops, one row has the number of all paths.
      if (step.inner.size() != 1) return false;
      break;
    default:
      return false;
  }
  return HasSafeExpressions(step) && IsSafe(step.inner);
}

// Of all nodes of a label, or of the graph.
bool IsScan(const Step& step) { return step.kind == Step::Kind::kScan && step.sought.empty(); }

// Of nodes with one of several labels: it drops those that it has found by another label, and is
// one thread's.
bool IsUnionScan(const Step& step) { return IsScan(step) && !step.any_of.empty(); }

// A scan that makes a table for its second row, which does not come: all rows are made of the first
// one, by WITH.
bool IsTableOfOneRow(const Steps& steps, size_t at) {
  return steps[at].kind == Step::Kind::kScan && steps[at].sought_as == Step::Sought::kTable &&
         steps[at].any_of.empty() &&
         std::all_of(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(at),
                     [](const Step& step) { return step.kind == Step::Kind::kProject; });
}

bool IsLargeScan(const Steps& steps, size_t at, uint64_t from, EvalContext* context) {
  const Step& step = steps[at];
  if ((!IsScan(step) || IsUnionScan(step)) && !IsTableOfOneRow(steps, at)) return false;
  Token label = kNoToken;
  if (step.label >= 0) {
    label = context->Label(step.label);
    if (label == kNoToken) return false;
  }
  return context->graph->NodeCount(label) >= from;
}

bool IsWork(const Step& step) {
  return step.kind == Step::Kind::kScan || step.kind == Step::Kind::kExpand ||
         step.kind == Step::Kind::kIntersect || step.kind == Step::Kind::kExpandVar ||
         step.kind == Step::Kind::kQuantified || step.kind == Step::Kind::kCountPaths;
}

// What costs nothing where it stands.
bool IsSimple(const Expr& e) {
  return e.kind == Expr::Kind::kVariable || e.kind == Expr::Kind::kLiteral ||
         e.kind == Expr::Kind::kParameter;
}

// Property `a` is property `b`.
bool IsSameProperty(const Expr& a, const Expr& b) {
  const auto of_variable = [](const Expr& e) {
    return e.kind == Expr::Kind::kProperty && e.kids[0]->kind == Expr::Kind::kVariable &&
           e.kids[0]->slot >= 0;
  };
  return of_variable(a) && of_variable(b) && a.kids[0]->slot == b.kids[0]->slot && a.name == b.name;
}

}  // namespace

std::unique_ptr<ParallelPlan> ParallelPlan::Make(const Plan& plan, const ParallelOptions& options,
                                                 EvalContext* context) {
  if (options.threads < 2 || plan.writes || context->transaction != nullptr) return nullptr;
  // What begins with a look-up by an index is short, as a rule, and costs nothing here.
  const bool any =
      std::any_of(plan.branches.begin(), plan.branches.end(), [](const Plan::Branch& branch) {
        return std::any_of(branch.steps.begin(), branch.steps.end(), [](const Step& step) {
          return IsScan(step) || step.sought_as == Step::Sought::kTable;
        });
      });
  if (!any || context->graph->NodeCount(kNoToken) < options.from_nodes) return nullptr;
  std::unique_ptr<ParallelPlan> made(new ParallelPlan(options));
  bool sections = false;
  for (const Plan::Branch& branch : plan.branches) {
    made->Add(plan, branch.steps, context, &made->branches_.emplace_back());
    sections = sections || !made->branches_.back().empty();
  }
  if (!sections) return nullptr;
  return made;
}

// Stretches of steps that stream. In each, all from the first large scan on. Where there is none:
// behind what held rows back all of it, and at the beginning, which is one row, what follows a scan
// of several labels, or the first expansion. OPTIONAL and all before it are one thread's.
void ParallelPlan::Add(const Plan& plan, const Steps& steps, EvalContext* context,
                       std::vector<ParallelSection>* out) {
  size_t first = steps.size();
  while (first > 0 && steps[first - 1].kind != Step::Kind::kOptional) --first;
  for (size_t begin = first; begin < steps.size();) {
    if (!IsStreaming(steps[begin])) {
      ++begin;
      continue;
    }
    size_t end = begin, scan = steps.size();
    for (; end < steps.size() && IsStreaming(steps[end]); ++end) {
      if (scan == steps.size() && IsLargeScan(steps, end, options_.from_nodes, context)) scan = end;
    }
    ParallelSection section;
    section.scans = scan < end;
    section.begin = section.scans ? scan : begin;
    section.end = end;
    if (!section.scans && begin == 0) {
      while (section.begin < end && steps[section.begin].kind == Step::Kind::kScan) ++section.begin;
      if (section.begin == 0 || !IsUnionScan(steps[section.begin - 1])) {
        while (section.begin < end && !IsWork(steps[section.begin])) ++section.begin;
        if (section.begin < end) ++section.begin;
      }
    }
    const bool works = std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(section.begin),
                                   steps.begin() + static_cast<std::ptrdiff_t>(end), IsWork);
    if (works) {
      if (end < steps.size() && steps[end].kind == Step::Kind::kAggregate) {
        EvaluateInputs(plan, steps[end], &section);
      }
      out->push_back(std::move(section));
    }
    begin = end;
  }
}

void ParallelPlan::EvaluateInputs(const Plan& plan, const Step& aggregate,
                                  ParallelSection* section) {
  auto inputs = std::make_unique<Step>();
  inputs->kind = Step::Kind::kProject;
  auto changed = std::make_unique<Step>(aggregate);
  // A variable for an expression that the section evaluates; null: it stays as it is.
  const auto moved = [&](const Expr& e) -> ExprPtr {
    if (IsSimple(e) || !IsSafe(e)) return nullptr;
    const auto known = std::find_if(inputs->items.begin(), inputs->items.end(), [&](const auto& i) {
      return i.first == &e || IsSameProperty(*i.first, e);
    });
    auto variable = std::make_unique<Expr>();
    variable->kind = Expr::Kind::kVariable;
    variable->name = e.name;
    variable->types = e.types;
    if (known != inputs->items.end()) {
      variable->slot = known->second;
      return variable;
    }
    variable->slot = plan.width + static_cast<Slot>(inputs->items.size());
    inputs->items.emplace_back(&e, variable->slot);
    return variable;
  };
  for (auto& [expr, slot] : changed->items) {
    if (IsImpliedKey(aggregate, *expr)) continue;
    if (ExprPtr variable = moved(*expr)) {
      expr = variable.get();
      section->made.push_back(std::move(variable));
    }
  }
  for (auto& [expr, slot] : changed->aggregates) {
    if (expr->kind != Expr::Kind::kCall || expr->kids.size() != 1) continue;
    ExprPtr variable = moved(*expr->kids[0]);
    if (variable == nullptr) continue;
    auto call = std::make_unique<Expr>();
    call->kind = expr->kind;
    call->flag = expr->flag;
    call->pos = expr->pos;
    call->name = expr->name;
    call->types = expr->types;
    call->slot = expr->slot;
    call->function = expr->function;
    call->kids.push_back(std::move(variable));
    expr = call.get();
    section->made.push_back(std::move(call));
  }
  if (inputs->items.empty()) return;
  extra_slots_ = std::max(extra_slots_, static_cast<int>(inputs->items.size()));
  section->inputs = std::move(inputs);
  section->aggregate = std::move(changed);
}

}  // namespace pulse::cypher
