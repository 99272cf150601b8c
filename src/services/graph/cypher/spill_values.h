// What DISTINCT and percentiles keep, beyond the memory that they may take.
//
// One thread; blocks on the disk. Errors go to the context.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "services/graph/model/value.h"
#include "services/graph/spill/spill_partitions.h"

namespace pulse::cypher {

// Rows of which the first one of each key is wanted: in parts by the hash of the key, each of which
// gets a set of keys at the end. They are given in the order in which they came.
class DistinctSpill {
 public:
  // `keys`: how many values of a row, the first ones, are its key.
  DistinctSpill(size_t keys, EvalContext* context)
      : keys_(keys), context_(*context), results_(context) {}
  DistinctSpill(const DistinctSpill&) = delete;
  DistinctSpill& operator=(const DistinctSpill&) = delete;

  bool spilling() const { return parts_ != nullptr; }
  bool Begin();
  // Begins a row, whose values are appended to what this returns.
  std::string* Row();
  // Adds it. `hash`: the same of equal keys. `held`: by its values when they were read.
  bool Add(uint64_t hash, size_t held);
  // A row has a number before its values. False: no more were wanted, or the context has failed.
  bool Finish(const TakeRow& take);
  void Reset();

 private:
  using Part = SpillPartitions::Part;

  bool ReadPart(const Part& part, std::vector<Part>* more);

  const size_t keys_;
  EvalContext& context_;
  std::unique_ptr<SpillPartitions> parts_;  // null: nothing is spilled
  SpillResults results_;
  int64_t next_number_ = 0;
  std::string bytes_;
  std::vector<Value> row_;
};

// The numbers of a percentile, as sorted runs.
class SortedNumbers {
 public:
  bool empty() const { return file_ == nullptr; }
  // Takes all, and leaves none.
  bool Spill(ValueList* numbers, EvalContext& context);
  // Of all that were spilled; afterwards there are none. Null: there were none, or the context has
  // failed.
  Value Percentile(double percentile, bool discrete, EvalContext& context);
  void Clear();

 private:
  std::unique_ptr<SpillFile> file_;
  std::vector<SpillRun> runs_;
};

}  // namespace pulse::cypher
