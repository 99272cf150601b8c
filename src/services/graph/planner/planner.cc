#include "services/graph/planner/planner.h"

#include <algorithm>

#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"
#include "services/graph/syntax/parser.h"

namespace pulse::cypher {
namespace {

constexpr size_t kMaxClauses = 2000;

size_t CountSteps(const Steps& steps) {
  size_t count = steps.size();
  for (const Step& step : steps) {
    count += CountSteps(step.inner) + step.hops.size();
    if (step.subplan == nullptr) continue;
    for (const Plan::Branch& branch : step.subplan->branches) count += CountSteps(branch.steps);
  }
  return count;
}

// Brings the columns of a part of UNION, and what they are of, into the order of the first part's.
// False: they are others.
bool OrderColumns(const std::vector<std::string>& wanted, std::vector<std::string>* columns,
                  std::vector<Slot>* outputs) {
  if (columns->size() != wanted.size()) return false;
  std::vector<Slot> ordered;
  for (const std::string& name : wanted) {
    const auto it = std::find(columns->begin(), columns->end(), name);
    if (it == columns->end()) return false;
    ordered.push_back((*outputs)[static_cast<size_t>(it - columns->begin())]);
  }
  *columns = wanted;
  *outputs = std::move(ordered);
  return true;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(std::string_view query, const GraphView& view,
                                                     const ProcedureCatalog* procedures,
                                                     const PlanOptions& options) {
  auto parsed = Parse(query, options.stop);
  if (!parsed.ok()) return parsed.status();
  auto plan = std::make_shared<Plan>();
  plan->query = *std::move(parsed);
  plan->text = std::string(query);
  plan->explain = plan->query->explain;
  plan->profile = plan->query->profile;
  const absl::Status status = Planner(query, view, procedures, options, plan.get()).Run();
  if (!status.ok()) return status;
  size_t steps = 0;
  for (const Plan::Branch& branch : plan->branches) steps += CountSteps(branch.steps);
  if (steps > kMaxSteps) {
    return CompileError("SyntaxError", "UnexpectedSyntax",
                        Concat("the query has more than ", kMaxSteps, " steps"));
  }
  if (plan->explain) plan->columns.assign(1, "plan");
  return std::shared_ptr<const Plan>(std::move(plan));
}

absl::Status Planner::Run() {
  PlanQuery(plan_->query.get(), plan_, false);
  if (options_.shortcuts && !failed()) {
    for (Plan::Branch& branch : plan_->branches) {
      ScanByProperties(&branch.steps);
      FindLive(&branch);
      Intersect(&branch.steps);
    }
  }
  plan_->width = static_cast<int>(used_.size());
  plan_->parameters.assign(parameters_.begin(), parameters_.end());
  return status_;
}

void Planner::Fail(std::string_view detail, Pos pos, std::string_view message,
                   std::string_view kind) {
  if (failed()) return;
  status_ = CompileError(kind, detail, AtPosition(text_, pos, message));
}

bool Planner::Ended() {
  if (!failed() && stop_.Asks()) status_ = StopCheck::Ended();
  return failed();
}

int Planner::NameIndex(const std::string& name) {
  const auto [it, added] = name_index_.emplace(name, static_cast<int>(plan_->names.size()));
  if (added) plan_->names.push_back(name);
  return it->second;
}

// Consecutive, also where a name has an index already: expressions keep the first only.
std::vector<int> Planner::NameIndexes(const std::vector<std::string>& names) {
  std::vector<int> out;
  for (const std::string& name : names) {
    out.push_back(static_cast<int>(plan_->names.size()));
    plan_->names.push_back(name);
  }
  return out;
}

Slot Planner::Allocate() {
  const auto free = std::find(used_.begin(), used_.end(), false);
  const auto slot = static_cast<Slot>(free - used_.begin());
  if (free == used_.end())
    used_.push_back(true);
  else
    *free = true;
  return slot;
}

void Planner::KeepOnly(const Scope& scope) {
  used_.assign(used_.size(), false);
  for (const auto& [name, variable] : scope) used_[static_cast<size_t>(variable.slot)] = true;
  // Also one that this scope knows by a copy: what follows may see it again.
  for (const auto& [name, variable] : imported_) used_[static_cast<size_t>(variable.slot)] = true;
}

Slot Planner::Declare(const std::string& name, uint32_t types) {
  const Slot slot = Allocate();
  if (!name.empty()) scope_[name] = {slot, types};
  return slot;
}

void Planner::PlanQuery(Query* query, Plan* plan, bool nested, bool parts_alone) {
  const Scope outer = scope_;
  const std::vector<bool> used = used_;
  const bool updated = updated_;
  for (size_t i = 0; i < query->parts.size() && !failed(); ++i) {
    scope_ = outer;
    // CALL { … } without a list of imports: parts that do not begin with WITH see nothing outside.
    const auto& part = query->parts[i];
    const bool imports = !part.empty() && part[0].kind == Clause::Kind::kWith && !part[0].implied;
    if (parts_alone && !imports) scope_.clear();
    updated_ = updated;
    const std::vector<std::string> columns = std::move(plan->columns);
    plan->columns.clear();
    plan->branches.emplace_back();
    PlanClauses(&query->parts[i], plan, nested);
    if (nested) Intersect(&plan->branches.back().steps);
    if (i > 0 && plan->columns != columns &&
        !OrderColumns(columns, &plan->columns, &plan->branches.back().outputs)) {
      Fail("DifferentColumnsInUnion", query->parts[i].front().pos,
           "the parts of UNION must have the same columns");
    }
    // Rows of this part are done with when the next one runs.
    std::vector<bool> next = used;
    next.resize(used_.size(), false);
    used_ = std::move(next);
  }
  if (query->parts.size() > 1 && !query->union_all) Unite(plan);
}

void Planner::PlanClauses(std::vector<Clause>* clauses, Plan* plan, bool nested) {
  if (clauses->size() > kMaxClauses) {
    return Fail("UnexpectedSyntax", (*clauses)[kMaxClauses].pos, "the query has too many clauses");
  }
  if (options_.shortcuts) RewriteMatches(clauses);
  const bool read_before = std::exchange(plan_->reads, false);
  for (size_t i = 0; i < clauses->size() && !failed(); ++i) {
    const Clause* const next = i + 1 < clauses->size() ? &(*clauses)[i + 1] : nullptr;
    PlanClause(&(*clauses)[i], next, clauses->size() == 1 && !nested && !(*clauses)[i].finished,
               plan, &plan->branches.back().steps);
  }
  // Updates need not collect their rows where nothing reads, before or after: nor a subquery of an
  // expression, or a MERGE within FOREACH.
  const bool only_updates =
      !plan_->reads && std::all_of(clauses->begin(), clauses->end(), [](const Clause& c) {
        return (IsUpdate(c) && c.kind != Clause::Kind::kMerge) || c.kind == Clause::Kind::kUnwind;
      });
  plan_->reads |= read_before;
  if (only_updates) {
    for (Step& step : plan->branches.back().steps) step.eager = false;
  }
}

void Planner::CollectRows(Steps* steps) {
  Step eager;
  eager.kind = Step::Kind::kEager;
  steps->push_back(std::move(eager));
}

void Planner::PlanClause(Clause* clause, const Clause* behind, bool only, Plan* plan,
                         Steps* steps) {
  using Kind = Clause::Kind;
  const bool reads = clause->kind == Kind::kMatch || clause->kind == Kind::kMerge ||
                     clause->kind == Kind::kSubquery || clause->kind == Kind::kCall;
  if (reads && updated_) {
    CollectRows(steps);
    updated_ = false;
  }
  if (reads) plan_->reads = true;
  if (IsUpdate(*clause)) {
    plan_->writes = true;
    updated_ = true;
  }
  Step step;
  switch (clause->kind) {
    case Kind::kMatch: {
      std::vector<Slot> fresh;
      if (!clause->optional) return PlanMatch(&clause->pattern, clause->where.get(), steps, &fresh);
      step.kind = Step::Kind::kOptional;
      step.row_number = Allocate();
      PlanMatch(&clause->pattern, clause->where.get(), &step.inner, &step.nulls);
      break;
    }
    case Kind::kUnwind:
      return PlanUnwind(clause, steps);
    case Kind::kWith:
      return PlanProjection(clause, steps);
    case Kind::kReturn: {
      PlanProjection(clause, steps);
      for (const ProjectionItem& item : clause->items) {
        plan->columns.push_back(item.alias);
        plan->branches.back().outputs.push_back(item.slot);
      }
      return;
    }
    case Kind::kCreate: {
      step.kind = Step::Kind::kCreate;
      std::vector<Slot> fresh;
      PlanCreate(&clause->pattern, false, &step.create, &fresh);
      break;
    }
    case Kind::kMerge:
      step.kind = Step::Kind::kMerge;
      PlanMerge(clause, &step);
      break;
    case Kind::kSet:
    case Kind::kRemove:
      step.kind = Step::Kind::kSet;
      PlanSet(&clause->set, clause->kind == Kind::kRemove, &step.set);
      break;
    case Kind::kDelete:
      step.kind = Step::Kind::kDelete;
      PlanDelete(clause, &step);
      break;
    case Kind::kForeach:
      step.kind = Step::Kind::kForeach;
      PlanForeach(clause, &step, plan);
      break;
    case Kind::kCall:
      PlanProcedure(clause, only, plan, steps);
      return clause->optional ? MakeOptional(steps) : void();
    case Kind::kSubquery:
      PlanSubquery(clause, behind, plan, steps);
      return clause->optional ? MakeOptional(steps) : void();
  }
  steps->push_back(std::move(step));
}

// OPTIONAL CALL: of what the last CALL has become, nulls where that gives no row.
void Planner::MakeOptional(Steps* steps) {
  if (failed()) return;
  auto call = steps->end() - 1;
  while (call->kind != Step::Kind::kSubquery && call->kind != Step::Kind::kProcedure) --call;
  if (call->unit) return;
  Step optional;
  optional.kind = Step::Kind::kOptional;
  optional.ordered = true;
  optional.row_number = Allocate();
  for (const auto& [column, slot] : call->outputs) optional.nulls.push_back(slot);
  // A filter is YIELD's; rows are collected behind it.
  const bool filtered = call + 1 != steps->end() && call[1].kind == Step::Kind::kFilter;
  const auto end = call + (filtered ? 2 : 1);
  std::move(call, end, std::back_inserter(optional.inner));
  *call = std::move(optional);
  steps->erase(call + 1, end);
}

void Planner::PlanUnwind(Clause* clause, Steps* steps) {
  Bind(clause->expr.get(), {});
  if (failed()) return;
  if (scope_.contains(clause->variable)) {
    return Fail("VariableAlreadyBound", clause->pos,
                Concat("`", clause->variable, "` is already defined"));
  }
  Step step;
  step.kind = clause->load_csv ? Step::Kind::kLoadCsv : Step::Kind::kUnwind;
  step.csv_headers = clause->csv_headers;
  step.separator = clause->separator;
  step.expr = clause->expr.get();
  step.slot = Declare(clause->variable, kAnyType);
  steps->push_back(std::move(step));
}

void Planner::ExpandStar(Clause* clause) {
  std::vector<ProjectionItem> items;
  for (const auto& [name, variable] : scope_) {
    if (name == kCaseSubject) continue;
    if (clause->kind == Clause::Kind::kReturn && imported_.contains(name)) continue;
    ProjectionItem item;
    item.pos = clause->pos;
    item.alias = name;
    item.named = true;
    item.expr = MakeVariable(name, variable.slot, variable.types, clause->pos);
    items.push_back(std::move(item));
  }
  if (items.empty() && clause->kind == Clause::Kind::kReturn) {
    Fail("NoVariablesInScope", clause->pos, "RETURN * needs variables, and there are none");
  }
  for (ProjectionItem& item : clause->items) items.push_back(std::move(item));
  clause->items = std::move(items);
}

void Planner::PlanProjection(Clause* clause, Steps* steps) {
  const Scope before = scope_;
  if (clause->star) ExpandStar(clause);
  std::set<std::string> names;
  for (ProjectionItem& item : clause->items) {
    if (!names.insert(item.alias).second) {
      return Fail("ColumnNameConflict", item.pos,
                  Concat("there are two columns `", item.alias, "`"));
    }
    Bind(item.expr.get(), {.aggregates = true});
    if (failed()) return;
  }
  const bool aggregates = std::any_of(clause->items.begin(), clause->items.end(),
                                      [](const auto& item) { return HasAggregate(*item.expr); });
  for (ProjectionItem& item : clause->items) item.slot = Allocate();
  if (aggregates) {
    PlanAggregation(clause, before, steps);
  } else {
    Step project;
    project.kind = Step::Kind::kProject;
    for (const ProjectionItem& item : clause->items)
      project.items.emplace_back(item.expr.get(), item.slot);
    steps->push_back(std::move(project));
  }
  if (failed()) return;
  scope_.clear();
  for (const ProjectionItem& item : clause->items)
    scope_[item.alias] = {item.slot, item.expr->types};
  if (clause->kind == Clause::Kind::kWith) scope_.insert(imported_.begin(), imported_.end());
  if (clause->distinct) {
    Step distinct;
    distinct.kind = Step::Kind::kDistinct;
    for (const ProjectionItem& item : clause->items)
      distinct.items.emplace_back(nullptr, item.slot);
    steps->push_back(std::move(distinct));
  }
  const size_t last = steps->size() - 1;
  if (clause->kind == Clause::Kind::kWith && !imported_.empty() &&
      (aggregates || clause->distinct)) {
    Step import;
    import.kind = Step::Kind::kImport;
    for (const auto& [name, variable] : imported_)
      import.items.emplace_back(nullptr, variable.slot);
    steps->push_back(std::move(import));
  }
  PlanOrderSkipLimit(clause, before, aggregates || clause->distinct, steps);
  if (clause->distinct && clause->order.empty() && clause->limit != nullptr) {
    (*steps)[last].top_limit = clause->limit.get();
    (*steps)[last].top_skip = clause->skip.get();
  }
  for (const ProjectionItem& item : clause->items) {
    if (item.named || clause->kind != Clause::Kind::kWith) continue;
    Fail("NoExpressionAlias", item.pos, "an expression of WITH needs a name: AS name");
  }
  if (!failed()) KeepOnly(scope_);
}

void Planner::PlanOrderSkipLimit(Clause* clause, const Scope& before, bool closed, Steps* steps) {
  const Scope after = scope_;
  // Sorting and WHERE see what was there before, unless rows were merged.
  if (!closed) scope_.insert(before.begin(), before.end());
  if (!clause->order.empty()) {
    Step sort;
    sort.kind = Step::Kind::kSort;
    for (SortItem& item : clause->order) {
      const bool aggregates = HasAggregate(*item.expr);
      if (closed) ReplaceProjected(&item.expr, *clause, aggregates, {});
      Bind(item.expr.get(), {.aggregates = closed});
      if (!failed() && HasAggregate(*item.expr)) {
        Fail("InvalidAggregation", item.expr->pos, "ORDER BY may only aggregate what is projected");
      }
      if (failed()) return;
      sort.order.emplace_back(item.expr.get(), item.descending);
    }
    if (clause->limit != nullptr) {
      sort.top_limit = clause->limit.get();
      sort.top_skip = clause->skip.get();
    }
    steps->push_back(std::move(sort));
  }
  const auto count = [&](const ExprPtr& expr, Step::Kind kind, std::string_view what) {
    if (expr == nullptr || failed()) return;
    CheckCount(*expr, what);
    Scope saved;
    std::swap(saved, scope_);
    Bind(expr.get(), {});
    std::swap(saved, scope_);
    Step step;
    step.kind = kind;
    step.expr = expr.get();
    steps->push_back(std::move(step));
  };
  count(clause->skip, Step::Kind::kSkip, "SKIP");
  count(clause->limit, Step::Kind::kLimit, "LIMIT");
  if (clause->where != nullptr && !failed()) {
    if (closed) ReplaceProjected(&clause->where, *clause, false, {});
    Bind(clause->where.get(), {.predicate = true});
    Step filter;
    filter.kind = Step::Kind::kFilter;
    filter.predicates.push_back(clause->where.get());
    steps->push_back(std::move(filter));
  }
  scope_ = after;
}

// SKIP and LIMIT take no variables; of literals the mistake is known now.
void Planner::CheckCount(const Expr& expr, std::string_view what) {
  std::vector<const Expr*> pending = {&expr};
  while (!pending.empty()) {
    const Expr& e = *pending.back();
    pending.pop_back();
    if ((e.kind == Expr::Kind::kVariable && e.name != kCaseSubject) ||
        e.kind == Expr::Kind::kPattern || e.kind == Expr::Kind::kSubquery) {
      return Fail("NonConstantExpression", e.pos, Concat(what, " may not depend on variables"));
    }
    for (const ExprPtr& kid : e.kids) {
      if (kid != nullptr) pending.push_back(kid.get());
    }
  }
  const bool negated = expr.kind == Expr::Kind::kUnary && expr.op == Op::kNegate &&
                       expr.kids[0]->kind == Expr::Kind::kLiteral;
  const Value* literal = expr.kind == Expr::Kind::kLiteral ? &expr.value
                         : negated                         ? &expr.kids[0]->value
                                                           : nullptr;
  if (literal == nullptr) return;
  if (!literal->is_int())
    return Fail("InvalidArgumentType", expr.pos, Concat(what, " needs an INTEGER"));
  if (negated) Fail("NegativeIntegerArgument", expr.pos, Concat(what, " may not be negative"));
}

// ---- aggregation ----

void Planner::CollectAggregates(Expr* expr, std::vector<std::pair<const Expr*, Slot>>* out) {
  if (IsAggregate(*expr)) {
    expr->slot = Allocate();
    out->emplace_back(expr, expr->slot);
    return;
  }
  for (const ExprPtr& kid : expr->kids) {
    if (kid != nullptr) CollectAggregates(kid.get(), out);
  }
}

// Calls `use` with the parts of an expression, and the names that are its own where they stand.
template <typename Use>
static void ForEachPart(Expr& e, const LocalNames& local, Use use) {
  using Kind = Expr::Kind;
  const bool reduce = e.kind == Kind::kReduce;
  const bool names = reduce || e.kind == Kind::kListComprehension || e.kind == Kind::kQuantifier;
  LocalNames inner = local;
  if (names) inner.insert(e.name);
  if (reduce) inner.insert(e.name2);
  for (size_t i = 0; i < e.kids.size(); ++i) {
    if (e.kids[i] != nullptr) use(&e.kids[i], names && i >= (reduce ? 2u : 1u) ? inner : local);
  }
}

static bool UsesAny(const Expr& e, const LocalNames& names) {
  if (e.kind == Expr::Kind::kVariable) return names.contains(e.name);
  return !names.empty() && std::any_of(e.kids.begin(), e.kids.end(), [&names](const ExprPtr& kid) {
    return kid != nullptr && UsesAny(*kid, names);
  });
}

// Outside aggregates, an expression that aggregates may use what the rows are grouped by, where
// that is a variable or a property, and nothing else. `local`: names that hide those.
void Planner::RewriteToKeys(ExprPtr* expr, const Clause& clause, const LocalNames& local) {
  Expr& e = **expr;
  if (failed()) return;
  if (IsAggregate(e)) return;
  const bool simple = e.kind == Expr::Kind::kVariable || e.kind == Expr::Kind::kProperty;
  if (simple && !UsesAny(e, local)) {
    for (const ProjectionItem& item : clause.items) {
      if (HasAggregate(*item.expr) || !Same(*item.expr, e)) continue;
      const Pos pos = e.pos;
      *expr = MakeVariable(item.alias, item.slot, item.expr->types, pos);
      return;
    }
    if (e.kind == Expr::Kind::kVariable && scope_.contains(e.name)) {
      return Fail("AmbiguousAggregationExpression", e.pos,
                  Concat("`", e.name, "` is neither aggregated nor what the rows are grouped by"));
    }
  }
  if (e.kind == Expr::Kind::kPattern || e.kind == Expr::Kind::kSubquery ||
      e.kind == Expr::Kind::kPatternComprehension) {
    return Fail("AmbiguousAggregationExpression", e.pos,
                "a pattern cannot stand beside an aggregate here");
  }
  ForEachPart(e, local,
              [&](ExprPtr* kid, const LocalNames& names) { RewriteToKeys(kid, clause, names); });
}

void Planner::PlanAggregation(Clause* clause, const Scope& before, Steps* steps) {
  Step aggregate, project;
  aggregate.kind = Step::Kind::kAggregate;
  project.kind = Step::Kind::kProject;
  // The expressions of ORDER BY may name aggregates that are projected; they become columns below.
  for (ProjectionItem& item : clause->items) {
    if (!HasAggregate(*item.expr)) aggregate.items.emplace_back(item.expr.get(), item.slot);
  }
  for (ProjectionItem& item : clause->items) {
    if (!HasAggregate(*item.expr)) continue;
    CollectAggregates(item.expr.get(), &aggregate.aggregates);
    scope_ = before;
    RewriteToKeys(&item.expr, *clause, {});
    project.items.emplace_back(item.expr.get(), item.slot);
  }
  if (!options_.shortcuts) {
    steps->push_back(std::move(aggregate));
  } else if (!AggregateByColumns(aggregate, steps)) {
    CountPaths(&aggregate, steps);
    steps->push_back(std::move(aggregate));
  }
  steps->push_back(std::move(project));
}

// Where all relationships or nodes are aggregated without keys and without a look at anything but
// one property of each, rows are not needed.
bool Planner::AggregateByColumns(const Step& aggregate, Steps* steps) {
  if (!aggregate.items.empty() || steps->empty() || steps->size() > 2) return false;
  const Step& scan = (*steps)[0];
  if (scan.kind != Step::Kind::kScan || !scan.sought.empty()) return false;
  if (!scan.predicates.empty() || !scan.any_of.empty()) return false;
  Step columns;
  columns.kind = Step::Kind::kColumns;
  columns.label = scan.label;
  Slot subject = scan.slot;
  if (steps->size() == 2) {
    const Step& expand = (*steps)[1];
    if (expand.kind != Step::Kind::kExpand || expand.into || scan.label >= 0 ||
        expand.direction == Direction::kBoth || !expand.unique.empty() ||
        !expand.predicates.empty()) {
      return false;
    }
    columns.all_edges = true;
    columns.types = expand.types;
    subject = expand.edge;
  }
  for (const auto& [expr, slot] : aggregate.aggregates) {
    if (expr->kind == Expr::Kind::kCountStar) continue;
    const Expr* argument = expr->kids[0].get();
    const Aggregate kind = expr->function->aggregate;
    const bool property = argument->kind == Expr::Kind::kProperty;
    if (property) argument = argument->kids[0].get();
    if (expr->flag || argument->kind != Expr::Kind::kVariable || argument->slot != subject ||
        subject < 0) {
      return false;
    }
    const bool sums = kind == Aggregate::kSum || kind == Aggregate::kAvg ||
                      kind == Aggregate::kMin || kind == Aggregate::kMax;
    if (kind != Aggregate::kCount && !(sums && property)) return false;
  }
  columns.aggregates = aggregate.aggregates;
  steps->clear();
  steps->push_back(std::move(columns));
  return true;
}

// In what follows DISTINCT or aggregation, an expression that is also projected is its column.
// Beside an aggregate that goes for variables and properties only.
void Planner::ReplaceProjected(ExprPtr* expr, const Clause& clause, bool aggregates,
                               const LocalNames& local) {
  Expr& e = **expr;
  if (e.kind == Expr::Kind::kLiteral) return;
  // A name of a column comes before what another column was made of.
  const std::string_view text = text_.substr(e.pos.offset, e.end - e.pos.offset);
  const auto& items = clause.items;
  const auto named = [&text](const ProjectionItem& i) { return i.alias == text; };
  const auto same = [&e](const ProjectionItem& i) { return Same(*i.expr, e); };
  auto item = std::find_if(items.begin(), items.end(), named);
  if (item == items.end()) item = std::find_if(items.begin(), items.end(), same);
  if (item == items.end() || UsesAny(e, local)) {
    if (IsAggregate(e)) return;  // of what was there before the columns
    ForEachPart(e, local, [&](ExprPtr* kid, const LocalNames& names) {
      ReplaceProjected(kid, clause, aggregates, names);
    });
    // Beside an aggregate, what is projected was made of columns, too, by RewriteToKeys().
    if (failed() || !HasAggregate(e) || UsesAny(e, local)) return;
    item = std::find_if(items.begin(), items.end(), same);
    if (item == items.end()) return;
  }
  const bool simple = e.kind == Expr::Kind::kVariable || e.kind == Expr::Kind::kProperty;
  if (aggregates && !simple && !HasAggregate(e))
    return Fail("AmbiguousAggregationExpression", e.pos,
                "beside an aggregate only variables and properties can be sorted by");
  *expr = MakeVariable(item->alias, item->slot, item->expr->types, e.pos);
}

}  // namespace pulse::cypher
