// Evaluates expressions on a row. A row is an array of slots; local variables of comprehensions
// have slots too, so that evaluation writes into the row. Errors and threads: see context.h.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "services/graph/functions/context.h"
#include "services/graph/model/value.h"
#include "services/graph/syntax/ast.h"

namespace pulse::cypher {

class ListSet;

Value Eval(const Expr& expr, Value* row, EvalContext& context);
// Whether a predicate holds: null does not. Anything but a boolean or null is an error.
bool Holds(const Expr& predicate, Value* row, EvalContext& context);

// Whether it has the same value on all rows of an execution.
inline bool IsConstant(const Expr& e) {
  return e.kind == Expr::Kind::kLiteral || e.kind == Expr::Kind::kParameter;
}

// A string op another: =~, STARTS WITH, ENDS WITH and CONTAINS; null for what is no string.
Value StringTest(Op op, const Value& text, const Value& part, EvalContext& context);
// A pattern of =~, until the next call. Null: an error.
const RegexPattern* FindPattern(const std::string& text, EvalContext& context);
// A program of labels; `has` of the name with that index, `any` of whether there is one.
bool LabelsHold(const std::vector<LabelOp>& ops, const std::function<bool(size_t)>& has,
                const std::function<bool()>& any);
// value:Label, by an expression of that kind.
Value HasLabels(const Expr& expr, const Value& value, EvalContext& context);
// The set of a constant list that so many more rows look into. Null: there is none, or an error.
const ListSet* FindSet(const Value& list, uint64_t rows, EvalContext& context);
// value IN list: 1, 0, or -1 for null, also where there is an error. `set`: of the list, or null.
int FindInList(const Value& value, const ValueList& list, const ListSet* set, EvalContext& context);
// a op b of = <> < <= > >=: a boolean or null.
Value Comparison(Op op, const Value& a, const Value& b);
// base[index] for lists, maps and entities.
Value IndexValue(const Value& base, const Value& index, EvalContext& context);
// base.key
Value PropertyOf(const Value& base, std::string_view key, Token token, EvalContext& context);

}  // namespace pulse::cypher
