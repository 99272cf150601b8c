// What finds the nodes of a pattern. Indexes: by equal values of a key, or of all keys of an index,
// by several values of a key (OR), and by the items of a list (IN). Their numbers: what id() and
// elementId() are equal to. A table, where a property is equal to a value that differs from row to
// row, and no index serves.
#include <algorithm>

#include "services/graph/planner/planner.h"

namespace pulse::cypher {
namespace {

// Of looking for one value in an index, against looking at one node of a label.
constexpr double kSeekCost = 2;
// Items of a list that is not known yet.
constexpr double kListGuess = 16;
// Of the nodes with a label, that are within bounds.
constexpr double kRangeGuess = 0.3;
// Rows that share a table.
constexpr double kRowsGuess = 16;

// The key, if it is a property of the node in the slot.
const Expr* PropertyOf(const Expr& e, Slot slot) {
  const bool is = e.kind == Expr::Kind::kProperty && e.kids[0]->kind == Expr::Kind::kVariable &&
                  e.kids[0]->slot == slot;
  return is ? &e : nullptr;
}

// A property of the node, and the value that it is equal to.
std::pair<const Expr*, const Expr*> EqualIn(const Expr& e, Slot slot) {
  if (e.kind != Expr::Kind::kBinary || e.op != Op::kEq) return {};
  for (const size_t side : {0, 1}) {
    const Expr* const property = PropertyOf(*e.kids[side], slot);
    if (property != nullptr) return {property, e.kids[1 - side].get()};
  }
  return {};
}

// A property of the node, and what bounds its value.
struct BoundOf {
  const Expr* property = nullptr;
  Bound::Kind kind = Bound::Kind::kAtLeast;
  const Expr* value = nullptr;
};

void AddBound(const Expr& left, Op op, const Expr& right, Slot slot, std::vector<BoundOf>* out) {
  using Kind = Bound::Kind;
  const bool less = op == Op::kLt || op == Op::kLe, more = op == Op::kGt || op == Op::kGe;
  const bool begins = op == Op::kStartsWith;
  if (!less && !more && !begins) return;
  if (const Expr* property = PropertyOf(left, slot)) {
    const Kind kind = begins ? Kind::kBeginsWith : less ? Kind::kAtMost : Kind::kAtLeast;
    out->push_back({property, kind, &right});
  }
  const Expr* const property = begins ? nullptr : PropertyOf(right, slot);
  if (property != nullptr) out->push_back({property, less ? Kind::kAtLeast : Kind::kAtMost, &left});
}

std::vector<BoundOf> BoundsIn(const Expr& e, Slot slot) {
  std::vector<BoundOf> bounds;
  if (e.kind == Expr::Kind::kBinary) AddBound(*e.kids[0], e.op, *e.kids[1], slot, &bounds);
  for (size_t i = 0; e.kind == Expr::Kind::kChain && i < e.ops.size(); ++i) {
    AddBound(*e.kids[i], e.ops[i], *e.kids[i + 1], slot, &bounds);
  }
  return bounds;
}

// The alternatives of a predicate like n.k = 1 OR n.k = 2.
bool AlternativesIn(const Expr& e, Slot slot, const Expr** property,
                    std::vector<const Expr*>* values) {
  std::vector<const Expr*> parts;
  Flatten(e, Op::kOr, &parts);
  for (const Expr* part : parts) {
    const auto [found, value] = EqualIn(*part, slot);
    if (found == nullptr || (*property != nullptr && (*property)->slot2 != found->slot2)) {
      return false;
    }
    *property = found;
    values->push_back(value);
  }
  return true;
}

// id(n) or elementId(n) of the node in the slot.
bool IsNumberOf(const Expr& e, Slot slot) {
  return e.kind == Expr::Kind::kCall && e.function != nullptr &&
         (e.function->name == "id" || e.function->name == "elementId") &&
         e.kids[0]->kind == Expr::Kind::kVariable && e.kids[0]->slot == slot;
}

bool IsDeterministic(const Expr& e) {
  if (e.kind == Expr::Kind::kCall && (e.function == nullptr || !e.function->deterministic)) {
    return false;
  }
  return std::all_of(e.kids.begin(), e.kids.end(),
                     [](const ExprPtr& kid) { return kid == nullptr || IsDeterministic(*kid); });
}

double ItemsOf(const Expr& list) {
  if (list.kind == Expr::Kind::kList) return static_cast<double>(list.kids.size());
  if (list.kind != Expr::Kind::kLiteral || !list.value.is_list()) return kListGuess;
  return static_cast<double>(list.value.as_list().size());
}

}  // namespace

// Whether rows have by now what the expression needs.
bool Planner::IsReady(const Expr& value, const MatchState& state) const {
  std::set<Slot> needs;
  bool opaque = false;
  Slots(value, &needs, &opaque);
  return !opaque &&
         std::all_of(needs.begin(), needs.end(), [&](Slot slot) { return IsBound(slot, state); });
}

// Whether each of the labels has an index that begins with the key. Labels that the graph does not
// have need none.
bool Planner::EveryHasIndex(const std::vector<std::string>& labels,
                            std::optional<Token> key) const {
  return key && std::all_of(labels.begin(), labels.end(), [&](const std::string& name) {
           const auto label = view_.FindLabel(name);
           return !label || view_.HasIndex(*label, {&*key, 1});
         });
}

// By equal values: the index with the most keys that all have one.
bool Planner::FindEqual(const NodePattern& node, const std::vector<std::string>& labels,
                        const MatchState& state, Seek* seek) const {
  struct Equal {
    std::optional<Token> token;
    const Expr *property, *value, *predicate;
  };
  std::vector<Equal> equals;
  for (const Predicate& p : state.predicates) {
    const auto [property, value] = EqualIn(*p.expr, node.slot);
    if (property == nullptr || !IsReady(*value, state)) continue;
    equals.push_back({view_.FindKey(property->name), property, value, p.expr});
  }
  std::vector<const Equal*> chosen;
  for (const Equal& equal : equals) {
    if (!EveryHasIndex(labels, equal.token)) continue;
    chosen = {&equal};
    break;
  }
  const auto label = labels.size() == 1 ? view_.FindLabel(labels[0]) : std::nullopt;
  std::vector<std::vector<Token>> wide;
  if (label && equals.size() > 1) wide = view_.WideIndexes(*label);
  for (const std::vector<Token>& keys : wide) {
    std::vector<const Equal*> all;
    for (const Token key : keys) {
      const auto found = std::find_if(equals.begin(), equals.end(),
                                      [key](const Equal& e) { return e.token == key; });
      if (found != equals.end()) all.push_back(&*found);
    }
    if (all.size() == keys.size() && all.size() > chosen.size()) chosen = std::move(all);
  }
  for (const Equal* equal : chosen) {
    seek->keys.push_back(equal->property->slot2);
    seek->values.push_back(equal->value);
    seek->predicates.push_back(equal->predicate);
  }
  seek->cost = static_cast<double>(labels.size());
  return !chosen.empty();
}

// By several values of one key.
bool Planner::FindAnyOf(const NodePattern& node, const std::vector<std::string>& labels,
                        const MatchState& state, Seek* seek) const {
  for (const Predicate& p : state.predicates) {
    const Expr& e = *p.expr;
    if (e.kind != Expr::Kind::kBinary) continue;
    const Expr* property = nullptr;
    std::vector<const Expr*> values;
    double count = 0;
    if (e.op == Op::kIn) {
      property = PropertyOf(*e.kids[0], node.slot);
      values.push_back(e.kids[1].get());
      count = ItemsOf(*values[0]);
    } else if (e.op == Op::kOr && AlternativesIn(e, node.slot, &property, &values)) {
      count = static_cast<double>(values.size());
    } else {
      continue;
    }
    const bool ready = std::all_of(values.begin(), values.end(),
                                   [&](const Expr* value) { return IsReady(*value, state); });
    if (property == nullptr || !ready) continue;
    if (!EveryHasIndex(labels, view_.FindKey(property->name))) continue;
    seek->keys = {property->slot2};
    seek->values = std::move(values);
    seek->as = e.op == Op::kIn ? Step::Sought::kInList : Step::Sought::kAny;
    seek->predicates = {&e};
    seek->cost = static_cast<double>(labels.size()) * kSeekCost * count;
    return true;
  }
  return false;
}

// False: no index finds nodes of each of these labels for less than `most`.
bool Planner::FindSeek(const NodePattern& node, const std::vector<std::string>& labels,
                       const MatchState& state, double most, Seek* seek) const {
  Seek found;
  found.labels = labels;
  if (!FindEqual(node, labels, state, &found) && !FindAnyOf(node, labels, state, &found)) {
    return false;
  }
  if (found.as != Step::Sought::kAll && found.cost >= most) return false;
  *seek = std::move(found);
  return true;
}

// By comparisons with values of one key, of which an index has the order.
Planner::Range Planner::FindRange(const NodePattern& node, const std::string& label,
                                  const MatchState& state) const {
  if (!options_.shortcuts) return {};
  std::vector<Range> ranges;
  const auto add = [&](const BoundOf& bound) {
    if (!IsReady(*bound.value, state) || !IsDeterministic(*bound.value)) return;
    const Slot key = bound.property->slot2;
    auto range = std::find_if(ranges.begin(), ranges.end(),
                              [key](const Range& r) { return r.property->slot2 == key; });
    if (range == ranges.end()) {
      if (!EveryHasIndex({label}, view_.FindKey(bound.property->name))) return;
      range = ranges.insert(ranges.end(), Range{bound.property, {}});
    }
    range->bounds.emplace_back(bound.kind, bound.value);
  };
  for (const Predicate& p : state.predicates) {
    for (const BoundOf& bound : BoundsIn(*p.expr, node.slot)) add(bound);
  }
  // The one with the most bounds: two are of both ends, most often.
  const auto most = std::max_element(
      ranges.begin(), ranges.end(),
      [](const Range& a, const Range& b) { return a.bounds.size() < b.bounds.size(); });
  return most == ranges.end() ? Range() : std::move(*most);
}

// By its number, or one of a list of numbers.
bool Planner::FindById(const NodePattern& node, const MatchState& state, Seek* seek) const {
  if (!options_.shortcuts) return false;
  for (const Predicate& p : state.predicates) {
    const Expr& e = *p.expr;
    if (e.kind != Expr::Kind::kBinary || (e.op != Op::kEq && e.op != Op::kIn)) continue;
    const bool list = e.op == Op::kIn;
    const bool left = IsNumberOf(*e.kids[0], node.slot);
    if (!left && (list || !IsNumberOf(*e.kids[1], node.slot))) continue;
    const Expr& value = *e.kids[left ? 1 : 0];
    if (!IsReady(value, state) || !IsDeterministic(value)) continue;
    seek->values = {&value};
    seek->as = list ? Step::Sought::kIdInList : Step::Sought::kId;
    seek->cost = list ? kSeekCost * ItemsOf(value) : 1;
    return true;
  }
  return false;
}

// By all properties that are equal to values which rows have by now.
bool Planner::FindTable(const NodePattern& node, const MatchState& state, Seek* seek) const {
  if (!options_.shortcuts || !state.tables) return false;
  const auto differs = [this](Slot slot) {
    return std::any_of(scope_.begin(), scope_.end(),
                       [slot](const auto& variable) { return variable.second.slot == slot; });
  };
  for (const Predicate& p : state.predicates) {
    const auto [property, value] = EqualIn(*p.expr, node.slot);
    if (property == nullptr || !IsReady(*value, state) || !IsDeterministic(*value)) continue;
    std::set<Slot> needs;
    bool opaque = false;
    Slots(*value, &needs, &opaque);
    // Else it is the same for all rows.
    if (std::none_of(needs.begin(), needs.end(), differs)) continue;
    seek->keys.push_back(property->slot2);
    seek->values.push_back(value);
  }
  seek->as = seek->values.empty() ? Step::Sought::kAll : Step::Sought::kTable;
  return !seek->values.empty();
}

// What it costs to find the node first, and by what, if not by a scan.
double Planner::StartCost(const PatternPart& part, size_t node, const MatchState& state,
                          Seek* seek) const {
  const NodePattern& n = part.nodes[node];
  *seek = {};
  if (IsBound(n.slot, state)) return 0;
  Seek by_id;
  const bool has_id = FindById(n, state, &by_id);
  if (has_id && by_id.as == Step::Sought::kId) return *seek = std::move(by_id), seek->cost;
  double cost = 4.0 * static_cast<double>(view_.NodeCount(kNoToken)) + 8;
  for (const std::string& name : n.labels) {
    const auto label = view_.FindLabel(name);
    if (!label) return 0.5;
    const double share = FindRange(n, name, state).property == nullptr ? 1 : kRangeGuess;
    cost = std::min(cost, 2.0 * share * static_cast<double>(view_.NodeCount(*label)) + 2);
    if (FindSeek(n, {name}, state, cost, seek)) return seek->cost;
  }
  if (!n.any_of.empty()) {
    cost = std::min(cost, 3.0 * CountOf(n.any_of) + 3);
    if (FindSeek(n, n.any_of, state, cost, seek)) return seek->cost;
  }
  if (has_id && by_id.cost < cost) return *seek = std::move(by_id), seek->cost;
  return FindTable(n, state, seek) ? 3 + cost / kRowsGuess : cost;
}

// Predicates that hold for all that the seek finds, and need no look at it.
void Planner::DropSought(const Seek& seek, Step* scan, MatchState* state) const {
  scan->sought_by = seek.predicates;
  if (!options_.shortcuts) return;
  std::erase_if(state->predicates, [&](const Predicate& p) {
    return std::find(seek.predicates.begin(), seek.predicates.end(), p.expr) !=
           seek.predicates.end();
  });
}

}  // namespace pulse::cypher
