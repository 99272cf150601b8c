// Runs a plan on a graph. This is the entry to the query engine: MakePlan() of plan.h, kept in a
// cache by the caller, and Execute().
//
// An execution runs on the calling thread, where ParallelOptions says so with others beside it, and
// blocks where the graph does. Any number of executions may share a plan. Nothing of the graph is
// committed or rolled back here: where Execute() returns an error, the caller rolls the transaction
// back.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "services/graph/cypher/parallel.h"
#include "services/graph/cypher/plan.h"
#include "services/graph/expressions/eval.h"

namespace pulse::cypher {

// Takes the result in batches: `count` rows, `stride` values apart; the value of column i of a row
// is row[columns[i]].
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  // False: no more rows are wanted. Not an error.
  virtual bool OnRows(const Value* rows, size_t stride, size_t count,
                      std::span<const Slot> columns) = 0;
};

struct ExecuteOptions {
  const GraphView* view = nullptr;          // needed where there is no transaction
  GraphTransaction* transaction = nullptr;  // needed by plans that write
  const ValueMap* parameters = nullptr;     // sorted by key; null: none
  Limits limits;
  // Monotonic, for the limit of time; and since 1970, for date() and the like. Both have a default.
  std::function<int64_t()> monotonic_nanos;
  std::function<int64_t()> wall_nanos;
  int64_t transaction_nanos = 0;  // since 1970, when the transaction began; 0: with the query
  const std::atomic<bool>* cancelled = nullptr;  // set by others to end the query
  // Asked now and then by the thread that executes; true ends the query. Null: not asked.
  const std::function<bool()>* interrupted = nullptr;
  const Caller* caller = nullptr;     // for procedures; the engine does not look at it
  const OpenCsv* open_csv = nullptr;  // files of LOAD CSV; null: it is refused
  SpillOptions spill;                 // as it is: nothing is spilled
  MemoryPool* pool = nullptr;         // of all executions that share a limit; outlives them
  Profile* profile = nullptr;         // what each step gives and reads is added; null: not counted
  uint64_t random_seed = 0;           // of rand(); 0: from the clock
  // Rows from which on expressions are evaluated for all at once: fewer do not pay for it. Tests
  // compare.
  size_t columns_from = 4;
  // Threads for plans that read a `view`. monotonic_nanos is asked by all of them.
  ParallelOptions parallel;
};

struct ExecuteSummary {
  Counters counters;
  uint64_t rows = 0;
  uint64_t spilled_bytes = 0;
};

// Errors: those of error.h, and the graph's own. `summary` may be null.
absl::Status Execute(const Plan& plan, const ExecuteOptions& options, ResultSink* sink,
                     ExecuteSummary* summary);

}  // namespace pulse::cypher
