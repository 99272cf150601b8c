// Tables of nodes by values of their properties, for joins that no index serves: a scan that each
// row of its input would repeat looks at the nodes once and keeps where equal values are.
//
// The tables of an execution are shared by its threads. One that is made does not change, until a
// transaction that may write gives it up. Memory is charged to the execution; where a table would
// take too much of it there is none, and each row scans.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "services/graph/functions/context.h"

namespace pulse::cypher {

struct Step;

class JoinTable {
 public:
  // The nodes whose values have the hash (TupleSet::HashOf) are given to `take` in the order in
  // which they were added, and perhaps others. False: `take` said false.
  template <typename Take>
  bool Find(uint64_t hash, const Take& take) const {
    if (heads_.empty()) return true;
    for (uint32_t at = heads_[PlaceOf(hash)]; at != 0; at = next_[at - 1]) {
      if (hashes_[at - 1] == hash && !take(nodes_[at - 1])) return false;
    }
    return true;
  }
  bool empty() const { return nodes_.empty(); }

  // Adds nodes that have all of the keys. False: an error, or it is not worth its memory.
  bool Add(std::span<const NodeId> nodes, std::span<const Token> keys, EvalContext& context);
  // No more come.
  bool Finish(EvalContext& context);
  // Its memory is about to be given back.
  void Uncharge(EvalContext& context) { context.Charge(-std::exchange(charged_, 0)); }

 private:
  size_t PlaceOf(uint64_t hash) const { return hash & (heads_.size() - 1); }
  bool Charge(EvalContext& context);

  std::vector<uint64_t> hashes_;
  std::vector<NodeId> nodes_;
  std::vector<uint32_t> heads_, next_;  // numbers of nodes, from 1 on; 0: none
  std::vector<Column> columns_;         // while it is made
  std::vector<Value> values_;
  int64_t charged_ = 0;
  bool too_large_ = false;
};

// Of an execution.
class JoinTables {
 public:
  // Adds all nodes of a step to the table. False: stop.
  using Fill = std::function<bool(JoinTable*)>;
  // The step's table, which the first one who asks makes, while others wait. Null: there is none,
  // as it was too large, or `context` has an error.
  std::shared_ptr<const JoinTable> Get(const Step* step, EvalContext& context, const Fill& fill);
  // The table is made anew when it is asked for again.
  void Forget(const Step* step, EvalContext& context);

 private:
  struct Entry {
    std::mutex mu;
    std::condition_variable ready;
    bool making = false, made = false;
    std::shared_ptr<JoinTable> table;
  };
  Entry* EntryOf(const Step* step);
  // Who made the table, or not, says so to those who wait for it.
  static void Made(Entry* entry, std::shared_ptr<JoinTable> table, bool made);

  std::mutex mu_;
  std::map<const Step*, std::unique_ptr<Entry>> entries_;
};

}  // namespace pulse::cypher
