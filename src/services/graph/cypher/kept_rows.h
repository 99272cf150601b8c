// Rows that wait until all have come: in memory, and beyond what they may take there in a file. A
// list, map or text that a row shares with the one before, as that of an UNWIND, counts once, and
// is written once.
//
// One thread; blocks on the disk. Errors go to the context.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "services/graph/cypher/operators.h"
#include "services/graph/spill/spill_merge.h"

namespace pulse::cypher {

class KeptRows {
 public:
  KeptRows(int width, EvalContext* context) : width_(width), context_(*context) {}
  KeptRows(const KeptRows&) = delete;
  KeptRows& operator=(const KeptRows&) = delete;

  // Copies. False: the context has failed.
  bool Add(const Value* row);
  bool Add(Rows& rows);
  // Hands all rows over, in their order, and has none afterwards. False: `take` wanted no more, or
  // the context has failed.
  bool Drain(const std::function<bool(Rows&)>& take);
  void Clear();

 private:
  // The last row that is kept in memory; null: none is.
  const Value* Last();
  bool Spill();
  bool DrainSpilled(const std::function<bool(Rows&)>& take);

  struct Batch {
    explicit Batch(int width) : rows(width) {}
    Rows rows;
    int64_t bytes = 0;
  };

  const int width_;
  EvalContext& context_;
  std::vector<Batch> batches_;  // behind those in the file
  int64_t charged_ = 0;
  std::unique_ptr<SpillFile> file_;  // null: nothing is spilled
  std::optional<RowWriter> writer_;
  std::vector<Value> written_;  // the last row in the file
};

}  // namespace pulse::cypher
