// Evaluates an expression for many rows at once: properties are read by one call of the graph,
// numbers are compared and added up in columns, and what only some rows need (AND, OR, CASE) is
// evaluated for these alone. What it does not know it evaluates row by row, as eval.h does; results
// are the same. Where several rows have errors, another one of them may be the first.
//
// One thread, as the execution that it belongs to.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "services/graph/expressions/eval.h"

namespace pulse::cypher {

class Rows;

inline bool IsComparison(Op op) { return op >= Op::kEq && op <= Op::kGe; }
inline bool IsStringTest(Op op) { return op >= Op::kStartsWith && op <= Op::kRegex; }

// a op b, a comparison: 1, 0, or -1 for null.
int8_t CompareValues(Op op, const Value& a, const Value& b);

// The value at a place of a column.
Value ValueAt(const Column& column, size_t i);

// One value for each row, or the same for all of them.
struct Operand {
  bool constant = false;
  Value value;    // of a constant
  Column column;  // else

  Value At(size_t i) const { return constant ? value : ValueAt(column, i); }
  // The same; what is in a column may be gone then.
  Value Take(size_t i) {
    if (constant || column.kind != Column::Kind::kValues) return At(i);
    return std::move(column.values[i]);
  }
  // Whether the value is certainly that of the place before: the same number, or the same object.
  bool SameAsBefore(size_t i) const;
  void SetConstant(Value v) {
    constant = true;
    value = std::move(v);
  }
};

inline std::vector<Value>* BeginValues(size_t count, Operand* out) {
  out->constant = false;
  out->column.kind = Column::Kind::kValues;
  out->column.values.assign(count, Value());
  return &out->column.values;
}

// Where variables are: in rows, or one variable in a list of nodes or relationships.
struct BatchInput {
  Rows* rows = nullptr;
  std::span<const NodeId> nodes = {};
  std::span<const EdgeRef> edges = {};
};

class BatchEval {
 public:
  explicit BatchEval(EvalContext* context) : ctx_(*context) {}

  // All rows of the input.
  std::span<const uint32_t> All(size_t count);
  // The value for each row of `rows`, which are ascending. False: an error.
  bool Evaluate(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
                Operand* out);
  // What a predicate says: 1, 0, or -1 for null. Anything but a boolean or null is an error.
  bool Truths(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
              std::vector<int8_t>* out);

 private:
  bool Property(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
                Operand* out);
  bool ReadNodes(Token key, const BatchInput& in, Slot slot, std::span<const uint32_t> rows,
                 Column* out);
  bool Compute(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
               Operand* out);
  bool Case(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows, Operand* out);
  bool Call(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows, Operand* out);
  bool FirstFound(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
                  Operand* out);
  bool RowByRow(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
                Operand* out);
  bool Logical(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
               std::vector<int8_t>* out);
  bool Compare(Op op, const Expr& left, const Expr& right, const BatchInput& in,
               std::span<const uint32_t> rows, std::vector<int8_t>* out);
  bool InConstant(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
                  std::vector<int8_t>* out);
  bool Strings(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
               std::vector<int8_t>* out);
  bool Labels(const Expr& expr, const BatchInput& in, std::span<const uint32_t> rows,
              std::vector<int8_t>* out);
  bool LabelProgram(const Expr& expr, std::span<const NodeId> nodes, std::vector<int8_t>* out);

  EvalContext& ctx_;
  std::vector<uint32_t> all_;
  std::vector<NodeId> nodes_;
  std::vector<EdgeRef> edges_;
  std::vector<uint32_t> runs_;  // of each row, which of nodes_ is its
};

}  // namespace pulse::cypher
