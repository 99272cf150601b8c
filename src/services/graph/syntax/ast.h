// The tree of a query. The parser builds it, the planner adds slots, types and sub-plans, and from
// then on it is constant and shared: execution reads it from any number of threads and keeps its
// own state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/graph/model/graph.h"
#include "services/graph/model/value.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {

struct Expr;
struct Query;
struct Function;
struct Procedure;
struct Plan;
struct PatternPart;
using ExprPtr = std::unique_ptr<Expr>;

enum class Op : uint8_t {
  kNone,
  kOr,
  kXor,
  kAnd,
  kNot,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kPow,
  kNegate,
  kPlus,
  kIn,
  kStartsWith,
  kEndsWith,
  kContains,
  kRegex,
  kConcat,
  kIsNull,
  kIsNotNull,
};

// In which slot of a row a variable lies; -1: nowhere.
using Slot = int;

// What an error in a batch of CALL { … } IN TRANSACTIONS ends: the statement, nothing but its
// batch, or that and all batches behind it.
enum class OnError : uint8_t { kFail, kContinue, kBreak };

// A test of labels, or of a relationship's type: a program for a stack of truths. kName stands for
// the next of `names`. Without a program, all of the names.
enum class LabelOp : uint8_t { kName, kAny, kNot, kAnd, kOr };
// $(names), whose value is one name or a list of them: all of these, or any of them.
struct DynamicLabels {
  ExprPtr names;
  bool any = false;
  Pos pos;
};
struct LabelExpr {
  std::vector<std::string> names;
  std::vector<LabelOp> ops;
  Pos pos;
  std::vector<DynamicLabels> dynamic = {};  // beside the names; without a program
};

// A call of the function that tests for them, which no query can name.
inline constexpr std::string_view kHasDynamicLabels = "HAS LABELS";
ExprPtr HasDynamicLabels(ExprPtr subject, DynamicLabels labels);

struct NodePattern {
  std::string variable;  // empty: none was written
  std::vector<std::string> labels;
  LabelExpr test;      // with a program: the expression, where it is more than `labels`; dynamic
  ExprPtr properties;  // a map literal or a parameter
  ExprPtr where;
  Pos pos;
  Slot slot = -1;
  Slot group = -1;                  // in a quantified path: of the list, one for each repetition
  std::vector<std::string> any_of;  // of planning: the node has one of these labels; empty: unknown
};

struct EdgePattern {
  std::string variable;
  std::vector<std::string> types;  // one of them; empty: any
  LabelExpr test;                  // as of a node
  Direction direction = Direction::kBoth;
  bool variable_length = false;
  int64_t min = 1;
  int64_t max = -1;  // -1: none
  ExprPtr properties;
  ExprPtr where;
  Pos pos;
  Slot slot = -1;
  Slot group = -1;  // as of a node
  // A quantified path, ((a)-->(b)-->(c)){min, max}, stands where a relationship of variable length
  // could: the list of all of its relationships is in `slot`. Else null.
  std::unique_ptr<PatternPart> path;
};

// A chain: nodes[0] edges[0] nodes[1] ...
struct PatternPart {
  enum class Kind : uint8_t { kPlain, kShortest, kAllShortest };
  Kind kind = Kind::kPlain;
  bool selected = false;  // by a selector: the MATCH's WHERE looks at what was selected alone
  std::string path;
  std::vector<NodePattern> nodes;
  std::vector<EdgePattern> edges;
  ExprPtr where;  // within the brackets of a quantified path
  Pos pos;
  Slot slot = -1;
};
using Pattern = std::vector<PatternPart>;

struct Expr {
  enum class Kind : uint8_t {
    kLiteral,        // value
    kParameter,      // name
    kVariable,       // name; slot after planning
    kProperty,       // kids[0].name
    kIndex,          // kids[0][kids[1]]
    kSlice,          // kids[0][kids[1]..kids[2]], either may be null
    kList,           // kids
    kMap,            // names, kids
    kMapProjection,  // kids[0]{...}: names and kids; name ".*" for all; a null kid is a property
    kUnary,          // op kids[0]
    kBinary,         // kids[0] op kids[1]; flag: the pattern of =~ is a literal without mistake
    kChain,          // kids[0] ops[0] kids[1] ops[1] kids[2] ...: comparisons
    kHasLabels,      // kids[0]:names, all of them; with label_ops what these say
    kCase,           // flag: kids[0] is what is compared, with each, or by predicates of `name`;
                     // then pairs; then the default or null
    kCall,           // name(kids); flag: DISTINCT
    kCountStar,
    kListComprehension,     // [name IN kids[0] WHERE kids[1] | kids[2]]
    kPatternComprehension,  // [pattern WHERE kids[0] | kids[1]]
    kQuantifier,            // name2(name IN kids[0] WHERE kids[1])
    kReduce,                // reduce(name2 = kids[0], name IN kids[1] | kids[2])
    kSubquery,              // EXISTS, COUNT or COLLECT { subquery }, as `use` says
    kPattern,               // a pattern as a predicate
  };
  enum class Use : uint8_t { kExists, kCount, kCollect };
  Kind kind = Kind::kLiteral;
  Use use = Use::kExists;
  Op op = Op::kNone;
  bool flag = false;
  Pos pos;
  uint32_t end = 0;  // where its text ends
  int depth = 1;     // of the tree below, bounded by the parser
  std::string name;
  std::string name2;
  Value value;
  std::vector<std::string> names;
  std::vector<Op> ops;
  std::vector<LabelOp> label_ops;
  std::vector<ExprPtr> kids;
  Pattern pattern;
  std::unique_ptr<Query> subquery;

  // What planning adds.
  Slot slot = -1;      // of a variable, of the element in a comprehension, of an aggregate's result
  Slot slot2 = -1;     // of reduce's accumulator
  uint32_t types = 0;  // a bit for each Type that it may have
  const Function* function = nullptr;
  std::shared_ptr<const Plan> plan;  // of a subquery or pattern
};

// The variable that stands for the subject of a CASE, as none is written.
inline constexpr std::string_view kCaseSubject = "\x01";

struct ProjectionItem {
  ExprPtr expr;
  std::string alias;  // the text of the expression where none was written
  bool named = false;
  Pos pos;
  Slot slot = -1;
};

struct SortItem {
  ExprPtr expr;
  bool descending = false;
};

struct SetItem {
  enum class Kind : uint8_t { kProperty, kDynamic, kReplace, kMerge, kLabels };
  Kind kind = Kind::kProperty;
  // kProperty: an Expr of kind kProperty; kDynamic: n[key], of kind kIndex; else what is changed.
  ExprPtr target;
  ExprPtr value;  // null for REMOVE and for labels
  std::vector<std::string> labels;
  std::vector<DynamicLabels> dynamic;  // labels
  Pos pos;
};

struct YieldItem {
  std::string field;
  std::string alias;
  Pos pos;
};

struct Clause {
  enum class Kind : uint8_t {
    kMatch,
    kUnwind,
    kWith,
    kReturn,
    kCreate,
    kMerge,
    kSet,
    kRemove,
    kDelete,
    kForeach,
    kCall,
    kSubquery,
  };
  Kind kind = Kind::kMatch;
  Pos pos;
  bool finished = false;  // FINISH is behind it
  bool implied = false;   // WITH *, written as ORDER BY, LIMIT, FILTER or LET
  bool optional = false;  // OPTIONAL MATCH
  bool detach = false;
  Pattern pattern;
  ExprPtr where;
  // WITH and RETURN
  bool distinct = false;
  bool star = false;
  std::vector<ProjectionItem> items;
  std::vector<SortItem> order;
  ExprPtr skip, limit;
  // UNWIND expr AS variable; FOREACH (variable IN expr | body); LOAD CSV FROM expr AS variable,
  // which is an UNWIND of another source.
  ExprPtr expr;
  bool load_csv = false;
  bool csv_headers = false;
  char separator = ',';
  std::string variable;
  Slot slot = -1;
  std::vector<Clause> body;
  // SET, REMOVE, MERGE
  std::vector<SetItem> set, on_create, on_match;
  // DELETE; arguments of CALL
  std::vector<ExprPtr> exprs;
  // CALL
  std::string procedure;
  bool arguments_given = false;
  bool yield_given = false;
  bool yield_star = false;
  std::vector<YieldItem> yield;
  std::unique_ptr<Query> subquery;
  // CALL (imports) { subquery }; without them its first WITH says what it sees.
  bool imports_given = false;
  bool imports_star = false;
  std::vector<ProjectionItem> imports;  // variables
  bool in_transactions = false;         // CALL { subquery } IN TRANSACTIONS [OF `limit` ROWS]
  OnError on_error = OnError::kFail;    // [ON ERROR …]
  std::string status;                   // [REPORT STATUS AS status]
  Pos status_pos;
};

inline bool IsUpdate(const Clause& clause) {
  switch (clause.kind) {
    case Clause::Kind::kCreate:
    case Clause::Kind::kMerge:
    case Clause::Kind::kSet:
    case Clause::Kind::kRemove:
    case Clause::Kind::kDelete:
    case Clause::Kind::kForeach:
      return true;
    default:
      return false;
  }
}

struct Query {
  std::vector<std::vector<Clause>> parts;  // of UNION
  bool union_all = false;
  bool explain = false;
  bool profile = false;
  Pos pos;
};

}  // namespace pulse::cypher
