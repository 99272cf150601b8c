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

int OrderNumbers(const Value& a, const Value& b) {
  if (const int c = Order(a, b); c != 0) return c;
  if (a.type() != b.type()) return a.is_int() ? -1 : 1;
  if (a.is_int()) return 0;
  return static_cast<int>(std::signbit(b.as_float())) -
         static_cast<int>(std::signbit(a.as_float()));
}

PercentilePlace PlaceOf(double percentile, size_t count, bool discrete) {
  const auto last = static_cast<double>(count - 1);
  if (discrete) {
    const double rank = std::ceil(percentile * static_cast<double>(count));
    const auto at = static_cast<size_t>(std::clamp(rank - 1, 0.0, last));
    return {at, at, 0};
  }
  const double at = percentile * last;
  return {static_cast<size_t>(std::floor(at)), static_cast<size_t>(std::ceil(at)),
          at - std::floor(at)};
}

Value PercentileAt(const PercentilePlace& place, bool discrete, const Value& low,
                   const Value& high) {
  if (discrete) return low;
  if (place.low == place.high) return Value::Float(low.as_number());  // also where it is infinite
  return Value::Float(low.as_number() * (1 - place.share) + high.as_number() * place.share);
}

namespace {

// Sorts the values.
Value PercentileOf(AggregateState::More* more, bool discrete) {
  ValueList& values = more->values;
  if (values.empty()) return {};
  std::sort(values.begin(), values.end(),
            [](const Value& a, const Value& b) { return OrderNumbers(a, b) < 0; });
  const PercentilePlace place = PlaceOf(more->percentile, values.size(), discrete);
  return PercentileAt(place, discrete, values[place.low], values[place.high]);
}

}  // namespace

Value ResultOf(Aggregate aggregate, AggregateState* state, EvalContext& context) {
  const auto n = static_cast<double>(state->count);
  switch (aggregate) {
    case Aggregate::kCount:
      return Value::Int(state->count);
    case Aggregate::kSum:
      return state->sum.is_null() ? Value::Int(0) : state->sum;
    case Aggregate::kAvg:
      return AverageOf(*state, context);
    case Aggregate::kMin:
    case Aggregate::kMax:
      return state->sum;
    case Aggregate::kStDev:
      return Value::Float(n > 1 ? std::sqrt(state->Rest().squares / (n - 1)) : 0);
    case Aggregate::kStDevP:
      return Value::Float(n > 0 ? std::sqrt(state->Rest().squares / n) : 0);
    case Aggregate::kCollect: {
      Value list = Value::List(std::move(state->Rest().values));
      if (list.depth() > kMaxValueDepth)
        return context.ArgumentError("NumberOutOfRange", "this list nests too deeply");
      return list;
    }
    default:
      if (!state->sum.is_null()) return state->sum;
      return PercentileOf(&state->Rest(), aggregate == Aggregate::kPercentileDisc);
  }
}

}  // namespace pulse::cypher
