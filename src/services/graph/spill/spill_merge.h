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

#include "services/graph/functions/context.h"
#include "services/graph/spill/spill_rows.h"

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
  // `held`: by the values that they stand for.
  bool AddBytes(std::string_view row, size_t held);
  // Of no rows: nothing is added.
  bool Finish(std::vector<SpillRun>* runs);

 private:
  SpillWriter writer_;
  EvalContext& context_;
  std::string row_;
};

// What the values of a row take when they were read.
size_t BytesWhenRead(std::span<const Value> row);

// Reads the rows of a run, and charges what that takes: the buffer, and the values of a row.
class RowReader {
 public:
  RowReader(SpillFile* file, SpillRun run, EvalContext* context);
  ~RowReader();
  RowReader(RowReader&& other) noexcept;
  RowReader& operator=(RowReader&&) = delete;

  static size_t Charged(const SpillRun& run, const EvalContext& context);
  bool done() const { return reader_.done(); }
  // Into `values`, which are those of the row before. `bytes`, if not null: the row as it was
  // written, until the next call. False: the context has failed.
  bool Next(std::vector<Value>* values, std::string_view* bytes = nullptr);

 private:
  EvalContext& context_;
  int64_t charged_;
  SpillReader reader_;
};

// Below 0 where row `a` comes before `b`; 0: in the order of the runs.
using RowOrder = std::function<int(const Value* a, const Value* b)>;
// Takes a row, whose values it may move away. False: no more are wanted.
using TakeRow = std::function<bool(Value* row)>;

// All rows of `runs`, each of which is in order. False: no more were wanted, or the context has
// failed.
bool MergeRuns(std::unique_ptr<SpillFile> file, std::vector<SpillRun> runs, const RowOrder& order,
               EvalContext& context, const TakeRow& take);

}  // namespace pulse::cypher
