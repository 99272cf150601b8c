// The context of an execution: its graph and parameters, names, limits, temporary files, and the
// first error. What expressions, functions and operators are given.
//
// The first error stays in the context, and everything evaluates to null from then on: operators
// look at failed() after each row or batch. One context belongs to one execution and one thread; an
// execution may have several threads, each with a context of its own (Fork). Reads may block on the
// graph.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/graph/functions/memory_pool.h"
#include "services/graph/functions/spill_file.h"
#include "services/graph/model/csv_source.h"
#include "services/graph/model/graph.h"
#include "services/graph/model/value.h"
#include "services/graph/syntax/ast.h"

namespace pulse::cypher {

// What ends a query that would not end, or would take all memory. 0: no limit.
struct Limits {
  size_t memory_bytes =
      size_t{1} << 30;  // of what operators keep and single values hold, estimated
  uint64_t result_rows = 0;
  int64_t nanos = 0;
};

// Changes that a query made, as drivers report them.
struct Counters {
  uint64_t nodes_created = 0, nodes_deleted = 0;
  uint64_t edges_created = 0, edges_deleted = 0;
  uint64_t properties_set = 0;
  uint64_t labels_added = 0, labels_removed = 0;
  bool any() const {
    return nodes_created + nodes_deleted + edges_created + edges_deleted + properties_set +
               labels_added + labels_removed >
           0;
  }
};

class EvalContext;
struct Caller;  // of graph/session: for procedures alone
class ListSets;
class RegexCache;
class RegexPattern;

// Runs the plan of a subquery inside an expression; exec.cc does.
class SubplanRunner {
 public:
  virtual ~SubplanRunner() = default;
  virtual bool Exists(const Plan& plan, const Value* row) = 0;
  virtual int64_t Count(const Plan& plan, const Value* row) = 0;
  // The value of `result` on every row of the plan; null: its only column.
  virtual void Collect(const Plan& plan, const Expr* result, const Value* row, ValueList* out) = 0;
};

class EvalContext {
 public:
  EvalContext() = default;
  EvalContext(const EvalContext&) = delete;
  EvalContext& operator=(const EvalContext&) = delete;
  ~EvalContext() {
    if (pool != nullptr) pool->Give(own_reserved_.load(std::memory_order_relaxed));
  }

  const GraphView* graph = nullptr;
  GraphTransaction* transaction = nullptr;  // null: the query may not change anything
  const ValueMap* parameters = nullptr;     // sorted by key
  SubplanRunner* subplans = nullptr;
  const Caller* caller = nullptr;
  const OpenCsv* open_csv = nullptr;  // null: LOAD CSV is refused
  SpillSpace* spill = nullptr;        // null: nothing is spilled
  MemoryPool* pool = nullptr;         // of all executions; null: there is no limit of these
  Limits limits;
  std::function<int64_t()> monotonic_nanos;
  std::function<int64_t()> wall_nanos;  // since 1970, UTC
  int64_t statement_nanos = 0;          // wall_nanos when the query began
  int64_t transaction_nanos = 0;        // and its transaction; 0: with it
  const std::atomic<bool>* cancelled = nullptr;
  const std::function<bool()>* interrupted = nullptr;
  Counters counters;
  uint64_t random_seed = 0;  // of rand(); 0: from the clock
  size_t columns_from = 4;   // rows from which on expressions are evaluated by columns
  std::shared_ptr<RegexCache> regexes;
  std::shared_ptr<ListSets> list_sets;  // null: none yet
  // What this query deleted: its properties cannot be read any more.
  std::unordered_set<NodeId> deleted_nodes;
  std::unordered_set<EdgeId> deleted_edges;
  int64_t deleted_charged = 0;  // for what is in these
  // An element of such a set, as it is allocated, and its place in the table.
  static constexpr int64_t kBytesOfId = 40;

  // Seeded when it is first asked for: most queries never do.
  std::mt19937_64& Random() {
    if (!random_) {
      random_.emplace(random_seed != 0 ? random_seed : static_cast<uint64_t>(monotonic_nanos()));
    }
    return *random_;
  }

  // Begins an execution: names that the plan uses, and the deadline.
  void Start(const std::vector<std::string>* names);
  // Makes a new context one of the same execution, for one of `threads`: the same graph, names,
  // parameters, limits, temporary files, moment and deadline. Memory of both is counted together
  // from now on. It does not ask `interrupted`, and has no subplans yet. This one outlives it.
  void Fork(int threads, EvalContext* child);

  bool failed() const { return !status_.ok(); }
  const absl::Status& status() const { return status_; }
  Value Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    return Value();
  }
  // For who goes on after an error: the execution has not failed any more.
  void ForgetFailure() { status_ = absl::OkStatus(); }
  Value TypeError(std::string_view message);
  Value ArgumentError(std::string_view detail, std::string_view message);
  bool Check(absl::Status status) {
    if (!status.ok()) Fail(std::move(status));
    return !failed();
  }

  // Counts work; now and then it looks at the clock. False: stop.
  bool Tick(uint64_t work = 1) {
    work_ += work;
    return work_ < next_look_ ? !failed() : Look();
  }
  // Memory that an operator takes, and gives back with a negative number.
  bool Charge(int64_t bytes);
  // For one more node or relationship in deleted_nodes or deleted_edges.
  bool ChargeDeleted() {
    deleted_charged += kBytesOfId;
    return Charge(kBytesOfId);
  }
  void ForgetDeleted() {
    deleted_nodes.clear();
    deleted_edges.clear();
    Charge(-std::exchange(deleted_charged, 0));
  }
  // By all threads of the execution.
  int64_t charged() const {
    return shared_memory_ == nullptr ? memory_ : shared_memory_->load(std::memory_order_relaxed);
  }
  // Whether an operator that holds so many bytes of what is charged is to spill them: where half of
  // the limit is charged, and it would not write next to nothing again and again.
  bool SpillDue(int64_t held) const {
    return held >= spill_least_ ? charged() > spill_from_ || PoolIsShort()
                                : held >= spill_least_ / 16 && PoolIsShort();
  }
  // The same later, for who has spilled and has what may still grow.
  bool SpillOverdue(int64_t held) const {
    return (charged() > spill_from_ + spill_from_ / 2 || PoolIsShort()) && held >= spill_least_;
  }
  // The part of the limit that goes for this thread: what it reads and writes spilled rows with is
  // measured by it.
  size_t SpillShare() const { return limits.memory_bytes / spill_threads_; }
  // What may be charged until some operator is to spill.
  int64_t SpillRoom() const {
    const int64_t own = spill_from_ - charged();
    return pool == nullptr || spill == nullptr ? own : std::min(own, pool->RoomToHalf());
  }
  // What may be charged before a limit ends the execution.
  int64_t MemoryRoom() const {
    const int64_t own =
        limits.memory_bytes == 0 ? INT64_MAX / 2 : static_cast<int64_t>(limits.memory_bytes);
    const int64_t all =
        pool == nullptr || pool->limit() == 0 ? INT64_MAX / 2 : pool->limit() - pool->taken();
    return std::min(own - charged(), all);
  }
  // Whether the transaction's changes, which are in memory until it ends, are within the limit.
  bool ChangesFit();
  // Whether one value of this size may be made at all.
  bool Fits(size_t bytes);

  // Tokens of the plan's names, looked up once they exist. kNoToken: not (yet) in the graph.
  Token Label(int name);
  Token EdgeType(int name);
  Token Key(int name);
  const std::string& NameOf(int name) const { return (*names_)[static_cast<size_t>(name)]; }

  Value NodeProperty(NodeId node, Token key);
  Value EdgeProperty(const EdgeRef& edge, Token key);
  Value PropertyMap(const Value& entity);  // of a node or relationship
  std::vector<Token> Labels(NodeId node);
  // One name, or a list of them; false: it is neither, and this has failed.
  bool ReadLabelNames(const Value& v, std::vector<std::string>* names);
  bool ReadTypeName(const Value& v, std::string* name);  // that, of exactly one

 private:
  struct Tokens {
    Token label = kNoToken, type = kNoToken, key = kNoToken;
  };
  bool Look();
  // Take from the pool what of charged() is beyond what was taken, and give back what is not
  // needed any more.
  void Reserve();
  void GiveBack();
  bool PoolIsShort() const { return pool != nullptr && spill != nullptr && pool->RoomToHalf() < 0; }

  absl::Status status_;
  std::optional<std::mt19937_64> random_;
  const std::vector<std::string>* names_ = nullptr;
  std::vector<Tokens> tokens_;
  uint64_t work_ = 0, next_look_ = 0;
  int64_t deadline_ = 0;
  int64_t memory_ = 0;
  // Of all threads of the execution; null: there is one, which counts in memory_.
  std::atomic<int64_t>* shared_memory_ = nullptr;
  std::unique_ptr<std::atomic<int64_t>> own_shared_memory_;
  // From the pool; what this context has taken for all threads, or the one that it was forked from.
  std::atomic<int64_t> own_reserved_{0};
  std::atomic<int64_t>* reserved_ = &own_reserved_;
  int64_t spill_from_ = INT64_MAX / 2, spill_least_ = 0;
  size_t spill_threads_ = 1;
  Column column_;
};

// + - * / % ^, also of sum() and avg(). arithmetic.cc
Value Arithmetic(Op op, const Value& a, const Value& b, EvalContext& context);

// Whether toString() makes a text of it, and that text. arithmetic.cc
bool HasText(const Value& v);
std::string ScalarText(const Value& v);

}  // namespace pulse::cypher
