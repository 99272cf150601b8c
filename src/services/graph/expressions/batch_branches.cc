// Of BatchEval: expressions of which each row needs a part alone.
#include <numeric>

#include "services/graph/expressions/batch_eval.h"

namespace pulse::cypher {

bool BatchEval::Case(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                     Operand* out) {
  std::vector<Value>* values = BeginValues(rows.size(), out);
  // Places of rows that no branch has taken, and the rows.
  std::vector<uint32_t> places(rows.size()), left(rows.begin(), rows.end());
  std::iota(places.begin(), places.end(), 0);
  std::vector<int8_t> truths;
  const auto take = [&](const Expr& branch, const std::vector<uint32_t>& at,
                        const std::vector<uint32_t>& of) {
    Operand result;
    if (of.empty()) return true;
    if (!Evaluate(branch, in, of, &result)) return false;
    for (size_t i = 0; i < at.size(); ++i) (*values)[at[i]] = result.At(i);
    return true;
  };
  size_t i = 0;
  for (; i + 1 < e.kids.size(); i += 2) {
    if (left.empty()) return true;
    if (!Truths(*e.kids[i], in, left, &truths)) return false;
    std::vector<uint32_t> taken, taken_places;
    size_t kept = 0;
    for (size_t k = 0; k < left.size(); ++k) {
      if (truths[k] == 1) {
        taken.push_back(left[k]);
        taken_places.push_back(places[k]);
      } else {
        left[kept] = left[k];
        places[kept++] = places[k];
      }
    }
    left.resize(kept);
    places.resize(kept);
    if (!take(*e.kids[i + 1], taken_places, taken)) return false;
  }
  return e.kids[i] == nullptr || take(*e.kids[i], places, left);
}

// Each argument for the rows of which all before it are null.
bool BatchEval::FirstFound(const Expr& e, const BatchInput& in, std::span<const uint32_t> rows,
                           Operand* out) {
  std::vector<Value>* values = BeginValues(rows.size(), out);
  std::vector<uint32_t> places(rows.size()), left(rows.begin(), rows.end());
  std::iota(places.begin(), places.end(), 0);
  for (const ExprPtr& argument : e.kids) {
    if (left.empty()) return true;
    Operand found;
    if (!Evaluate(*argument, in, left, &found)) return false;
    size_t kept = 0;
    for (size_t k = 0; k < left.size(); ++k) {
      Value& value = (*values)[places[k]];
      value = found.Take(k);
      if (!value.is_null()) continue;
      left[kept] = left[k];
      places[kept++] = places[k];
    }
    left.resize(kept);
    places.resize(kept);
  }
  return true;
}

}  // namespace pulse::cypher
