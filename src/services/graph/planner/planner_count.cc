// Shortcuts: predicates that are tested while nodes are scanned, and paths that are counted without
// being made.
#include <algorithm>

#include "services/graph/expressions/batch_filter.h"
#include "services/graph/functions/functions.h"
#include "services/graph/planner/planner.h"

namespace pulse::cypher {
namespace {

// Whether the last of steps[0, end) is an Expand to a node that nothing else binds, and that no
// predicate is about but those in the step.
bool IsHop(const Steps& steps, size_t end) {
  if (end == 0) return false;
  const Step& expand = steps[end - 1];
  // Relationships of an earlier clause may be deleted by now: then a degree has nothing of them.
  return expand.kind == Step::Kind::kExpand && !expand.into && !expand.relisted;
}

bool IsCount(const Expr& e) {
  return e.kind == Expr::Kind::kCountStar ||
         (e.function->aggregate == Aggregate::kCount && !e.flag);
}

// count(*), or count(x) of a node or relationship that no row lacks.
bool CountsRows(const Expr& e, const std::set<Slot>& never_null) {
  return e.kind == Expr::Kind::kCountStar ||
         (IsCount(e) && e.kids[0]->kind == Expr::Kind::kVariable &&
          never_null.contains(e.kids[0]->slot));
}

}  // namespace

// What the filter behind a scan or an expansion asks of its node goes into it: no rows are made of
// others.
void Planner::FilterInStep(Steps* steps, size_t at) const {
  Step& scan = (*steps)[at];
  const bool seeks = !scan.sought.empty() && scan.sought_as != Step::Sought::kTable;
  if (!options_.shortcuts || seeks || at + 2 != steps->size()) return;
  if (scan.kind != Step::Kind::kScan && (scan.kind != Step::Kind::kExpand || scan.into)) return;
  Step& filter = steps->back();
  if (filter.kind != Step::Kind::kFilter) return;
  std::erase_if(filter.predicates, [&scan](const Expr* predicate) {
    Slot slot = -1;
    if (!IsPurePredicate(*predicate, &slot) || slot != scan.slot) return false;
    scan.predicates.push_back(predicate);
    return true;
  });
  if (filter.predicates.empty()) steps->pop_back();
}

// Where an aggregate only counts the last hop or two of a pattern, these become one step, which
// says how many rows there would be.
void Planner::CountPaths(Step* aggregate, Steps* steps) {
  if (!IsHop(*steps, steps->size())) return;
  const size_t last = steps->size() - 1;
  const auto add = [](const Step& expand, std::set<Slot>* gone, std::set<Slot>* never_null) {
    for (const Slot slot : {expand.slot, expand.edge}) {
      if (slot >= 0) gone->insert(slot);
    }
    *never_null = *gone;
    never_null->insert(expand.from);
  };
  std::set<Slot> gone, never_null;
  add((*steps)[last], &gone, &never_null);
  const auto uses_gone = [&gone](const Expr& e) {
    std::set<Slot> slots;
    bool opaque = false;
    Slots(e, &slots, &opaque);
    return opaque ||
           std::any_of(slots.begin(), slots.end(), [&](Slot s) { return gone.contains(s); });
  };
  for (const auto& [key, slot] : aggregate->items) {
    if (uses_gone(*key)) return;
  }
  for (const auto& [e, slot] : aggregate->aggregates) {
    if (CountsRows(*e, never_null)) continue;
    const Aggregate kind = e->function->aggregate;
    const bool weighted =
        IsCount(*e) || e->flag || kind == Aggregate::kMin || kind == Aggregate::kMax;
    const bool uses = std::any_of(e->kids.begin(), e->kids.end(),
                                  [&](const ExprPtr& kid) { return uses_gone(*kid); });
    if (!weighted || uses) return;
  }
  // Two of them where nothing else is asked for.
  size_t begin = last;
  if (aggregate->items.empty() && IsHop(*steps, last) &&
      (*steps)[last - 1].slot == (*steps)[last].from) {
    std::set<Slot> both = gone, known;
    add((*steps)[last - 1], &both, &known);
    const auto& aggregates = aggregate->aggregates;
    if (std::all_of(aggregates.begin(), aggregates.end(),
                    [&](const auto& a) { return CountsRows(*a.first, known); })) {
      begin = last - 1;
      never_null = known;
    }
  }
  Step count;
  count.kind = Step::Kind::kCountPaths;
  count.slot = Allocate();
  count.from = (*steps)[begin].from;
  for (size_t i = begin; i < steps->size(); ++i) count.inner.push_back(std::move((*steps)[i]));
  steps->resize(begin);
  aggregate->weight = count.slot;
  steps->push_back(std::move(count));
  for (auto& [e, slot] : aggregate->aggregates) {
    if (!CountsRows(*e, never_null)) continue;
    auto star = std::make_unique<Expr>();
    star->kind = Expr::Kind::kCountStar;
    star->slot = slot;
    e = Own(std::move(star));
  }
}

}  // namespace pulse::cypher
