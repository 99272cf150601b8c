// Shortcuts: predicates that are tested while nodes are scanned, and paths that are counted without
// being made.
#include <algorithm>

#include "services/graph/cypher/batch_filter.h"
#include "services/graph/cypher/functions.h"
#include "services/graph/cypher/planner.h"

namespace pulse::cypher {
namespace {

// The last hop of steps[0, end): an Expand to a node that nothing else binds, and behind it at most
// a filter on that node alone.
bool FindHop(const Steps& steps, size_t end, size_t* begin) {
  if (end == 0) return false;
  size_t at = end - 1;
  if (steps[at].kind == Step::Kind::kFilter && at > 0) --at;
  const Step& expand = steps[at];
  // Relationships of an earlier clause may be deleted by now: then a degree has nothing of them.
  if (expand.kind != Step::Kind::kExpand || expand.into || expand.relisted) return false;
  *begin = at;
  if (at + 1 == end) return true;
  const auto& predicates = steps[end - 1].predicates;
  return std::all_of(predicates.begin(), predicates.end(), [&expand](const Expr* predicate) {
    Slot slot = -1;
    return IsBatchable(*predicate, &slot) && slot == expand.slot;
  });
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

// What the filter behind a scan asks of its node goes into the scan, which makes no rows of others.
void Planner::FilterInScan(Steps* steps, size_t at) const {
  Step& scan = (*steps)[at];
  if (!options_.shortcuts || scan.expr != nullptr || at + 2 != steps->size()) return;
  Step& filter = steps->back();
  if (filter.kind != Step::Kind::kFilter) return;
  std::erase_if(filter.predicates, [&scan](const Expr* predicate) {
    Slot slot = -1;
    if (!IsBatchable(*predicate, &slot) || slot != scan.slot) return false;
    scan.predicates.push_back(predicate);
    return true;
  });
  if (filter.predicates.empty()) steps->pop_back();
}

// Where an aggregate only counts the last hop or two of a pattern, these become one step, which
// says how many rows there would be.
void Planner::CountPaths(Step* aggregate, Steps* steps) {
  size_t last = 0, first = 0;
  if (!FindHop(*steps, steps->size(), &last)) return;
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
  if (aggregate->items.empty() && FindHop(*steps, last, &first) &&
      (*steps)[first].slot == (*steps)[last].from) {
    std::set<Slot> both = gone, known;
    add((*steps)[first], &both, &known);
    const auto& aggregates = aggregate->aggregates;
    if (std::all_of(aggregates.begin(), aggregates.end(),
                    [&](const auto& a) { return CountsRows(*a.first, known); })) {
      begin = first;
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
