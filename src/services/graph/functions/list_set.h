// Lists behind IN that are the same for all rows of an execution, as sets: a look-up for each row
// in place of a walk. The answers are those of the walk.
//
// The threads of an execution share the sets; each looks for them in a ListSets of its own. The
// first who needs a set makes it, and others wait; then it does not change. Memory is charged to
// the execution; a list whose set would take too much of it is walked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "services/graph/functions/context.h"

namespace pulse::cypher {

class ListSet {
 public:
  explicit ListSet(const Value& list) : list_(list) {}

  // Whether the list has the value: 1, 0, -1 for null; or it is to be walked for this value.
  static constexpr int kWalk = 2;
  int Find(const Value& value) const;

  // Once. False: the context has an error, and it may be made again.
  bool Make(EvalContext& context);
  bool made() const { return made_; }
  // Of one that is made: there is no table, as it would be too large or too slow.
  bool none() const { return places_.empty(); }

 private:
  // An element in the table: bits of its hash, and its number in the list, from 1 on.
  static uint64_t PlaceOf(uint64_t hash, size_t i) { return (hash >> 32 << 32) | (i + 1); }
  // The place that has it, or that is free for it.
  size_t Look(uint64_t hash, const Value& value, uint64_t* steps) const;
  bool Fill(EvalContext& context);

  const Value list_;
  std::vector<uint64_t> places_;  // 0: free
  bool made_ = false;
  bool has_null_ = false;
  bool nests_ = false;  // it has lists or maps, in which there may be nulls
};

class ListSets {
 public:
  // Shorter lists are walked, and so are those that fewer rows have asked for.
  static constexpr size_t kLeast = 17;
  static constexpr uint64_t kRows = 16;

  // The set of a list that so many more rows ask for. Null: it is to be walked, or the context has
  // an error.
  const ListSet* Find(const Value& list, uint64_t rows, EvalContext& context);

 private:
  struct Shared {
    std::mutex mu;
    // By the address of a list, which its set keeps.
    std::unordered_map<const ValueList*, ListSet> sets;
  };
  struct Known {
    Value list;
    uint64_t rows = 0;
    const ListSet* set = nullptr;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::unordered_map<const ValueList*, Known> known_;
};

}  // namespace pulse::cypher
