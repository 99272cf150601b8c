// Where the relationships of a whole graph are aggregated by their properties alone, these are read
// by columns, and no relationship is looked at:
// MATCH ()-[e:E]->() WHERE e.w > 5 RETURN e.kind, count(*), sum(e.w).
#include <algorithm>
#include <map>

#include "services/graph/expressions/batch_filter.h"
#include "services/graph/planner/planner.h"

namespace pulse::cypher {
namespace {

// The slots of () -[e]-> (), and of the properties that take the place of e.
struct Subjects {
  Slot nodes[2], edge;
  std::map<int, Slot> properties;  // by name
};

bool IsEdge(const Expr& e, const Subjects& s) {
  return e.kind == Expr::Kind::kVariable && e.slot == s.edge;
}

// A count of the relationship, which is never null.
bool CountsEdges(const Expr& e, const Subjects& s) {
  return e.kind == Expr::Kind::kCall && e.function != nullptr && !e.flag &&
         e.function->aggregate == Aggregate::kCount && IsEdge(*e.kids[0], s);
}

// Whether an expression asks for nothing but properties of the relationship.
bool AsksForProperties(const Expr& e, Subjects* s) {
  if (e.plan != nullptr || CountsEdges(e, *s)) return e.plan == nullptr;
  if (e.kind == Expr::Kind::kProperty && IsEdge(*e.kids[0], *s)) {
    s->properties.emplace(e.slot2, -1);
    return true;
  }
  if (e.kind == Expr::Kind::kVariable) {
    return e.slot != s->edge && e.slot != s->nodes[0] && e.slot != s->nodes[1];
  }
  return std::all_of(e.kids.begin(), e.kids.end(), [s](const ExprPtr& kid) {
    return kid == nullptr || AsksForProperties(*kid, s);
  });
}

// The slots of the properties take the relationship's place.
void Replace(Expr* e, const Subjects& s) {
  if (CountsEdges(*e, s)) {
    e->kind = Expr::Kind::kCountStar;
    e->kids.clear();
  } else if (e->kind == Expr::Kind::kProperty && IsEdge(*e->kids[0], s)) {
    e->kind = Expr::Kind::kVariable;
    e->slot = s.properties.at(e->slot2);
    e->kids.clear();
  }
  for (const ExprPtr& kid : e->kids) {
    if (kid != nullptr) Replace(kid.get(), s);
  }
}

bool HasRegex(const Expr& e) {
  return e.op == Op::kRegex || std::any_of(e.kids.begin(), e.kids.end(), [](const ExprPtr& kid) {
           return kid != nullptr && HasRegex(*kid);
         });
}

bool IsTest(const Expr& e) {
  if (e.kind != Expr::Kind::kBinary || !IsComparison(e.op)) return false;
  const auto constant = [](const Expr& kid) {
    return kid.kind == Expr::Kind::kLiteral || kid.kind == Expr::Kind::kParameter;
  };
  const Expr &left = *e.kids[0], &right = *e.kids[1];
  return (left.kind == Expr::Kind::kVariable && constant(right)) ||
         (constant(left) && right.kind == Expr::Kind::kVariable);
}

}  // namespace

void Planner::ScanByProperties(Steps* steps) {
  if (steps->size() < 3) return;
  const Step &scan = (*steps)[0], &expand = (*steps)[1];
  if (scan.kind != Step::Kind::kScan || scan.label >= 0 || !scan.any_of.empty()) return;
  if (!scan.sought.empty() || !scan.predicates.empty()) return;
  if (expand.kind != Step::Kind::kExpand || expand.into || expand.edge < 0) return;
  if (expand.direction == Direction::kBoth || !expand.unique.empty()) return;
  if (!expand.predicates.empty()) return;
  const size_t filters = (*steps)[2].kind == Step::Kind::kFilter ? 1 : 0;
  if (steps->size() < 3 + filters) return;
  Step& aggregate = (*steps)[2 + filters];
  if (aggregate.kind != Step::Kind::kAggregate || aggregate.weight >= 0) return;
  std::vector<const Expr*> asked;
  if (filters > 0) asked = (*steps)[2].predicates;
  // Others may take long, and are for several threads.
  for (const Expr* e : asked) {
    Slot slot = -1;
    if (!IsPurePredicate(*e, &slot) || HasRegex(*e)) return;
  }
  for (const auto& [e, slot] : aggregate.items) asked.push_back(e);
  for (const auto& [e, slot] : aggregate.aggregates) asked.push_back(e);
  Subjects subjects{{scan.slot, expand.slot}, expand.edge, {}};
  if (!std::all_of(asked.begin(), asked.end(),
                   [&](const Expr* e) { return AsksForProperties(*e, &subjects); }) ||
      subjects.properties.empty()) {
    return;
  }
  Step columns;
  columns.kind = Step::Kind::kEdgeColumns;
  columns.types = expand.types;
  for (auto& [name, slot] : subjects.properties) {
    // One that no expression has written to: slots of earlier clauses are free by now, and in use
    // by the variables of comprehensions.
    slot = static_cast<Slot>(used_.size());
    used_.push_back(true);
    columns.outputs.emplace_back(static_cast<Slot>(columns.keys.size()), slot);
    columns.keys.push_back(name);
  }
  // The expressions are the plan's, which is not complete yet. One may be asked for twice.
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  for (const Expr* e : asked) Replace(const_cast<Expr*>(e), subjects);
  if (filters > 0) {
    std::erase_if((*steps)[2].predicates, [&columns](const Expr* e) {
      if (IsTest(*e)) columns.predicates.push_back(e);
      return IsTest(*e);
    });
    if ((*steps)[2].predicates.empty()) steps->erase(steps->begin() + 2);
  }
  steps->erase(steps->begin());
  steps->front() = std::move(columns);
}

}  // namespace pulse::cypher
