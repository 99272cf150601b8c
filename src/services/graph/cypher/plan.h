// The plan of a query: pipelines of steps over rows of slots. Made by the planner, constant
// afterwards, and shared by any number of executions at once; so it can be cached by the text of
// the query.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/expressions/eval.h"
#include "services/graph/model/database.h"
#include "services/graph/model/read_counts.h"
#include "services/graph/syntax/ast.h"

namespace pulse::cypher {

// A procedure that CALL runs.
struct Procedure {
  struct Field {
    std::string name;
    uint32_t types = 0;  // Bit()s
  };
  std::string name;
  std::vector<Field> arguments, results;
  size_t optional = 0;  // of the last arguments: CALL may leave them out
  bool writes = false;
  // Appends result rows, one after the other, to `out`. Errors end the query.
  std::function<absl::Status(EvalContext&, const ValueList& arguments, ValueList* out)> call;
};

class ProcedureCatalog {
 public:
  virtual ~ProcedureCatalog() = default;
  // nullptr: there is none. Lives as long as plans that use it.
  virtual const Procedure* Find(std::string_view name) const = 0;
};

struct CreateNodeOp {
  Slot slot = -1;
  std::vector<int> labels;           // names
  std::vector<const Expr*> dynamic;  // more of them
  const Expr* properties = nullptr;
};
struct CreateEdgeOp {
  Slot slot = -1, source = -1, target = -1;
  int type = -1;                       // name
  const Expr* dynamic_type = nullptr;  // instead of it
  const Expr* properties = nullptr;
};
// Nodes and relationships in the order of their making; `edge` says which list is next.
struct CreateOps {
  std::vector<CreateNodeOp> nodes;
  std::vector<CreateEdgeOp> edges;
  std::vector<bool> order;  // true: an edge
  std::vector<std::pair<const PatternPart*, Slot>> paths;
};

struct SetOp {
  SetItem::Kind kind = SetItem::Kind::kProperty;
  const Expr* target = nullptr;      // the entity
  const Expr* key = nullptr;         // kDynamic: the name of the property
  const Expr* value = nullptr;       // null: remove
  std::vector<int> names;            // the property, or labels
  std::vector<const Expr*> dynamic;  // more labels
  bool remove = false;
};

// A relationship of a quantified path and the node behind it, as they are walked.
struct QuantifiedHop {
  Direction direction = Direction::kBoth;
  std::vector<int> types;               // names
  Slot edge = -1, node = -1;            // of this repetition, for the predicates
  bool into = false;                    // an earlier node of the repetition is the same variable
  std::vector<const Expr*> predicates;  // as soon as the node is known
};
// A variable of a quantified path: a list with its `at`th node or relationship, as written, of each
// repetition.
struct QuantifiedGroup {
  Slot slot = -1;
  bool edges = false;
  size_t at = 0;
};

struct Step;
using Steps = std::vector<Step>;

struct Step {
  enum class Kind : uint8_t {
    kScan,         // nodes into `slot`: all, by label, or by indexes
    kExpand,       // from `from` over one relationship
    kExpandVar,    // over min to max of them
    kQuantified,   // over min to max repetitions of `hops`
    kShortest,     // between `from` and `slot`, both bound
    kEdge,         // over the relationship that `edge` holds already
    kFilter,       // predicates
    kPath,         // the path of `part` into `slot`
    kOptional,     // inner; where it has no row, nulls
    kProject,      // items
    kAggregate,    // items are the keys, aggregates
    kEdgeColumns,  // of all relationships, properties (`keys`) into slots (`outputs`)
    kColumns,      // aggregates over all relationships, or all nodes, by columns
    kIntersect,    // inner, two hops from bound nodes to the same new one, `slot`
    kCountPaths,   // inner, the last one or two hops of a pattern: how many, into `slot`
    kDistinct,     // on the slots of items
    kSort,
    kSkip,
    kLimit,
    kUnwind,
    kLoadCsv,
    kProcedure,
    kSubquery,
    kCreate,
    kMerge,
    kSet,
    kDelete,
    kForeach,
    kEager,   // all rows before the first goes on
    kImport,  // of the row that the subquery runs for, the slots of items
  };
  Kind kind = Kind::kFilter;
  Slot slot = -1;
  Slot from = -1;
  Slot edge = -1;
  bool all_edges = false;   // kColumns: relationships, not nodes
  bool into = false;        // `slot` is bound: it must be the node that is reached
  bool cycles = false;      // of a shortest path: from a node to itself is one, too
  bool from_bound = true;   // kEdge: `from` is bound, too
  bool edge_bound = false;  // kExpandVar: `edge` holds the list of relationships
  // kExpand: `edge` gets the number of the relationship, which is all that others ask of it.
  bool edge_number = false;
  Direction direction = Direction::kBoth;
  bool reversed = false;    // kExpandVar: walked from the end of the pattern
  bool all_paths = false;   // kShortest
  std::vector<int> types;   // names of types
  int label = -1;           // name
  std::vector<int> any_of;  // kScan: names of labels; nodes with one of them, each node once
  // kScan: names of the keys of an index for each label, which finds the nodes; of one key, the
  // values are alternatives, or items of a list. Or of a table that the execution makes of the
  // nodes. Without keys, the values are numbers of nodes, as id() and elementId() give them.
  std::vector<int> keys;
  std::vector<const Expr*> sought;  // values; none: a scan
  enum class Sought : uint8_t { kAll, kAny, kInList, kTable, kId, kIdInList };
  Sought sought_as = Sought::kAll;
  // That hold for all that is sought, and for nothing else: looked at where the index is gone.
  std::vector<const Expr*> sought_by;
  // kScan of one label: bounds of a property, for an index that begins with it. Predicates behind
  // look at the values; nodes that are out of the bounds need not come.
  int within_key = -1;  // name
  std::vector<std::pair<Bound::Kind, const Expr*>> within;
  int64_t min = 1, max = -1;
  std::vector<Slot> unique;  // slots of relationships that this one must differ from
  bool relisted = false;     // some of these are of an earlier clause
  Slot element = -1;         // kExpandVar: slot of one relationship, for its predicates
  // kScan, kExpand: IsPurePredicate(), on `slot`. kEdgeColumns: comparisons of one of its slots
  // with a literal or parameter.
  std::vector<const Expr*> predicates;
  // kShortest: what is to hold, or not to hold, of each node or relationship of the path, in a
  // slot; and what is to hold of the path: longer ones are looked for where it does not of the
  // shortest.
  struct PathTest {
    bool of_nodes = false, holds = true;
    Slot slot = -1;
    const Expr* expr = nullptr;
  };
  std::vector<PathTest> tests;
  std::vector<const Expr*> of_path;
  std::vector<std::pair<const Expr*, bool>> most_lengths;  // of it; true: less than that
  // kQuantified; `element` is the slot of a repetition's first node, which `predicates` are for.
  std::vector<QuantifiedHop> hops;
  std::vector<QuantifiedGroup> groups;
  std::vector<Slot> nulls;
  Slot row_number = -1;
  std::vector<std::pair<const Expr*, Slot>> items;
  std::vector<std::pair<const Expr*, Slot>> aggregates;
  Slot weight = -1;  // kAggregate: how many rows a row stands for; -1: one
  std::vector<std::pair<const Expr*, bool>> order;  // true: descending
  // kSort, kDistinct: no more than skip + limit rows are wanted
  const Expr* top_skip = nullptr;
  const Expr* top_limit = nullptr;
  const Expr* expr = nullptr;
  const PatternPart* part = nullptr;
  Steps inner;
  std::shared_ptr<const Plan> subplan;
  std::vector<std::pair<Slot, Slot>>
      outputs;  // kSubquery, kProcedure, kEdgeColumns: column to slot
  const Procedure* procedure = nullptr;
  std::vector<const Expr*> arguments;
  CreateOps create;
  std::vector<SetOp> set, on_match;
  std::vector<const Expr*> deletes;
  bool csv_headers = false;  // kLoadCsv: rows are maps, by the names of the file's first record
  char separator = ',';      // kLoadCsv
  bool detach = false;
  bool eager = true;
  bool ordered = false;               // kOptional: row by row, so that they stay in their order
  bool spills = true;                 // kDistinct
  bool unit = false;                  // kSubquery: without RETURN, the rows stay as they are
  bool in_transactions = false;       // kSubquery: commits after each so many rows as `expr` says
  OnError on_error = OnError::kFail;  // of such a one
  Slot status = -1;                   // ... gets what became of each row's transaction; -1: none
  // Slots that something behind this step reads: a step that makes rows copies these alone.
  bool all_live = true;
  std::vector<Slot> live;
};

struct Plan {
  struct Branch {
    Steps steps;
    std::vector<Slot> outputs;  // of the columns
  };
  std::unique_ptr<Query> query;  // what the steps point into
  std::vector<ExprPtr> made;     // expressions that the planner made
  std::string text;
  std::vector<std::string> names;
  std::vector<std::string> parameters;
  int width = 0;                 // slots of a row
  std::vector<Branch> branches;  // of UNION
  Steps unite;                   // of UNION without ALL: a kDistinct of the columns, its live slots
  std::vector<std::string> columns;
  bool reads = false;
  bool in_transactions = false;  // commits on the way: CALL { … } IN TRANSACTIONS
  bool writes = false;
  bool explain = false, profile = false;
};

// What PROFILE counts: of each step, the rows that it has given and what it has read for them.
struct StepCounts {
  uint64_t rows = 0;
  ReadCounts reads;
};
struct Profile {
  std::unordered_map<const Step*, StepCounts> steps;
  // By the store's maintenance while the query ran, for whomever.
  std::vector<EngineCopies> copied;

  ReadCounts Total() const;
};

// The steps, one a line, as EXPLAIN shows them; with `profile`, as PROFILE does.
std::string PlanText(const Plan& plan, const Profile* profile = nullptr);
// The same, line by line.
struct PlanLine {
  int indent = 0;  // spaces before it
  std::string name, details;
  int64_t rows = -1;  // not counted
  ReadCounts reads;   // where rows are counted
};
std::vector<PlanLine> PlanLines(const Plan& plan, const Profile* profile = nullptr);
// Names and numbers of what was read, without zeros: {"Hits", 12}, {"RunBytes", 512}.
std::vector<std::pair<std::string_view, uint64_t>> NamedCounts(const ReadCounts& reads);

}  // namespace pulse::cypher
