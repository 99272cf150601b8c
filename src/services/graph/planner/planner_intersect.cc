// Two hops that meet in a new node become one step, which intersects the lists of their ends.
#include <utility>

#include "services/graph/planner/planner.h"

namespace pulse::cypher {

void Planner::Intersect(Steps* steps) const {
  if (!options_.shortcuts) return;
  for (Step& step : *steps) Intersect(&step.inner);
  for (size_t i = 0; i + 1 < steps->size(); ++i) {
    Step &first = (*steps)[i], &second = (*steps)[i + 1];
    if (first.kind != Step::Kind::kExpand || first.into) continue;
    if (second.kind != Step::Kind::kExpand || !second.into) continue;
    if ((second.from == first.slot) == (second.slot == first.slot)) continue;
    // There and back: the hop back looks at one list for all rows.
    if ((second.from == first.slot ? second.slot : second.from) == first.from) continue;
    Step both;
    both.kind = Step::Kind::kIntersect;
    both.slot = first.slot;
    both.live = second.live;
    both.all_live = second.all_live;
    both.inner.push_back(std::move(first));
    both.inner.push_back(std::move(second));
    (*steps)[i] = std::move(both);
    steps->erase(steps->begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

}  // namespace pulse::cypher
