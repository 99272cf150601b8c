// Runs of rows as one: what ORDER BY, DISTINCT and groups give of what they have spilled.
//
// One thread; blocks on the disk. Errors go to the context, which is asked for its limits of memory
// and time on the way.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "services/graph/cypher/eval.h"
#include "services/graph/cypher/spill_rows.h"

namespace pulse::cypher {

// Bytes that are read or written at a time; and the fewest, of which many are held at once.
size_t SpillBuffer(const EvalContext& context);
size_t SmallSpillBuffer(const EvalContext& context);

// Null: the context has failed.
std::unique_ptr<SpillFile> MakeSpillFile(EvalContext& context);

// Writes rows of values to a run, or bytes that are one already.
class RowWriter {
 public:
  RowWriter(SpillFile* file, size_t buffer, EvalContext* context)
      : writer_(file, buffer), context_(*context) {}
  // `before`: the row that was added before this one, or null. What both share is not written
  // again.
  bool Add(std::span<const Value> values, const Value* before = nullptr);
  bool AddBytes(std::string_view row);
  // Of no rows: nothing is added.
  bool Finish(std::vector<SpillRun>* runs);

 private:
  SpillWriter writer_;
  EvalContext& context_;
  std::string row_;
};

// The values of a row, in `values`, all of them; `values` are those of the row before, if it was
// written with that. False: the context has failed.
bool ReadRow(std::string_view row, std::vector<Value>* values, EvalContext& context);

// Below 0 where row `a` comes before `b`; 0: in the order of the runs.
using RowOrder = std::function<int(const Value* a, const Value* b)>;
// Takes a row, whose values it may move away. False: no more are wanted.
using TakeRow = std::function<bool(Value* row)>;

// All rows of `runs`, each of which is in order. False: no more were wanted, or the context has
// failed.
bool MergeRuns(std::unique_ptr<SpillFile> file, std::vector<SpillRun> runs, const RowOrder& order,
               EvalContext& context, const TakeRow& take);

}  // namespace pulse::cypher
