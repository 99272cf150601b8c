// What the text of MATCH clauses implies, before they are planned: predicates that an OR implies of
// each of its variables, and predicates of a MATCH on what an earlier MATCH finds, which go there.
// Both are for predicates that have no errors (IsPurePredicate) alone, and change no result.
#include <algorithm>
#include <functional>
#include <map>

#include "services/graph/expressions/batch_eval.h"
#include "services/graph/planner/planner.h"
#include "services/graph/syntax/parser.h"
#include "services/graph/syntax/regex_cache.h"

namespace pulse::cypher {

ExprPtr Joined(Op op, ExprPtr left, ExprPtr right) {
  if (left == nullptr) return right;
  auto both = std::make_unique<Expr>();
  both->kind = Expr::Kind::kBinary;
  both->op = op;
  both->pos = left->pos;
  both->end = right->end;
  both->depth = 1 + std::max(left->depth, right->depth);
  both->kids.push_back(std::move(left));
  both->kids.push_back(std::move(right));
  return both;
}

void Flatten(const Expr& e, Op op, std::vector<const Expr*>* out) {
  if (e.kind == Expr::Kind::kBinary && e.op == op) {
    Flatten(*e.kids[0], op, out);
    Flatten(*e.kids[1], op, out);
  } else {
    out->push_back(&e);
  }
}

namespace {

constexpr size_t kMostAlternatives = 16;

using Names = std::set<std::string>;
// Regular expressions, and whether they are sound: a predicate is looked at for each clause.
using Patterns = std::map<std::string, bool>;

bool IsOperand(const Expr& e, Names* names) {
  if (e.kind == Expr::Kind::kLiteral || e.kind == Expr::Kind::kParameter) return true;
  if (e.kind != Expr::Kind::kProperty || e.kids[0]->kind != Expr::Kind::kVariable) return false;
  names->insert(e.kids[0]->name);
  return true;
}

bool IsLiterals(const Expr& e) {
  return e.kind == Expr::Kind::kList &&
         std::all_of(e.kids.begin(), e.kids.end(), [](const ExprPtr& kid) {
           return kid != nullptr && kid->kind == Expr::Kind::kLiteral;
         });
}

// A pure predicate, before it is bound, and the names of its variables.
bool IsPureText(const Expr& e, Names* names, Patterns* patterns) {
  if (e.kind == Expr::Kind::kUnary) {
    if (e.op == Op::kNot) return IsPureText(*e.kids[0], names, patterns);
    return (e.op == Op::kIsNull || e.op == Op::kIsNotNull) && IsOperand(*e.kids[0], names);
  }
  const auto operand = [names](const Expr& kid) {
    return IsOperand(kid, names) || ComputedNow(kid, nullptr);
  };
  if (e.kind == Expr::Kind::kChain) {
    return std::all_of(e.kids.begin(), e.kids.end(),
                       [&](const ExprPtr& kid) { return operand(*kid); });
  }
  if (e.kind != Expr::Kind::kBinary) return false;
  const Expr &left = *e.kids[0], &right = *e.kids[1];
  if (e.op == Op::kAnd || e.op == Op::kOr || e.op == Op::kXor) {
    return IsPureText(left, names, patterns) && IsPureText(right, names, patterns);
  }
  if (!operand(left)) return false;
  if (IsComparison(e.op)) return operand(right);
  if (e.op == Op::kIn) return IsLiterals(right);
  if (!IsStringTest(e.op) || right.kind != Expr::Kind::kLiteral) return false;
  if (e.op != Op::kRegex) return true;
  if (!right.value.is_string()) return false;
  const auto [it, fresh] = patterns->try_emplace(right.value.as_string(), false);
  if (fresh) it->second = RegexPattern(it->first).error().empty();
  return it->second;
}

// Of a pure predicate that is not bound.
ExprPtr Clone(const Expr& e) {
  auto copy = std::make_unique<Expr>();
  copy->kind = e.kind;
  copy->op = e.op;
  copy->flag = e.flag;
  copy->pos = e.pos;
  copy->end = e.end;
  copy->depth = e.depth;
  copy->name = e.name;
  copy->value = e.value;
  copy->names = e.names;
  copy->label_ops = e.label_ops;
  copy->ops = e.ops;
  for (const ExprPtr& kid : e.kids) copy->kids.push_back(kid == nullptr ? nullptr : Clone(*kid));
  return copy;
}

// Of (a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4): a.x = 1 OR a.x = 3, and the same of b.
void AddImplied(const Expr& either, const Names& known, Patterns* patterns,
                std::vector<ExprPtr>* out) {
  std::vector<const Expr*> alternatives;
  Flatten(either, Op::kOr, &alternatives);
  if (alternatives.size() < 2 || alternatives.size() > kMostAlternatives) return;
  struct Implied {
    ExprPtr predicate;
    size_t alternatives = 0;
  };
  std::map<std::string, Implied> found;
  for (size_t k = 0; k < alternatives.size(); ++k) {
    std::vector<const Expr*> parts;
    Flatten(*alternatives[k], Op::kAnd, &parts);
    std::map<std::string, ExprPtr> here;
    for (const Expr* part : parts) {
      Names names;
      if (!IsPureText(*part, &names, patterns) || names.size() != 1) continue;
      ExprPtr& all = here[*names.begin()];
      all = Joined(Op::kAnd, std::move(all), Clone(*part));
    }
    for (auto& [name, predicate] : here) {
      Implied& implied = found[name];
      // One that says nothing of it leaves nothing implied.
      if (implied.alternatives != k) continue;
      implied.predicate = Joined(Op::kOr, std::move(implied.predicate), std::move(predicate));
      ++implied.alternatives;
    }
  }
  // All about one variable: that is the predicate itself.
  if (found.size() < 2) return;
  for (auto& [name, implied] : found) {
    if (implied.alternatives != alternatives.size() || !known.contains(name)) continue;
    out->push_back(std::move(implied.predicate));
  }
}

Names NamesOf(const Pattern& pattern) {
  Names names;
  for (const PatternPart& part : pattern) {
    for (const NodePattern& node : part.nodes) names.insert(node.variable);
    for (const EdgePattern& edge : part.edges) {
      // A list has no properties.
      if (!edge.variable_length) names.insert(edge.variable);
    }
  }
  names.erase("");
  return names;
}

// Takes conjuncts out of *where; those that `take` has moved are gone.
void TakeConjuncts(ExprPtr* where, const std::function<bool(ExprPtr*)>& take) {
  if (*where == nullptr) return;
  Expr& e = **where;
  if (e.kind != Expr::Kind::kBinary || e.op != Op::kAnd) {
    if (take(where)) where->reset();
    return;
  }
  TakeConjuncts(&e.kids[0], take);
  TakeConjuncts(&e.kids[1], take);
  if (e.kids[0] != nullptr && e.kids[1] != nullptr) return;
  ExprPtr left = std::move(e.kids[e.kids[0] != nullptr ? 0 : 1]);
  *where = std::move(left);
}

bool IsPlainMatch(const Clause& clause) {
  return clause.kind == Clause::Kind::kMatch && !clause.optional;
}

}  // namespace

bool ComputedNow(const Expr& call, Value* out) {
  static constexpr std::string_view kNames[] = {"date",          "localtime", "time",
                                                "localdatetime", "datetime",  "duration"};
  if (call.kind != Expr::Kind::kCall || call.kids.size() != 1 ||
      call.kids[0]->kind != Expr::Kind::kLiteral || !call.kids[0]->value.is_string()) {
    return false;
  }
  const Function* f = FindFunction(call.name);
  if (f == nullptr ||
      std::find(std::begin(kNames), std::end(kNames), f->name) == std::end(kNames)) {
    return false;
  }
  EvalContext context;
  Value argument = call.kids[0]->value;
  Value value = f->call(context, {&argument, 1});
  if (context.failed() || value.is_null()) return false;
  if (out != nullptr) *out = std::move(value);
  return true;
}

void Planner::RewriteMatches(std::vector<Clause>* clauses) {
  Patterns patterns;
  Names known;  // of this MATCH, and of those right before it
  for (size_t i = 0; i < clauses->size(); ++i) {
    Clause& clause = (*clauses)[i];
    if (i == 0 || !IsPlainMatch(clause) || !IsPlainMatch((*clauses)[i - 1])) known.clear();
    if (clause.kind != Clause::Kind::kMatch) continue;
    known.merge(NamesOf(clause.pattern));
    if (clause.where == nullptr) continue;
    std::vector<const Expr*> conjuncts;
    std::vector<ExprPtr> implied;
    Flatten(*clause.where, Op::kAnd, &conjuncts);
    for (const Expr* conjunct : conjuncts) AddImplied(*conjunct, known, &patterns, &implied);
    for (ExprPtr& predicate : implied) {
      if (clause.where->depth >= kMaxExprDepth) break;
      clause.where = Joined(Op::kAnd, std::move(clause.where), std::move(predicate));
    }
  }
  for (size_t i = clauses->size(); i-- > 1;) {
    Clause &earlier = (*clauses)[i - 1], &later = (*clauses)[i];
    if (!IsPlainMatch(earlier) || !IsPlainMatch(later)) continue;
    const Names found = NamesOf(earlier.pattern);
    TakeConjuncts(&later.where, [&](ExprPtr* conjunct) {
      Names names;
      const bool deep = earlier.where != nullptr && earlier.where->depth >= kMaxExprDepth;
      if (deep || !IsPureText(**conjunct, &names, &patterns) || names.empty() ||
          !std::includes(found.begin(), found.end(), names.begin(), names.end())) {
        return false;
      }
      earlier.where = Joined(Op::kAnd, std::move(earlier.where), std::move(*conjunct));
      return true;
    });
  }
}

}  // namespace pulse::cypher
