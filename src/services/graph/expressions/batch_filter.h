// Pure predicates on one node or relationship (IsPurePredicate), looked at for many of them at
// once. Labels and comparisons of a property with a literal or a parameter come first: columns of
// numbers are compared without a Value for each.
//
// One thread, as the execution that it belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "services/graph/expressions/batch_eval.h"
#include "services/graph/expressions/eval.h"

namespace pulse::cypher {

// Whether an expression is a predicate that has no errors, whatever the graph holds, and asks for
// nothing but properties and labels of one variable, which is then in *slot: comparisons, tests of
// strings, lists and null, and AND, OR, XOR and NOT of these. It may be evaluated before others and
// as often as one likes, for nodes or relationships that the query did not delete.
bool IsPurePredicate(const Expr& predicate, Slot* slot);

// The comparison that says the same with its sides exchanged.
Op Mirrored(Op op);
// Leaves those of `pass` that a comparison of the column with the value is true of: false and null
// do not pass.
void ApplyComparison(Op op, const Column& column, const Value& value, std::span<uint8_t> pass);

class BatchFilter {
 public:
  // Pure predicates, all of one slot.
  explicit BatchFilter(std::span<const Expr* const> predicates);

  bool empty() const { return tests_.empty() && labels_.empty() && others_.empty(); }
  bool has_labels() const { return !labels_.empty(); }
  // Whether every node of the graph passes, as far as that is known without a look at them.
  bool PassesAll(EvalContext& context) const;
  // Writes which ones pass into *selected, ascending. None of them was deleted by the query. False:
  // an error.
  bool Select(std::span<const NodeId> nodes, EvalContext& context, std::vector<uint32_t>* selected);
  // The same for relationships, where no labels are asked for.
  bool Select(std::span<const EdgeRef> edges, EvalContext& context,
              std::vector<uint32_t>* selected);

 private:
  struct Test {
    int key;  // name
    Op op;    // property op constant
    const Expr* constant;
    Value value;  // of `constant`
  };
  void Split(const Expr& predicate);
  void AddTest(const Expr& left, Op op, const Expr& right);
  template <typename Subject, typename Read>
  bool Run(std::vector<Subject>* left, EvalContext& context, const Read& read,
           std::vector<uint32_t>* selected);
  // What is no such test, of what is left.
  template <typename Subject>
  bool RunOthers(std::vector<Subject>* left, EvalContext& context, std::vector<uint32_t>* selected);
  template <typename Subject>
  void Keep(std::vector<Subject>* left, std::vector<uint32_t>* selected) const;

  std::vector<int> labels_;  // names
  std::vector<Test> tests_;  // those of a key beside each other
  std::vector<const Expr*> others_;
  std::optional<BatchEval> eval_;
  std::vector<int8_t> truths_;
  bool evaluated_ = false;
  std::vector<NodeId> nodes_;
  std::vector<EdgeRef> edges_;
  std::vector<uint8_t> pass_;
  Column column_;
};

}  // namespace pulse::cypher
