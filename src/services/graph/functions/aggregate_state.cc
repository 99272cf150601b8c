#include "services/graph/functions/aggregate_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace pulse::cypher {

namespace {

constexpr double kAverageScale = 0x1p-64;

// Integers go on as a float where their sum has more than 64 bits.
Value AverageSum(const Value& a, const Value& b, EvalContext& context) {
  int64_t sum = 0;
  if (a.is_int() && b.is_int() && __builtin_add_overflow(a.as_int(), b.as_int(), &sum)) {
    return Value::Float(a.as_number() + b.as_number());
  }
  return Arithmetic(Op::kAdd, a, b, context);
}

}  // namespace

void AddToAverage(Value v, AggregateState* state, EvalContext& context) {
  if (state->sum.is_null()) {
    state->sum = std::move(v);
    return;
  }
  Value sum = AverageSum(state->sum, v, context);
  if (sum.is_float() && !std::isfinite(sum.as_float())) {
    if (state->more == nullptr && std::isfinite(state->sum.as_number()) &&
        std::isfinite(v.as_number())) {
      state->Rest().scaled = state->sum.as_number() * kAverageScale;
      state->sum = sum;
    }
    if (state->more != nullptr) {
      state->more->scaled += v.as_number() * kAverageScale;
      return;
    }
  }
  state->sum = std::move(sum);
}

Value AverageOf(const AggregateState& state, EvalContext& context) {
  if (state.sum.is_null()) return {};
  const auto count = static_cast<double>(state.count);
  if (state.more != nullptr) {
    // Rounding must not take it beyond the numbers that it is the mean of.
    constexpr double kMost = std::numeric_limits<double>::max() * kAverageScale;
    const double mean = state.more->scaled / count;
    return Value::Float((std::isinf(mean) ? mean : std::clamp(mean, -kMost, kMost)) /
                        kAverageScale);
  }
  return Arithmetic(Op::kDiv, state.sum.is_int() ? Value::Float(state.sum.as_number()) : state.sum,
                    Value::Float(count), context);
}

void BeginPiece(GroupPiece kind, std::vector<Value>* piece) {
  piece->clear();
  piece->push_back(Value::Int(static_cast<int64_t>(kind)));
}

void AppendState(const AggregateState& state, std::vector<Value>* piece) {
  piece->push_back(Value::Int(state.count));
  piece->push_back(state.sum);
  piece->push_back(Value::Bool(state.more != nullptr));
  if (state.more == nullptr) return;
  for (const double number :
       {state.more->mean, state.more->squares, state.more->scaled, state.more->percentile}) {
    piece->push_back(Value::Float(number));
  }
}

void ReadState(std::span<Value> piece, size_t* at, AggregateState* state) {
  state->count = piece[(*at)++].as_int();
  state->sum = std::move(piece[(*at)++]);
  if (!piece[(*at)++].as_bool()) return;
  AggregateState::More& more = state->Rest();
  for (double* number : {&more.mean, &more.squares, &more.scaled, &more.percentile}) {
    *number = piece[(*at)++].as_float();
  }
}

bool SaveValues(const AggregateState& state, size_t aggregate,
                const std::function<bool(std::span<const Value>)>& save) {
  if (state.more == nullptr) return true;
  constexpr size_t kAtOnce = 64;
  const ValueList& values = state.more->values;
  std::vector<Value> piece;
  for (size_t i = 0; i < values.size(); i += kAtOnce) {
    BeginPiece(GroupPiece::kValues, &piece);
    piece.push_back(Value::Int(static_cast<int64_t>(aggregate)));
    for (size_t k = i; k < std::min(i + kAtOnce, values.size()); ++k) piece.push_back(values[k]);
    if (!save(piece)) return false;
  }
  return true;
}

Value PercentileOf(AggregateState::More* more, bool discrete) {
  ValueList& values = more->values;
  if (values.empty()) return {};
  std::sort(values.begin(), values.end(),
            [](const Value& a, const Value& b) { return Order(a, b) < 0; });
  const auto last = static_cast<double>(values.size() - 1);
  if (discrete) {
    const double rank = std::ceil(more->percentile * static_cast<double>(values.size()));
    return values[static_cast<size_t>(std::clamp(rank - 1, 0.0, last))];
  }
  const double at = more->percentile * last;
  const auto low = static_cast<size_t>(std::floor(at)), high = static_cast<size_t>(std::ceil(at));
  if (low == high) return Value::Float(values[low].as_number());  // also where it is infinite
  const double share = at - std::floor(at);
  return Value::Float(values[low].as_number() * (1 - share) + values[high].as_number() * share);
}

}  // namespace pulse::cypher
