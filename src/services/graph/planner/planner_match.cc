// MATCH: in which order a pattern's nodes and relationships are found. What is bound begins, then
// what an index finds, then the smallest label; predicates apply as soon as what they need is
// there.
#include <algorithm>
#include <utility>

#include "services/graph/model/text.h"
#include "services/graph/planner/planner.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

// Of one pattern: choosing where to begin looks at all that are left.
constexpr size_t kMostParts = 1000;

// Who owns the conjuncts of a predicate, which is not evaluated as a whole.
void AddConjuncts(ExprPtr* tree, std::map<const Expr*, ExprPtr*>* owners) {
  if (*tree == nullptr) return;
  (*owners)[tree->get()] = tree;
  if ((*tree)->kind != Expr::Kind::kBinary || (*tree)->op != Op::kAnd) return;
  for (ExprPtr& kid : (*tree)->kids) AddConjuncts(&kid, owners);
}

}  // namespace

void Planner::DeclareNode(NodePattern* node, MatchState* state) {
  const auto it = node->variable.empty() ? scope_.end() : scope_.find(node->variable);
  if (it == scope_.end()) {
    node->slot = Declare(node->variable, kNodeType);
    state->fresh.insert(node->slot);
    return;
  }
  if ((it->second.types & (kNodeType | kNullType)) == 0) {
    return Fail("VariableTypeConflict", node->pos, Concat("`", node->variable, "` is no node"));
  }
  it->second.types = it->second.types == kAnyType ? kNodeType | kNullType : it->second.types;
  node->slot = it->second.slot;
  LookedUp(node->slot);
}

void Planner::DeclareEdge(EdgePattern* edge, MatchState* state, bool needed) {
  const auto it = edge->variable.empty() ? scope_.end() : scope_.find(edge->variable);
  const uint32_t type = edge->variable_length ? kListType : kEdgeType;
  if (it != scope_.end()) {
    if ((it->second.types & (type | kNullType)) == 0) {
      return Fail("VariableTypeConflict", edge->pos,
                  Concat("`", edge->variable, "` is no ",
                         edge->variable_length ? "list of relationships" : "relationship"));
    }
    if (state->fresh.contains(it->second.slot)) {
      return Fail("RelationshipUniquenessViolation", edge->pos,
                  Concat("`", edge->variable, "` cannot be two relationships of one pattern"));
    }
    edge->slot = it->second.slot;
    LookedUp(edge->slot);
    state->relisted.insert(edge->slot);
    return;
  }
  if (!needed && edge->variable.empty()) return;
  edge->slot = Declare(edge->variable, type);
  state->fresh.insert(edge->slot);
}

void Planner::DeclarePattern(Pattern* pattern, MatchState* state) {
  size_t edges = 0;
  for (const PatternPart& part : *pattern) edges += part.edges.size();
  for (PatternPart& part : *pattern) {
    const bool path = !part.path.empty();
    for (size_t i = 0; i < part.nodes.size() && !failed(); ++i) {
      DeclareNode(&part.nodes[i], state);
      if (i == part.edges.size()) break;
      EdgePattern& edge = part.edges[i];
      const bool needed = edges > 1 || path || edge.properties != nullptr ||
                          edge.where != nullptr || !edge.test.ops.empty() ||
                          !edge.test.dynamic.empty() || edge.variable_length ||
                          part.kind != PatternPart::Kind::kPlain;
      DeclareEdge(&edge, state, needed);
      if (edge.path != nullptr && !failed()) DeclareQuantified(&edge, state);
      if (edge.max >= 0 && edge.min > edge.max) edge.max = edge.min - 1;
    }
    if (!path || failed()) continue;
    if (scope_.contains(part.path)) {
      return Fail("VariableAlreadyBound", part.pos, Concat("`", part.path, "` is already defined"));
    }
    part.slot = Declare(part.path, kPathType);
    state->fresh.insert(part.slot);
  }
}

void Planner::AddPredicate(const Expr* expr, MatchState* state) {
  if (expr->kind == Expr::Kind::kBinary && expr->op == Op::kAnd) {
    AddPredicate(expr->kids[0].get(), state);
    AddPredicate(expr->kids[1].get(), state);
    return;
  }
  Predicate predicate;
  predicate.expr = expr;
  Slots(*expr, &predicate.needs, &predicate.opaque);
  state->predicates.push_back(std::move(predicate));
}

// {key: value} in a pattern is owner.key = value.
void Planner::AddPropertyPredicates(Expr* properties, const std::string& name, Slot slot,
                                    uint32_t type, Pos pos, MatchState* state) {
  if (properties == nullptr) return;
  if (properties->kind != Expr::Kind::kMap) {
    return Fail("InvalidParameterUse", properties->pos,
                "a parameter cannot stand for the properties of a pattern here");
  }
  for (size_t i = 0; i < properties->kids.size(); ++i) {
    Bind(properties->kids[i].get(), {});
    if (failed()) return;
    ExprPtr property = MakeProperty(MakeVariable(name, slot, type, pos), properties->names[i], pos);
    AddPredicate(Own(Joined(Op::kEq, std::move(property), std::move(properties->kids[i]))), state);
  }
}

ExprPtr Planner::MakeProperty(ExprPtr of, const std::string& key, Pos pos) {
  auto property = std::make_unique<Expr>();
  property->kind = Expr::Kind::kProperty;
  property->name = key;
  property->slot2 = NameIndex(key);
  property->pos = pos;
  property->types = kAnyType;
  property->kids.push_back(std::move(of));
  return property;
}

void Planner::BindNode(NodePattern* node, MatchState* state) {
  if (!node->labels.empty() || !node->test.ops.empty()) {
    const LabelExpr plain{node->labels, {}, node->pos};
    AddLabelTest(node->test.ops.empty() ? plain : std::as_const(node->test),
                 MakeVariable(node->variable, node->slot, kNodeType, node->pos), state);
  }
  AddDynamicTests(&node->test.dynamic, node->variable, node->slot, kNodeType, state);
  AddPropertyPredicates(node->properties.get(), node->variable, node->slot, kNodeType, node->pos,
                        state);
  if (node->where != nullptr && !failed()) {
    Bind(node->where.get(), {.predicate = true});
    if (!failed()) AddPredicate(node->where.get(), state);
  }
}

void Planner::BindEdge(EdgePattern* edge, MatchState* state) {
  if (edge->variable_length) return;  // each of its relationships is looked at while it is walked
  AddEdgePredicates(edge, edge->slot, state);
}

// What a pattern asks of one relationship, in `slot`.
void Planner::AddEdgePredicates(EdgePattern* edge, Slot slot, MatchState* state) {
  if (!edge->test.ops.empty()) {
    if (edge->types.empty()) edge->types = AnyOf(edge->test);
    AddLabelTest(edge->test, MakeVariable(edge->variable, slot, kEdgeType, edge->pos), state);
  }
  AddDynamicTests(&edge->test.dynamic, edge->variable, slot, kEdgeType, state);
  AddPropertyPredicates(edge->properties.get(), edge->variable, slot, kEdgeType, edge->pos, state);
  if (edge->where != nullptr && !failed()) {
    Bind(edge->where.get(), {.predicate = true});
    if (!failed()) AddPredicate(edge->where.get(), state);
  }
}

// The same for each relationship of a variable length, or of a shortest path. What refers to nodes
// that are found later waits for them, as all(… IN relationships WHERE …).
void Planner::AddElementPredicates(EdgePattern* edge, MatchState* state, Step* step) {
  if (!edge->variable_length) return;
  if (edge->properties == nullptr && edge->where == nullptr && edge->test.ops.empty() &&
      edge->test.dynamic.empty()) {
    return;
  }
  MatchState inner;
  const Scope saved = scope_;
  const size_t made = plan_->made.size();
  std::set<Slot> looked_up;
  std::set<Slot>* const around = std::exchange(looked_up_, &looked_up);
  step->element = Declare(edge->variable, kEdgeType);
  AddEdgePredicates(edge, step->element, &inner);
  scope_ = saved;
  looked_up_ = around;
  if (around != nullptr) around->insert(looked_up.begin(), looked_up.end());
  if (failed()) return;
  std::vector<Predicate> later;
  for (Predicate& p : inner.predicates) {
    if (std::exchange(p.opaque, false)) p.needs.insert(looked_up.begin(), looked_up.end());
    p.needs.erase(step->element);
    const bool ready = std::all_of(p.needs.begin(), p.needs.end(),
                                   [&](Slot slot) { return IsBound(slot, *state); });
    if (ready) {
      step->predicates.push_back(p.expr);
    } else {
      later.push_back(std::move(p));
    }
  }
  if (later.empty()) return;
  if (step->kind == Step::Kind::kShortest) {
    return Fail("UnexpectedSyntax", edge->pos,
                "what a pattern asks of the relationships of a shortest path refers to what it "
                "binds later; match that in a MATCH before");
  }
  std::map<const Expr*, ExprPtr*> owners;
  AddConjuncts(&edge->where, &owners);
  for (size_t i = made; i < plan_->made.size(); ++i) AddConjuncts(&plan_->made[i], &owners);
  std::vector<ExprPtr> conjuncts;
  for (const Predicate& p : later) conjuncts.push_back(std::move(*owners.at(p.expr)));
  for (size_t i = 0; i < later.size(); ++i) {
    auto all = std::make_unique<Expr>();
    all->kind = Expr::Kind::kQuantifier;
    all->name = edge->variable;
    all->name2 = "ALL";
    all->slot = step->element;
    all->pos = edge->pos;
    all->types = Bit(Type::kBool) | kNullType;
    all->depth = conjuncts[i]->depth + 1;
    all->kids.push_back(MakeVariable(edge->variable, edge->slot, kListType, edge->pos));
    all->kids.push_back(std::move(conjuncts[i]));
    later[i].expr = Own(std::move(all));
    later[i].needs.insert(edge->slot);
    state->predicates.push_back(std::move(later[i]));
  }
}

bool Planner::IsBound(Slot slot, const MatchState& state) const {
  return !state.fresh.contains(slot) || state.bound.contains(slot);
}

bool Planner::AllBound(const MatchState& state) {
  return std::includes(state.bound.begin(), state.bound.end(), state.fresh.begin(),
                       state.fresh.end());
}

// A node that an earlier clause has bound, and nothing else: null, as OPTIONAL MATCH leaves it, is
// none.
void Planner::AddNodeAlone(const NodePattern& node, MatchState* state) {
  auto there = std::make_unique<Expr>();
  there->kind = Expr::Kind::kUnary;
  there->op = Op::kIsNotNull;
  there->pos = node.pos;
  there->depth = 2;
  there->types = Bit(Type::kBool);
  there->kids.push_back(MakeVariable(node.variable, node.slot, kNodeType, node.pos));
  AddPredicate(Own(std::move(there)), state);
}

void Planner::ApplyPredicates(MatchState* state, Steps* steps) {
  Step filter;
  filter.kind = Step::Kind::kFilter;
  const bool all = AllBound(*state);
  for (Predicate& predicate : state->predicates) {
    if (predicate.done) continue;
    const bool ready = predicate.opaque
                           ? all
                           : std::all_of(predicate.needs.begin(), predicate.needs.end(),
                                         [&](Slot slot) { return IsBound(slot, *state); });
    if (!ready) continue;
    predicate.done = true;
    filter.predicates.push_back(predicate.expr);
  }
  if (!filter.predicates.empty()) steps->push_back(std::move(filter));
}

void Planner::PlanMatch(Pattern* pattern, Expr* where, Steps* steps, std::vector<Slot>* fresh) {
  MatchState state;
  if (pattern->size() > kMostParts) {
    return Fail("UnexpectedSyntax", (*pattern)[kMostParts].pos,
                Concat("a pattern has more than ", kMostParts, " parts"));
  }
  const bool quantified =
      std::any_of(pattern->begin(), pattern->end(), [](const PatternPart& part) {
        return std::any_of(part.edges.begin(), part.edges.end(),
                           [](const EdgePattern& edge) { return edge.path != nullptr; });
      });
  if (quantified) state.before = scope_;
  DeclarePattern(pattern, &state);
  for (PatternPart& part : *pattern) {
    for (NodePattern& node : part.nodes) {
      if (!failed()) BindNode(&node, &state);
    }
    for (EdgePattern& edge : part.edges) {
      if (!failed()) BindEdge(&edge, &state);
    }
    const NodePattern& first = part.nodes[0];
    if (part.edges.empty() && !state.fresh.contains(first.slot) && !failed()) {
      AddNodeAlone(first, &state);
    }
  }
  if (where != nullptr && !failed()) {
    Bind(where, {.predicate = true});
    if (!failed()) Want(*where, Bit(Type::kBool) | kNullType, "WHERE");
    if (!failed()) AddPredicate(where, &state);
  }
  if (failed()) return;
  for (PatternPart& part : *pattern) {
    for (NodePattern& node : part.nodes) FindLabels(state, &node);
  }
  ApplyPredicates(&state, steps);
  std::vector<bool> done(pattern->size(), false);
  for (size_t i = 0; i < pattern->size() && !failed(); ++i) {
    const WalkOrder order = ChooseOrder(*pattern, done, state);
    done[order.part] = true;
    PlanPart(&(*pattern)[order.part], order, &state, steps);
  }
  for (const Predicate& predicate : state.predicates) {
    if (predicate.done || failed()) continue;
    Fail("InternalError", predicate.expr->pos,
         "this condition was not planned; please report the statement");
  }
  fresh->assign(state.fresh.begin(), state.fresh.end());
}

Planner::Start Planner::ChooseStart(const Pattern& pattern, const std::vector<bool>& done,
                                    const MatchState& state) {
  Start best;
  bool found = false;
  for (size_t p = 0; p < pattern.size(); ++p) {
    if (done[p]) continue;
    // A shortest path needs both ends: others first, which may bind them.
    const double late = pattern[p].kind == PatternPart::Kind::kPlain ? 0 : 1e18;
    for (size_t n = 0; n < pattern[p].nodes.size() && !Ended(); ++n) {
      Seek seek;
      double cost = StartCost(pattern[p], n, state, &seek) + late;
      // A relationship that is known gives its ends.
      const bool by_edge = (n < pattern[p].edges.size() && !pattern[p].edges[n].variable_length &&
                            state.relisted.contains(pattern[p].edges[n].slot));
      if (by_edge) cost = std::min(cost, 0.25 + late);
      if (found && cost >= best.cost) continue;
      best = {p, n, cost};
      found = true;
    }
  }
  return best;
}

// By the label with the fewest nodes, by several of which one is needed, or all nodes.
void Planner::PlanScan(const NodePattern& node, Step* scan) {
  uint64_t smallest = ~uint64_t{0};
  for (const std::string& name : node.labels) {
    const auto label = view_.FindLabel(name);
    const uint64_t count = label ? view_.NodeCount(*label) : 0;
    if (count >= smallest) continue;
    smallest = count;
    scan->label = NameIndex(name);
  }
  if (scan->label < 0 && !node.any_of.empty() &&
      3.0 * CountOf(node.any_of) < 4.0 * static_cast<double>(view_.NodeCount(kNoToken))) {
    scan->any_of = NameIndexes(node.any_of);
  }
}

void Planner::PlanStart(PatternPart* part, size_t index, MatchState* state, Steps* steps) {
  NodePattern& node = part->nodes[index];
  if (IsBound(node.slot, *state)) return;
  if (index < part->edges.size() && !part->edges[index].variable_length &&
      state->relisted.contains(part->edges[index].slot)) {
    return;  // the relationship's step binds both ends
  }
  Step scan;
  scan.kind = Step::Kind::kScan;
  scan.slot = node.slot;
  Seek seek;
  StartCost(*part, index, *state, &seek);
  scan.keys = seek.keys;
  scan.sought = seek.values;
  scan.sought_as = seek.as;
  if (seek.labels.size() == 1) {
    scan.label = NameIndex(seek.labels[0]);
  } else {
    scan.any_of = NameIndexes(seek.labels);
  }
  DropSought(seek, &scan, state);
  if (seek.values.empty() || seek.as == Step::Sought::kTable) PlanScan(node, &scan);
  if (seek.values.empty() && scan.label >= 0) {
    Range range = FindRange(node, plan_->names[static_cast<size_t>(scan.label)], *state);
    if (range.property != nullptr) scan.within_key = range.property->slot2;
    scan.within = std::move(range.bounds);
  }
  DropScanned(node, scan, state);
  steps->push_back(std::move(scan));
  state->bound.insert(node.slot);
  const size_t at = steps->size() - 1;
  ApplyPredicates(state, steps);
  FilterInStep(steps, at);
}

// The path that a part is named as, once all of it is bound.
void Planner::BindPath(PatternPart* part, MatchState* state, Steps* steps) {
  if (part->slot < 0) return;
  Step path;
  path.kind = Step::Kind::kPath;
  path.part = part;
  path.slot = part->slot;
  steps->push_back(std::move(path));
  state->bound.insert(part->slot);
  ApplyPredicates(state, steps);
}

void Planner::PlanPart(PatternPart* part, const WalkOrder& order, MatchState* state, Steps* steps) {
  if (part->kind != PatternPart::Kind::kPlain) return PlanShortest(part, state, steps);
  PlanStart(part, order.start, state, steps);
  for (const auto& [edge, forward] : order.edges) {
    if (!failed()) PlanEdge(part, edge, forward, state, steps);
  }
  if (!failed()) BindPath(part, state, steps);
}

// The relationships that may be the same as the next one; those of other types are not.
std::vector<Slot> Planner::MustDiffer(const EdgePattern& edge, const MatchState& state) const {
  std::vector<Slot> slots;
  for (const EdgePattern* other : state.edges) {
    const bool shared = std::any_of(edge.types.begin(), edge.types.end(), [&](const auto& type) {
      return std::find(other->types.begin(), other->types.end(), type) != other->types.end();
    });
    const bool any = edge.types.empty() || other->types.empty() || !options_.shortcuts;
    if (any || shared) slots.push_back(other->slot);
  }
  return slots;
}

void Planner::PlanEdge(PatternPart* part, size_t index, bool forward, MatchState* state,
                       Steps* steps) {
  EdgePattern& edge = part->edges[index];
  const Slot from = part->nodes[forward ? index : index + 1].slot;
  const Slot to = part->nodes[forward ? index + 1 : index].slot;
  Step step;
  step.kind = edge.path != nullptr   ? Step::Kind::kQuantified
              : edge.variable_length ? Step::Kind::kExpandVar
                                     : Step::Kind::kExpand;
  step.from = from;
  step.slot = to;
  step.edge = edge.slot;
  step.into = IsBound(to, *state) || to == from;
  step.direction = forward ? edge.direction : Reversed(edge.direction);
  if (edge.path == nullptr) {
    AddElementPredicates(&edge, state, &step);
    step.types = NameIndexes(edge.types);
  }
  step.min = edge.min;
  step.max = edge.max;
  step.unique = MustDiffer(edge, *state);
  step.relisted = !state->relisted.empty();
  if (state->relisted.contains(edge.slot)) {
    step.edge_bound = true;
    if (!edge.variable_length) {
      step.kind = Step::Kind::kEdge;
      step.from_bound = IsBound(from, *state);
      state->bound.insert(from);
    }
  }
  step.reversed = !forward;
  if (edge.path != nullptr) PlanQuantified(&edge, forward, &step, state);
  steps->push_back(std::move(step));
  if (edge.slot >= 0) {
    state->edges.push_back(&edge);
    state->bound.insert(edge.slot);
  }
  state->bound.insert(to);
  const size_t at = steps->size() - 1;
  ApplyPredicates(state, steps);
  FilterInStep(steps, at);
}

// What WHERE says of a shortest path holds of the one that is found: among all paths, the shortest
// of those for which it does. all(… IN nodes(p) WHERE …) and the like choose among nodes and
// relationships on the way.
void Planner::AddPathTests(const PatternPart& part, MatchState* state, Step* step) const {
  const Slot path = part.slot, edges = part.edges[0].slot;
  const auto is = [](const Expr& e, Slot slot) {
    return slot >= 0 && e.kind == Expr::Kind::kVariable && e.slot == slot;
  };
  const auto test_of = [&](const Expr& e) -> std::optional<Step::PathTest> {
    if (e.kind != Expr::Kind::kQuantifier || (e.name2 != "ALL" && e.name2 != "NONE")) return {};
    const Expr& list = *e.kids[0];
    Step::PathTest test{false, e.name2 == "ALL", e.slot, e.kids[1].get()};
    if (!is(list, edges)) {
      const bool call = list.kind == Expr::Kind::kCall && list.function != nullptr &&
                        list.kids.size() == 1 && is(*list.kids[0], path);
      test.of_nodes = call && list.function->name == "nodes";
      const bool of_edges =
          call && (list.function->name == "relationships" || list.function->name == "rels");
      if (!test.of_nodes && !of_edges) return {};
    }
    std::set<Slot> needs;
    bool opaque = false;
    Slots(*test.expr, &needs, &opaque);
    if (opaque || needs.contains(path) || needs.contains(edges)) return {};
    return test;
  };
  // length(p), or the size of its relationships.
  const auto is_length = [&](const Expr& e) {
    if (e.kind != Expr::Kind::kCall || e.function == nullptr || e.kids.size() != 1) return false;
    if (e.function->name == "length") return is(*e.kids[0], path);
    return e.function->name == "size" && is(*e.kids[0], edges);
  };
  // Whatever it is, there is no longer one for which it holds.
  const auto add_most = [&](const Expr& e) {
    if (e.kind != Expr::Kind::kBinary) return;
    const bool left = is_length(*e.kids[0]);
    if (!left && !is_length(*e.kids[1])) return;
    const Expr& bound = *e.kids[left ? 1 : 0];
    const bool less = e.op == (left ? Op::kLt : Op::kGt);
    const bool most = e.op == (left ? Op::kLe : Op::kGe) || e.op == Op::kEq;
    if ((less || most) && IsReady(bound, *state)) step->most_lengths.emplace_back(&bound, less);
  };
  for (Predicate& predicate : state->predicates) {
    if (predicate.done || predicate.opaque) continue;
    const auto own = [&](Slot slot) { return slot == path || slot == edges; };
    const bool ready = std::all_of(predicate.needs.begin(), predicate.needs.end(),
                                   [&](Slot slot) { return own(slot) || IsBound(slot, *state); });
    if (!ready || std::none_of(predicate.needs.begin(), predicate.needs.end(), own)) continue;
    predicate.done = true;
    if (const auto test = test_of(*predicate.expr)) {
      step->tests.push_back(*test);
    } else {
      step->of_path.push_back(predicate.expr);
      add_most(*predicate.expr);
    }
  }
  if (!step->of_path.empty()) step->part = &part;
}

void Planner::PlanShortest(PatternPart* part, MatchState* state, Steps* steps) {
  EdgePattern& edge = part->edges[0];
  if (state->relisted.contains(edge.slot)) {
    return Fail("VariableAlreadyBound", edge.pos,
                "the relationships of a shortest path are found, not given: name them otherwise");
  }
  if (edge.properties != nullptr && edge.properties->kind != Expr::Kind::kMap) {
    return Fail("InvalidParameterUse", edge.pos,
                "a parameter cannot stand for the properties of a pattern here");
  }
  PlanStart(part, 0, state, steps);
  PlanStart(part, 1, state, steps);
  Step step;
  step.kind = Step::Kind::kShortest;
  step.from = part->nodes[0].slot;
  step.slot = part->nodes[1].slot;
  step.edge = edge.slot;
  step.direction = edge.direction;
  AddElementPredicates(&edge, state, &step);
  step.cycles = part->selected;
  step.types = NameIndexes(edge.types);
  step.min = edge.min;
  step.max = edge.max;
  step.all_paths = part->kind == PatternPart::Kind::kAllShortest;
  AddPathTests(*part, state, &step);
  steps->push_back(std::move(step));
  if (edge.slot >= 0) {
    state->bound.insert(edge.slot);
    state->edges.push_back(&edge);
  }
  ApplyPredicates(state, steps);
  BindPath(part, state, steps);
}

}  // namespace pulse::cypher
