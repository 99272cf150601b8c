// Clauses that change the graph, and those that call something.
#include <algorithm>
#include <utility>

#include "services/graph/model/text.h"
#include "services/graph/planner/planner.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
// MERGE evaluates the properties of its pattern before it has anything of it.
void Planner::RefuseOwn(const Expr& properties, const std::vector<Slot>& own) {
  std::set<Slot> used;
  bool opaque = false;
  Slots(properties, &used, &opaque);
  if (std::any_of(own.begin(), own.end(), [&](Slot slot) { return used.contains(slot); })) {
    Fail("UndefinedVariable", properties.pos,
         "the properties of MERGE cannot refer to what the same MERGE finds or makes");
  }
}

// What is set or made has all of the labels.
void Planner::BindDynamic(const std::vector<DynamicLabels>& labels, std::vector<const Expr*>* out) {
  for (const DynamicLabels& one : labels) {
    if (one.any) {
      return Fail("InvalidLabelExpression", one.pos, "$any(…) is for what a query looks for");
    }
    Bind(one.names.get(), {});
    out->push_back(one.names.get());
  }
}

void Planner::PlanCreate(Pattern* pattern, bool merge, CreateOps* ops, std::vector<Slot>* fresh) {
  for (PatternPart& part : *pattern) {
    if (part.kind != PatternPart::Kind::kPlain) {
      return Fail("UnexpectedSyntax", part.pos, "a shortest path cannot be created");
    }
    if (!part.path.empty() && scope_.contains(part.path)) {
      return Fail("VariableAlreadyBound", part.pos, Concat("`", part.path, "` is already defined"));
    }
    for (NodePattern& node : part.nodes) {
      if (!node.test.ops.empty()) {
        return Fail("InvalidLabelExpression", node.test.pos,
                    "a node is created with labels, not with |, ! or %");
      }
      const auto it = node.variable.empty() ? scope_.end() : scope_.find(node.variable);
      if (it != scope_.end()) {
        const bool alone = part.edges.empty();
        if (alone || !node.labels.empty() || !node.test.dynamic.empty() ||
            node.properties != nullptr) {
          return Fail("VariableAlreadyBound", node.pos,
                      Concat("`", node.variable, "` is already defined"));
        }
        if ((it->second.types & (kNodeType | kNullType)) == 0) {
          return Fail("VariableTypeConflict", node.pos, Concat("`", node.variable, "` is no node"));
        }
        node.slot = it->second.slot;
        continue;
      }
      if (node.properties != nullptr) {
        if (merge && node.properties->kind == Expr::Kind::kParameter) {
          return Fail("InvalidParameterUse", node.pos,
                      "a parameter cannot stand for the properties of MERGE");
        }
        Bind(node.properties.get(), {});
        if (merge) RefuseOwn(*node.properties, *fresh);
        if (failed()) return;
      }
      CreateNodeOp op;
      BindDynamic(node.test.dynamic, &op.dynamic);
      for (const Expr* names : op.dynamic) {
        if (merge && !failed()) RefuseOwn(*names, *fresh);
      }
      if (failed()) return;
      node.slot = Declare(node.variable, kNodeType);
      fresh->push_back(node.slot);
      op.slot = node.slot;
      op.labels = NameIndexes(node.labels);
      op.properties = node.properties.get();
      ops->nodes.push_back(std::move(op));
      ops->order.push_back(false);
    }
    for (size_t i = 0; i < part.edges.size(); ++i) {
      EdgePattern& edge = part.edges[i];
      if (edge.variable_length) {
        return Fail("CreatingVarLength", edge.pos,
                    "a relationship of variable length cannot be created");
      }
      if (!edge.variable.empty() && scope_.contains(edge.variable)) {
        return Fail("VariableAlreadyBound", edge.pos,
                    Concat("`", edge.variable, "` is already defined"));
      }
      if (edge.types.size() + edge.test.dynamic.size() != 1 || !edge.test.ops.empty()) {
        return Fail("NoSingleRelationshipType", edge.pos,
                    "a relationship is created with exactly one type");
      }
      if (edge.direction == Direction::kBoth && !merge) {
        return Fail("RequiresDirectedRelationship", edge.pos,
                    "a relationship is created with one direction");
      }
      if (edge.properties != nullptr) {
        if (merge && edge.properties->kind == Expr::Kind::kParameter) {
          return Fail("InvalidParameterUse", edge.pos,
                      "a parameter cannot stand for the properties of MERGE");
        }
        Bind(edge.properties.get(), {});
        if (merge) RefuseOwn(*edge.properties, *fresh);
        if (failed()) return;
      }
      std::vector<const Expr*> dynamic;
      BindDynamic(edge.test.dynamic, &dynamic);
      if (merge && !failed() && !dynamic.empty()) RefuseOwn(*dynamic[0], *fresh);
      if (failed()) return;
      edge.slot = Declare(edge.variable, kEdgeType);
      fresh->push_back(edge.slot);
      const bool left = edge.direction == Direction::kIn;
      CreateEdgeOp op;
      op.slot = edge.slot;
      op.source = part.nodes[left ? i + 1 : i].slot;
      op.target = part.nodes[left ? i : i + 1].slot;
      if (dynamic.empty()) {
        op.type = NameIndex(edge.types[0]);
      } else {
        op.dynamic_type = dynamic[0];
      }
      op.properties = edge.properties.get();
      ops->edges.push_back(op);
      ops->order.push_back(true);
    }
    if (part.path.empty()) continue;
    part.slot = Declare(part.path, kPathType);
    fresh->push_back(part.slot);
    ops->paths.emplace_back(&part, part.slot);
  }
}

// What is made where nothing matches is planned first; the match uses the same slots.
void Planner::PlanMerge(Clause* clause, Step* step) {
  Pattern* pattern = &clause->pattern;
  std::vector<Slot> fresh;
  PlanCreate(pattern, true, &step->create, &fresh);
  if (failed()) return;
  MatchState state;
  state.tables = false;  // each row is one of its own
  state.fresh.insert(fresh.begin(), fresh.end());
  for (PatternPart& part : *pattern) {
    for (NodePattern& node : part.nodes) {
      if (!state.fresh.contains(node.slot)) continue;
      // The expressions of the properties serve both; predicates refer to copies of the map.
      if (!node.labels.empty()) {
        AddLabelTest({node.labels, {}, node.pos},
                     MakeVariable(node.variable, node.slot, kNodeType, node.pos), &state);
      }
    }
    // The names of these stay where they are, too.
    const auto same_dynamic = [&](const LabelExpr& test, Slot slot, uint32_t type) {
      for (const DynamicLabels& labels : test.dynamic) {
        const Slot value = Allocate();
        step->items.emplace_back(labels.names.get(), value);
        ExprPtr names = MakeVariable("", value, kAnyType, labels.pos);
        ExprPtr holds = TestDynamic({std::move(names), false, labels.pos},
                                    MakeVariable("", slot, type, labels.pos));
        if (type == kEdgeType) holds->kids[2]->value = Value();
        AddPredicate(Own(std::move(holds)), &state);
      }
    };
    const auto same_properties = [&](const Expr* map, Slot slot, uint32_t type, Pos pos) {
      if (map == nullptr) return;
      // The map stays where it is; a slot that holds its value stands for it.
      const Slot value = Allocate();
      step->items.emplace_back(map, value);
      for (const std::string& key : map->names) {
        ExprPtr own = MakeProperty(MakeVariable("", slot, type, pos), key, pos);
        ExprPtr wanted = MakeProperty(MakeVariable("", value, kMapType, pos), key, pos);
        AddPredicate(Own(Joined(Op::kEq, std::move(own), std::move(wanted))), &state);
      }
    };
    for (NodePattern& node : part.nodes) {
      if (!state.fresh.contains(node.slot)) continue;
      same_dynamic(node.test, node.slot, kNodeType);
      same_properties(node.properties.get(), node.slot, kNodeType, node.pos);
    }
    for (EdgePattern& edge : part.edges) {
      same_dynamic(edge.test, edge.slot, kEdgeType);
      same_properties(edge.properties.get(), edge.slot, kEdgeType, edge.pos);
    }
  }
  ApplyPredicates(&state, &step->inner);
  const std::vector<bool> done(1, false);
  const WalkOrder order = PlainOrder(*pattern, ChooseStart(*pattern, done, state));
  PlanPart(&(*pattern)[0], order, &state, &step->inner);
  if (!failed()) PlanSet(&clause->on_create, false, &step->set);
  if (!failed()) PlanSet(&clause->on_match, false, &step->on_match);
}

void Planner::PlanSet(std::vector<SetItem>* items, bool remove, std::vector<SetOp>* out) {
  for (SetItem& item : *items) {
    SetOp op;
    op.kind = item.kind;
    op.remove = remove;
    Expr* entity = item.target.get();
    if (item.kind == SetItem::Kind::kProperty) {
      op.names.push_back(NameIndex(item.target->name));
      entity = item.target->kids[0].get();
    } else if (item.kind == SetItem::Kind::kDynamic) {
      entity = item.target->kids[0].get();
      op.key = item.target->kids[1].get();
      Bind(item.target->kids[1].get(), {});
      if (failed()) return;
    } else if (item.kind == SetItem::Kind::kLabels) {
      op.names = NameIndexes(item.labels);
      BindDynamic(item.dynamic, &op.dynamic);
      if (failed()) return;
    }
    Bind(entity, {});
    if (item.value != nullptr && !failed()) Bind(item.value.get(), {});
    if (failed()) return;
    Want(*entity,
         (item.kind == SetItem::Kind::kLabels ? kNodeType : kNodeType | kEdgeType) | kNullType,
         remove ? "REMOVE" : "SET");
    op.target = entity;
    op.value = item.value.get();
    out->push_back(std::move(op));
  }
}

void Planner::PlanDelete(Clause* clause, Step* step) {
  step->detach = clause->detach;
  for (const ExprPtr& expr : clause->exprs) {
    if (expr->kind == Expr::Kind::kHasLabels) {
      return Fail("InvalidDelete", expr->pos, "DELETE takes entities; REMOVE takes labels");
    }
    Bind(expr.get(), {});
    if (failed()) return;
    Want(*expr, kNodeType | kEdgeType | kPathType | kNullType, "DELETE");
    step->deletes.push_back(expr.get());
  }
}

void Planner::PlanForeach(Clause* clause, Step* step, Plan* plan) {
  Bind(clause->expr.get(), {});
  if (failed()) return;
  Want(*clause->expr, kListType | kNullType, "FOREACH");
  const Scope saved = scope_;
  step->expr = clause->expr.get();
  step->slot = Declare(clause->variable, kAnyType);
  for (Clause& inner : clause->body) {
    PlanClause(&inner, nullptr, false, plan, &step->inner);
    if (failed()) return;
  }
  // One row at a time: there is nothing to collect.
  for (Step& inner : step->inner) inner.eager = false;
  scope_ = saved;
}

void Planner::PlanProcedure(Clause* clause, bool only, Plan* plan, Steps* steps) {
  const Procedure* procedure =
      procedures_ != nullptr ? procedures_->Find(clause->procedure) : nullptr;
  if (procedure == nullptr) {
    return Fail("ProcedureNotFound", clause->pos,
                Concat("there is no procedure `", clause->procedure, "`"), "ProcedureError");
  }
  Step step;
  step.kind = Step::Kind::kProcedure;
  step.procedure = procedure;
  if (procedure->writes) {
    plan_->writes = true;
    CollectReads(steps);
  }
  if (!clause->arguments_given) {
    if (!only) {
      return Fail("InvalidArgumentPassingMode", clause->pos,
                  "inside a query a procedure's arguments must be written");
    }
    for (size_t i = 0; i < procedure->arguments.size() - procedure->optional; ++i) {
      const Procedure::Field& field = procedure->arguments[i];
      auto parameter = std::make_unique<Expr>();
      parameter->kind = Expr::Kind::kParameter;
      parameter->name = field.name;
      parameter->pos = clause->pos;
      clause->exprs.push_back(std::move(parameter));
    }
  }
  const size_t most = procedure->arguments.size();
  if (clause->exprs.size() > most || clause->exprs.size() + procedure->optional < most) {
    const std::string least =
        procedure->optional > 0 ? Concat(most - procedure->optional, " to ") : std::string();
    return Fail("InvalidNumberOfArguments", clause->pos,
                Concat("`", procedure->name, "` takes ", least, most, " arguments, found ",
                       clause->exprs.size()));
  }
  for (size_t i = 0; i < clause->exprs.size(); ++i) {
    Bind(clause->exprs[i].get(), {});
    if (failed()) return;
    uint32_t types = procedure->arguments[i].types | kNullType;
    if ((types & Bit(Type::kFloat)) != 0) types |= kNumberTypes;
    Want(*clause->exprs[i], types, Concat("argument ", procedure->arguments[i].name));
    step.arguments.push_back(clause->exprs[i].get());
  }
  if (failed()) return;
  if (clause->yield_star && !only) {
    return Fail("UnexpectedSyntax", clause->pos, "YIELD * is only for a CALL that stands alone");
  }
  const bool all = only && (!clause->yield_given || clause->yield_star);
  if (all) {
    for (const Procedure::Field& field : procedure->results)
      clause->yield.push_back({field.name, field.name, clause->pos});
  }
  std::set<std::string> names;
  for (const YieldItem& item : clause->yield) {
    const auto field = std::find_if(procedure->results.begin(), procedure->results.end(),
                                    [&](const auto& f) { return f.name == item.field; });
    if (field == procedure->results.end()) {
      return Fail("UndefinedVariable", item.pos,
                  Concat("`", procedure->name, "` has no column `", item.field, "`"));
    }
    if (scope_.contains(item.alias) || !names.insert(item.alias).second) {
      return Fail("VariableAlreadyBound", item.pos,
                  Concat("`", item.alias, "` is already defined"));
    }
    const Slot slot = Allocate();
    step.outputs.emplace_back(static_cast<Slot>(field - procedure->results.begin()), slot);
  }
  for (size_t i = 0; i < clause->yield.size(); ++i) {
    scope_[clause->yield[i].alias] = {step.outputs[i].second, kAnyType};
    if (!only) continue;
    plan->columns.push_back(clause->yield[i].alias);
    plan->branches.back().outputs.push_back(step.outputs[i].second);
  }
  steps->push_back(std::move(step));
  if (clause->where == nullptr) return;
  Bind(clause->where.get(), {.predicate = true});
  Step filter;
  filter.kind = Step::Kind::kFilter;
  filter.predicates.push_back(clause->where.get());
  steps->push_back(std::move(filter));
}

// CALL { … } IN TRANSACTIONS.
void Planner::PlanBatches(Clause* clause, bool wrote, const Plan* within, Step* step) {
  if (within != plan_) {
    return Fail("InvalidClauseComposition", clause->pos,
                "CALL { … } IN TRANSACTIONS may not be within another subquery");
  }
  if (plan_->in_transactions) {
    return Fail("InvalidClauseComposition", clause->pos,
                "CALL { … } IN TRANSACTIONS may be in a statement once: make two statements of it");
  }
  if (wrote) {
    return Fail("InvalidClauseComposition", clause->pos,
                "CALL { … } IN TRANSACTIONS may not come after a clause that writes");
  }
  // It commits, also where it only reads.
  plan_->in_transactions = step->in_transactions = plan_->writes = true;
  step->on_error = clause->on_error;
  if (!clause->status.empty()) {
    if (scope_.contains(clause->status)) {
      return Fail("VariableAlreadyBound", clause->status_pos,
                  Concat("`", clause->status, "` is already defined"));
    }
    step->status = Declare(clause->status, kAnyType);
  }
  if (clause->limit == nullptr) return;
  CheckCount(*clause->limit, "OF … ROWS");
  if (failed()) return;
  Scope saved;
  std::swap(saved, scope_);
  Bind(clause->limit.get(), {});
  std::swap(saved, scope_);
  step->expr = clause->limit.get();
}

// CALL { ... }: sees nothing of the outside but what its first WITH imports.
void Planner::PlanSubquery(Clause* clause, const Clause* behind, Plan* within, Steps* steps) {
  const Scope outer = scope_;
  const std::vector<bool> used = used_;
  auto plan = std::make_shared<Plan>();
  if (clause->imports_given) {
    if (!clause->imports_star) scope_.clear();
    for (const ProjectionItem& item : clause->imports) {
      const auto it = outer.find(item.alias);
      if (it == outer.end()) {
        return Fail("UndefinedVariable", item.pos, Concat("`", item.alias, "` is not defined"));
      }
      if (!scope_.emplace(*it).second) {
        return Fail("VariableAlreadyBound", item.pos,
                    Concat("`", item.alias, "` is imported already"));
      }
    }
  }
  const bool wrote = std::exchange(plan_->writes, false);
  const Scope around = std::exchange(imported_, clause->imports_given ? scope_ : Scope());
  PlanQuery(clause->subquery.get(), plan.get(), true, !clause->imports_given);
  imported_ = around;
  const bool writes = std::exchange(plan_->writes, wrote || plan_->writes);
  if (failed()) return;
  updated_ = updated_ || writes;
  std::vector<bool> next = used;
  next.resize(used_.size(), false);
  used_ = std::move(next);
  scope_ = outer;
  Step step;
  step.kind = Step::Kind::kSubquery;
  step.unit = plan->columns.empty();
  // Rows of the subquery are in slots that it shares with nobody outside; results move to new ones.
  for (size_t i = 0; i < plan->columns.size(); ++i) {
    if (scope_.contains(plan->columns[i])) {
      return Fail("VariableAlreadyBound", clause->pos,
                  Concat("`", plan->columns[i], "` is already defined"));
    }
    step.outputs.emplace_back(static_cast<Slot>(i), Declare(plan->columns[i], kAnyType));
  }
  for (const std::vector<Clause>& part : clause->subquery->parts) {
    if (part.back().kind != Clause::Kind::kReturn) continue;
    for (const ProjectionItem& item : part.back().items) {
      if (item.named) continue;
      return Fail("NoExpressionAlias", item.pos,
                  "an expression that CALL { … } returns needs a name: AS name");
    }
  }
  if (clause->in_transactions) PlanBatches(clause, wrote, within, &step);
  if (writes || step.in_transactions) CollectReads(steps);
  step.subplan = std::move(plan);
  // What follows sees what all of its transactions have committed, and others meanwhile.
  const bool changes = writes || step.in_transactions;
  steps->push_back(std::move(step));
  const bool takes_all =
      behind == nullptr ||
      std::any_of(behind->items.begin(), behind->items.end(), [](const auto& item) {
        return item.expr != nullptr && HasAggregate(*item.expr);
      });
  if (!changes || takes_all) return;
  // All rows are written, however few of them LIMIT or the client behind it wants to see.
  CollectRows(steps);
  updated_ = false;
}

// What writes row by row must not meet the scans that its rows come from.
void Planner::CollectReads(Steps* steps) {
  const bool reads = std::any_of(steps->begin(), steps->end(), [](const Step& step) {
    return step.kind != Step::Kind::kUnwind && step.kind != Step::Kind::kLoadCsv &&
           step.kind != Step::Kind::kProject && step.kind != Step::Kind::kEager;
  });
  if (!reads || steps->back().kind == Step::Kind::kEager) return;
  CollectRows(steps);
}

}  // namespace pulse::cypher
