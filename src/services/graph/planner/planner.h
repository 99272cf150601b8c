// The planner: what names mean, which types are known, where rows keep what, and in which order
// patterns are matched. Queries and projections in planner.cc, expressions in planner_expr.cc,
// MATCH in planner_match.cc, _quantified.cc, _labels.cc and _order.cc, shortcuts in
// planner_rewrite, _count and _live.cc, updates and CALL in planner_update.cc. The first error
// stays in status_.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "services/graph/cypher/plan.h"
#include "services/graph/functions/functions.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/planner/planner_statistics.h"

namespace pulse::cypher {

// Whether a call is a date, time or duration written as a string, and without an error; computes
// it. `out` may be null. The call need not be bound.
bool ComputedNow(const Expr& call, Value* out);

// The direction in which a relationship is walked, from the left end or from the right one.
inline Direction Walked(const EdgePattern& edge, bool forward) {
  return forward ? edge.direction : Reversed(edge.direction);
}

// Of a plan, the hops within brackets among them. The stack of an execution grows by a frame or two
// for each step.
inline constexpr size_t kMaxSteps = 4000;

// The two by AND, OR or a comparison; without `left`, `right` alone.
ExprPtr Joined(Op op, ExprPtr left, ExprPtr right);
// The parts of a chain of AND or OR.
void Flatten(const Expr& e, Op op, std::vector<const Expr*>* out);

// Of variables.
using LocalNames = std::set<std::string, std::less<>>;

class Planner {
 public:
  Planner(std::string_view text, const GraphView& view, const ProcedureCatalog* procedures,
          const PlanOptions& options, Plan* plan)
      : text_(text),
        view_(view),
        procedures_(procedures),
        options_(options),
        stop_(options.stop),
        plan_(plan) {}

  absl::Status Run();

 private:
  struct Variable {
    Slot slot = -1;
    uint32_t types = kAnyType;
  };
  using Scope = std::map<std::string, Variable, std::less<>>;

  bool failed() const { return !status_.ok(); }
  // Failed, or asked to stop: for loops that may be long.
  bool Ended();
  void Fail(std::string_view detail, Pos pos, std::string_view message,
            std::string_view kind = "SyntaxError");
  int NameIndex(const std::string& name);
  std::vector<int> NameIndexes(const std::vector<std::string>& names);

  // Slots.
  Slot Allocate();
  void KeepOnly(const Scope& scope);
  Slot Declare(const std::string& name, uint32_t types);

  // planner.cc
  void PlanQuery(Query* query, Plan* plan, bool nested, bool parts_alone = false);
  void PlanClauses(std::vector<Clause>* clauses, Plan* plan, bool nested);
  // `behind`: the next clause of its part, or null.
  void PlanClause(Clause* clause, const Clause* behind, bool only, Plan* plan, Steps* steps);
  // Rows wait there until no more come.
  static void CollectRows(Steps* steps);
  void PlanProjection(Clause* clause, Steps* steps);
  void ExpandStar(Clause* clause);
  void PlanAggregation(Clause* clause, const Scope& before, Steps* steps);
  static bool AggregateByColumns(const Step& aggregate, Steps* steps);
  void RewriteToKeys(ExprPtr* expr, const Clause& clause, const LocalNames& local);
  void ReplaceProjected(ExprPtr* expr, const Clause& clause, bool aggregates,
                        const LocalNames& local);
  void CollectAggregates(Expr* expr, std::vector<std::pair<const Expr*, Slot>>* out);
  void PlanOrderSkipLimit(Clause* clause, const Scope& before, bool closed, Steps* steps);
  void CheckCount(const Expr& expr, std::string_view what);
  void PlanUnwind(Clause* clause, Steps* steps);
  void MakeOptional(Steps* steps);

  // planner_count.cc
  void CountPaths(Step* aggregate, Steps* steps);
  void FilterInStep(Steps* steps, size_t at) const;

  // planner_rewrite.cc
  static void RewriteMatches(std::vector<Clause>* clauses);

  // planner_live.cc
  static void FindLive(Plan::Branch* branch);
  void Unite(Plan* plan);

  // planner_edges.cc
  void ScanByProperties(Steps* steps);

  // planner_intersect.cc
  void Intersect(Steps* steps) const;

  // planner_expr.cc
  struct Context {
    bool aggregates = false;  // allowed here
    bool predicate = false;   // a pattern is allowed here
    bool in_aggregate = false;
  };
  void Bind(Expr* expr, Context context);
  void BindCall(Expr* expr, Context context);
  void BindComprehension(Expr* expr, Context context);
  void BindSubquery(Expr* expr);
  void BindOperator(Expr* expr, Context context);
  static void FoldCall(Expr* call);
  static void PrepareOperator(Expr* expr);
  void Want(const Expr& expr, uint32_t types, std::string_view what,
            std::string_view kind = "SyntaxError");
  static bool IsAggregate(const Expr& expr);
  static bool HasAggregate(const Expr& expr);
  ExprPtr MakeVariable(const std::string& name, Slot slot, uint32_t types, Pos pos) const;
  static bool Same(const Expr& a, const Expr& b);
  static void Slots(const Expr& expr, std::set<Slot>* out, bool* opaque);

  // planner_match.cc
  struct Predicate {
    const Expr* expr;
    std::set<Slot> needs;
    bool opaque = false;  // needs everything
    bool done = false;
  };
  struct MatchState {
    std::vector<Predicate> predicates;
    std::set<Slot> fresh;                   // of this MATCH
    std::set<Slot> bound;                   // what rows have by now of this MATCH
    std::vector<const EdgePattern*> edges;  // bound by now, those with a slot
    Scope before;                           // what earlier clauses have bound; for brackets
    bool tables = true;                     // nodes may be found by tables
    std::set<Slot> relisted;                // edges of earlier clauses that this one matches again
  };
  void PlanMatch(Pattern* pattern, Expr* where, Steps* steps, std::vector<Slot>* fresh);
  void DeclarePattern(Pattern* pattern, MatchState* state);
  void DeclareNode(NodePattern* node, MatchState* state);
  void DeclareEdge(EdgePattern* edge, MatchState* state, bool needed);
  void BindNode(NodePattern* node, MatchState* state);
  void BindEdge(EdgePattern* edge, MatchState* state);
  void AddEdgePredicates(EdgePattern* edge, Slot slot, MatchState* state);
  void AddElementPredicates(EdgePattern* edge, MatchState* state, Step* step);
  void LookedUp(Slot slot) {
    if (looked_up_ != nullptr) looked_up_->insert(slot);
  }
  void AddPredicate(const Expr* expr, MatchState* state);
  void AddPropertyPredicates(Expr* properties, const std::string& name, Slot slot, uint32_t type,
                             Pos pos, MatchState* state);
  ExprPtr MakeProperty(ExprPtr of, const std::string& key, Pos pos);
  static bool AllBound(const MatchState& state);
  void AddNodeAlone(const NodePattern& node, MatchState* state);
  void ApplyPredicates(MatchState* state, Steps* steps);
  struct Start {
    size_t part = 0, node = 0;
    double cost = 0;
  };
  // A part of a pattern, the node that begins, and its relationships in the order in which they are
  // walked; true: forward.
  struct WalkOrder {
    size_t part = 0, start = 0;
    std::vector<std::pair<size_t, bool>> edges;
    double cost = 0;
  };
  Start ChooseStart(const Pattern& pattern, const std::vector<bool>& done, const MatchState& state);
  // By an index for each of the labels, by numbers of nodes, or by a table of a scan's nodes.
  struct Seek {
    std::vector<std::string> labels;
    std::vector<int> keys;
    std::vector<const Expr*> values;  // none: the node is not found by any of these
    Step::Sought as = Step::Sought::kAll;
    std::vector<const Expr*> predicates;  // that hold for all nodes that are found
    double cost = 0;
  };
  // What an index may narrow a scan of the label to.
  struct Range {
    const Expr* property = nullptr;  // null: nothing
    std::vector<std::pair<Bound::Kind, const Expr*>> bounds;
  };
  bool IsBound(Slot slot, const MatchState& state) const;
  void BindPath(PatternPart* part, MatchState* state, Steps* steps);
  void PlanPart(PatternPart* part, const WalkOrder& order, MatchState* state, Steps* steps);
  void PlanScan(const NodePattern& node, Step* scan);
  void PlanStart(PatternPart* part, size_t node, MatchState* state, Steps* steps);
  void PlanEdge(PatternPart* part, size_t edge, bool forward, MatchState* state, Steps* steps);
  void PlanShortest(PatternPart* part, MatchState* state, Steps* steps);
  void AddPathTests(const PatternPart& part, MatchState* state, Step* step) const;
  std::vector<Slot> MustDiffer(const EdgePattern& edge, const MatchState& state) const;
  const Expr* Own(ExprPtr expr) {
    plan_->made.push_back(std::move(expr));
    return plan_->made.back().get();
  }

  // planner_quantified.cc
  void DeclareQuantified(EdgePattern* edge, MatchState* state);
  void PlanQuantified(EdgePattern* edge, bool forward, Step* step, MatchState* state);

  // planner_labels.cc
  static std::vector<std::string> AnyOf(const LabelExpr& expr);
  void AddLabelTest(const LabelExpr& test, ExprPtr subject, MatchState* state);
  // The expressions of both are bound.
  ExprPtr TestDynamic(DynamicLabels labels, ExprPtr subject);
  void AddDynamicTests(std::vector<DynamicLabels>* dynamic, const std::string& name, Slot slot,
                       uint32_t type, MatchState* state);
  void BindDynamic(const std::vector<DynamicLabels>& labels, std::vector<const Expr*>* out);
  void FindLabels(const MatchState& state, NodePattern* node) const;
  double CountOf(const std::vector<std::string>& labels) const;
  void DropScanned(const NodePattern& node, const Step& scan, MatchState* state) const;

  // planner_seek.cc
  bool IsReady(const Expr& value, const MatchState& state) const;
  bool EveryHasIndex(const std::vector<std::string>& labels, std::optional<Token> key) const;
  bool FindEqual(const NodePattern& node, const std::vector<std::string>& labels,
                 const MatchState& state, Seek* seek) const;
  bool FindAnyOf(const NodePattern& node, const std::vector<std::string>& labels,
                 const MatchState& state, Seek* seek) const;
  bool FindSeek(const NodePattern& node, const std::vector<std::string>& labels,
                const MatchState& state, double most, Seek* seek) const;
  bool FindById(const NodePattern& node, const MatchState& state, Seek* seek) const;
  bool FindTable(const NodePattern& node, const MatchState& state, Seek* seek) const;
  Range FindRange(const NodePattern& node, const std::string& label, const MatchState& state) const;
  double StartCost(const PatternPart& part, size_t node, const MatchState& state, Seek* seek) const;
  void DropSought(const Seek& seek, Step* scan, MatchState* state) const;

  // planner_order.cc
  static std::string RarestLabel(const NodePattern& node, Statistics* statistics);
  double ShareOf(const NodePattern& node, const MatchState& state, Statistics* statistics,
                 std::map<Slot, double>* shares);
  WalkOrder OrderFrom(const PatternPart& part, size_t start, const MatchState& state,
                      Statistics* statistics, std::map<Slot, double>* shares);
  WalkOrder ChooseOrder(const Pattern& pattern, const std::vector<bool>& done,
                        const MatchState& state);
  static WalkOrder PlainOrder(const Pattern& pattern, const Start& start);

  // planner_update.cc
  void RefuseOwn(const Expr& properties, const std::vector<Slot>& own);
  void PlanCreate(Pattern* pattern, bool merge, CreateOps* ops, std::vector<Slot>* fresh);
  void PlanMerge(Clause* clause, Step* step);
  void PlanSet(std::vector<SetItem>* items, bool remove, std::vector<SetOp>* out);
  void PlanDelete(Clause* clause, Step* step);
  void PlanForeach(Clause* clause, Step* step, Plan* plan);
  void PlanProcedure(Clause* clause, bool only, Plan* plan, Steps* steps);
  void PlanSubquery(Clause* clause, const Clause* behind, Plan* within, Steps* steps);
  void PlanBatches(Clause* clause, bool wrote, const Plan* within, Step* step);
  void CollectReads(Steps* steps);

  const std::string_view text_;
  const GraphView& view_;
  const ProcedureCatalog* const procedures_;
  const PlanOptions options_;
  StopCheck stop_;
  Plan* const plan_;
  absl::Status status_;
  Scope scope_;
  Scope imported_;  // by the CALL (…) { … } around, seen by all of its clauses
  std::set<Slot>* looked_up_ = nullptr;  // what names stand for, where that is asked
  std::vector<bool> used_;
  std::map<std::string, int> name_index_;
  std::set<std::string> parameters_;
  bool updated_ = false;  // a clause before this one changes the graph
};

}  // namespace pulse::cypher
