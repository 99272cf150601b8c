// Groups of an aggregation beyond the memory that they may take. Rows of groups that are known are
// added to these, until they have grown too much and are spilled themselves; rows of others go to
// parts by the hash of the keys. Each part is a table of groups of its own at the end. A group sees
// its rows in the order in which they came, and groups go on in the order of their first rows, as
// they do in memory. A group that is too large alone spills values of its own.
//
// One thread; blocks on the disk. Errors go to the context.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "services/graph/expressions/eval.h"
#include "services/graph/spill/spill_partitions.h"

namespace pulse::cypher {

// The table of groups of an operator: numbers from 0 on, in the order in which they were added.
class GroupTable {
 public:
  static constexpr size_t kNone = ~size_t{0};
  // Takes what is kept of a group, in some pieces.
  using Save = std::function<bool(size_t group, std::span<const Value> piece)>;

  virtual ~GroupTable() = default;
  virtual size_t Count() const = 0;
  virtual int64_t Held() const = 0;  // bytes that are charged
  virtual void Clear() = 0;
  virtual const Value* Keys(size_t group) const = 0;
  // The group with these keys. `added` null: kNone where there is none; else it is added, and
  // takes them.
  virtual size_t Find(uint64_t hash, Value* keys, bool* added) = 0;
  // A piece: of a row, or of what SaveAll gave. The first one of a group, if it was `added`.
  virtual bool Apply(size_t group, bool added, std::span<Value> piece) = 0;
  // The pieces of a group in their order.
  virtual bool SaveAll(const Save& save) = 0;
  // After Apply to the only group there is, which no other one joins: spills what it can of the
  // group's values, where they are too much.
  virtual bool SpillValues() = 0;
  // No more pieces come: takes back what was spilled so, before the results.
  virtual bool TakeValues() = 0;
  // Appends the values of the row that a group becomes, behind its keys.
  virtual void AppendResults(size_t group, std::vector<Value>* row) = 0;
};

class GroupSpill {
 public:
  GroupSpill(GroupTable* table, size_t keys, EvalContext* context)
      : table_(*table), keys_(keys), context_(*context), results_(context) {}
  GroupSpill(const GroupSpill&) = delete;
  GroupSpill& operator=(const GroupSpill&) = delete;

  // Whether rows go through Take from now on.
  bool spilling() const { return parts_ != nullptr; }
  // After rows were added to the table. False: the context has failed.
  bool CheckRoom() { return context_.SpillRoom() >= 0 || CheckTable(); }
  // A row: a value of no meaning, the keys, and a piece for the table.
  bool Take(std::vector<Value>* row);
  // The groups that are not in the table, which is cleared: a number, the keys and the results.
  bool Finish(const TakeRow& take);
  void Reset();

 private:
  using Part = SpillPartitions::Part;

  bool CheckTable();
  // `bytes`: of the row; empty: not made yet.
  bool Route(std::vector<Value>* row, std::string_view bytes);
  bool Begin();
  bool Evict();
  bool ReadPart(const Part& part, std::vector<Part>* more);
  bool GivePart();

  GroupTable& table_;
  const size_t keys_;
  EvalContext& context_;
  int level_ = 0;
  std::unique_ptr<SpillPartitions> parts_;  // null: the table has all
  SpillResults results_;
  std::vector<int64_t> numbers_;  // of the first rows of the table's groups
  int64_t next_number_ = 0;
  std::vector<Value> row_;
  std::string bytes_;
};

}  // namespace pulse::cypher
