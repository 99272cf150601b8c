// What an aggregate knows of one group, and how it is written where groups are spilled.
// Pure; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "services/graph/functions/context.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/value.h"

namespace pulse::cypher {

struct AggregateState {
  // What few aggregates need.
  struct More {
    double mean = 0, squares = 0;  // Welford's
    double scaled = 0;             // of an avg() whose sum no double holds: that, by 2^64
    double percentile = -1;
    ValueList values;
  };
  int64_t count = 0;
  Value sum;  // also the minimum or maximum, or a percentile of numbers that were spilled
  std::unique_ptr<More> more;

  More& Rest() {
    if (more == nullptr) more = std::make_unique<More>();
    return *more;
  }
};

// An avg(). Its sum becomes infinite where finite numbers add up to more than a double holds; from
// then on `scaled` has it, and the sum stays as it is.
void AddToAverage(Value v, AggregateState* state, EvalContext& context);
Value AverageOf(const AggregateState& state, EvalContext& context);

// What a piece of a group has behind its kind.
enum class GroupPiece : int64_t {
  kRow,     // the weight, the implied keys, the arguments
  kState,   // the implied keys, the states
  kValues,  // an aggregate, and values that it keeps, a part of them
  kSeen,    // an aggregate with DISTINCT, and a value that it has seen
};
void BeginPiece(GroupPiece kind, std::vector<Value>* piece);

// Without the values that it keeps.
void AppendState(const AggregateState& state, std::vector<Value>* piece);
// Takes what AppendState has appended off `piece`, from *at on.
void ReadState(std::span<Value> piece, size_t* at, AggregateState* state);
// The values that it keeps, as pieces. False: `save` gave it.
bool SaveValues(const AggregateState& state, size_t aggregate,
                const std::function<bool(std::span<const Value>)>& save);

// The order of a percentile's numbers: where an integer and a float are the same, the integer comes
// first, and -0.0 before 0.0, so that the order in which they came does not matter.
int OrderNumbers(const Value& a, const Value& b);
// Of `count` numbers in their order, at least one, those that a percentile lies between.
struct PercentilePlace {
  size_t low, high;
  double share;  // of the higher one
};
PercentilePlace PlaceOf(double percentile, size_t count, bool discrete);
Value PercentileAt(const PercentilePlace& place, bool discrete, const Value& low,
                   const Value& high);
// What an aggregate is for the group, once.
Value ResultOf(Aggregate aggregate, AggregateState* state, EvalContext& context);

}  // namespace pulse::cypher
