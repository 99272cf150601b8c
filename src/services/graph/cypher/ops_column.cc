// Aggregates over all relationships or nodes, without a row for any of them: the graph fills
// columns of one property, and these are added up. For queries like MATCH ()-[e]->() RETURN
// sum(e.w), count(*).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "services/graph/cypher/operators.h"
#include "services/graph/functions/aggregate_state.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

constexpr size_t kColumnRows = 4096;

// One aggregate; what ops_aggregate.cc computes from rows comes out the same.
struct ColumnState : AggregateState {
  const Expr* expr = nullptr;
  Aggregate kind = Aggregate::kCount;
  int key = -1;  // name of the property; -1: what is counted is never null
};

void AddValue(ColumnState* state, const Value& v, EvalContext& ctx) {
  if (v.is_null()) return;
  ++state->count;
  switch (state->kind) {
    case Aggregate::kSum:
    case Aggregate::kAvg:
      if (!v.is_number() && !v.is_duration()) {
        ctx.TypeError(
            Concat(state->expr->function->name, "() does not take a ", TypeName(v.type())));
        return;
      }
      if (state->kind == Aggregate::kAvg) {
        AddToAverage(v, state, ctx);
      } else {
        state->sum = state->sum.is_null() ? v : Arithmetic(Op::kAdd, state->sum, v, ctx);
      }
      return;
    case Aggregate::kMin:
      if (state->sum.is_null() || Order(v, state->sum) < 0) state->sum = v;
      return;
    case Aggregate::kMax:
      if (state->sum.is_null() || Order(v, state->sum) > 0) state->sum = v;
      return;
    default:
      return;
  }
}

// The sum of integers that all are there and so small that none of them can make it overflow, in
// whatever order. False: they are not. In registers of 128 bits, which every processor has; the
// compiler makes no use of them by itself where an overflow is looked for.
bool SumOfSmall(const Column& column, int64_t* sum) {
  using Pair = uint64_t __attribute__((vector_size(16)));
  constexpr uint64_t kWithin = uint64_t{1} << 50;
  static_assert(kColumnRows * kWithin <= uint64_t{1} << 62);
  const size_t count = column.ints.size();
  if (count > kColumnRows || std::memchr(column.valid.data(), 0, count) != nullptr) return false;
  Pair evens = {}, odds = {}, beyond = {};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Pair even, odd;
    std::memcpy(&even, &column.ints[i], sizeof(even));
    std::memcpy(&odd, &column.ints[i + 2], sizeof(odd));
    evens += even;
    odds += odd;
    beyond |= (even + kWithin) | (odd + kWithin);
  }
  evens += odds;
  uint64_t total = evens[0] + evens[1], all = beyond[0] | beyond[1];
  for (; i < count; ++i) {
    total += static_cast<uint64_t>(column.ints[i]);
    all |= static_cast<uint64_t>(column.ints[i]) + kWithin;
  }
  *sum = static_cast<int64_t>(total);
  return all < 2 * kWithin;
}

// Integers, of which the batch's sum, minimum or maximum goes on as one value.
void AddInts(ColumnState* state, const Column& column, EvalContext& ctx) {
  const bool sums = state->kind == Aggregate::kSum || state->kind == Aggregate::kAvg;
  if (int64_t sum = 0; sums && !column.ints.empty() && SumOfSmall(column, &sum)) {
    AddValue(state, Value::Int(sum), ctx);
    state->count += static_cast<int64_t>(column.ints.size()) - 1;
    return;
  }
  int64_t count = 0, sum = 0, low = INT64_MAX, high = INT64_MIN;
  bool overflow = false;
  for (size_t i = 0; i < column.ints.size(); ++i) {
    if (column.valid[i] == 0) continue;
    ++count;
    overflow |= __builtin_add_overflow(sum, column.ints[i], &sum);
    low = std::min(low, column.ints[i]);
    high = std::max(high, column.ints[i]);
  }
  if (count == 0) return;
  if (sums && overflow) {
    // In their order, as from rows.
    for (size_t i = 0; i < column.ints.size() && !ctx.failed(); ++i) {
      if (column.valid[i] != 0) AddValue(state, Value::Int(column.ints[i]), ctx);
    }
    return;
  }
  AddValue(state, Value::Int(sums ? sum : state->kind == Aggregate::kMin ? low : high), ctx);
  state->count += count - 1;
}

// In their order, as from rows: another one would round differently.
void AddFloats(ColumnState* state, const Column& column, EvalContext& ctx) {
  const bool sums = state->kind == Aggregate::kSum || state->kind == Aggregate::kAvg;
  for (size_t i = 0; i < column.floats.size() && !ctx.failed(); ++i) {
    if (column.valid[i] == 0) continue;
    constexpr double kNoSum = std::numeric_limits<double>::infinity();
    const bool begun = sums && state->sum.is_float();
    const double sum = begun ? state->sum.as_float() + column.floats[i] : kNoSum;
    if (!std::isfinite(sum)) {  // an average goes on in another way
      AddValue(state, Value::Float(column.floats[i]), ctx);
      continue;
    }
    ++state->count;
    state->sum = Value::Float(sum);
  }
}

void AddColumn(ColumnState* state, const Column& column, EvalContext& ctx) {
  switch (column.kind) {
    case Column::Kind::kInts:
      return AddInts(state, column, ctx);
    case Column::Kind::kFloats:
      return AddFloats(state, column, ctx);
    default:
      for (size_t i = 0; i < column.values.size() && !ctx.failed(); ++i) {
        AddValue(state, column.values[i], ctx);
      }
  }
}

class ColumnOperator : public Operator {
 public:
  using Operator::Operator;

  bool Push(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      if (states_.empty()) Prepare();
      if (!(step().all_edges ? ScanEdges() : ScanNodes())) return false;
    }
    return true;
  }

  bool Finish() override {
    if (states_.empty()) Prepare();
    const std::vector<Value> empty(static_cast<size_t>(runtime_->width));
    Value* row = NewRow(empty.data());
    for (size_t a = 0; row != nullptr && a < states_.size(); ++a) {
      row[step().aggregates[a].second] = Result(&states_[a]);
    }
    return FlushAndFinish();
  }

  void Reset() override { states_.clear(); }

 private:
  void Prepare() {
    for (const auto& [expr, slot] : step().aggregates) {
      ColumnState state;
      state.expr = expr;
      if (expr->kind == Expr::Kind::kCall) {
        state.kind = expr->function->aggregate;
        if (expr->kids[0]->kind == Expr::Kind::kProperty) state.key = expr->kids[0]->slot2;
      }
      states_.push_back(std::move(state));
    }
  }

  // `read` fills a column for one key.
  template <typename Read>
  bool AddBatch(size_t count, const Read& read) {
    int loaded = -1;
    for (ColumnState& state : states_) {
      if (state.key < 0) {
        state.count += static_cast<int64_t>(count);
        continue;
      }
      const Token key = ctx_.Key(state.key);
      if (key == kNoToken) continue;
      if (loaded != state.key && !ctx_.Check(read(key))) return false;
      loaded = state.key;
      AddColumn(&state, column_, ctx_);
    }
    return ctx_.Tick(count);
  }

  bool ScanEdges() {
    std::vector<Token> types;
    for (const int name : step().types) {
      if (const Token token = ctx_.EdgeType(name); token != kNoToken) types.push_back(token);
    }
    if (!step().types.empty() && types.empty()) return true;
    uint64_t position = 0;
    if (const Token key = OnlyKey(); key != kNoToken) {
      while (true) {
        const auto count =
            ctx_.graph->ScanEdgeProperty(types, key, &position, kColumnRows, &column_);
        if (!ctx_.Check(count.status())) return false;
        if (*count == 0) return true;
        if (!AddBatch(*count, [](Token) { return absl::OkStatus(); })) return false;
      }
    }
    edges_.resize(kColumnRows);
    while (true) {
      const auto count = ctx_.graph->ScanEdges(types, &position, edges_);
      if (!ctx_.Check(count.status())) return false;
      if (*count == 0) return true;
      const std::span<const EdgeRef> batch(edges_.data(), *count);
      if (!AddBatch(*count, [&](Token key) {
            return ctx_.graph->ReadEdgeProperty(key, batch, &column_);
          })) {
        return false;
      }
    }
  }

  // The key that all aggregates read which read one; kNoToken where there are several, or none.
  Token OnlyKey() {
    Token only = kNoToken;
    for (const ColumnState& state : states_) {
      if (state.key < 0) continue;
      const Token key = ctx_.Key(state.key);
      if (key == kNoToken || (only != kNoToken && only != key)) return kNoToken;
      only = key;
    }
    return only;
  }

  bool ScanNodes() {
    Token label = kNoToken;
    if (step().label >= 0) {
      label = ctx_.Label(step().label);
      if (label == kNoToken) return true;
    }
    nodes_.resize(kColumnRows);
    uint64_t position = 0;
    while (true) {
      const auto count = ctx_.graph->ScanNodes(label, &position, nodes_);
      if (!ctx_.Check(count.status())) return false;
      if (*count == 0) return true;
      const std::span<const NodeId> batch(nodes_.data(), *count);
      if (!AddBatch(*count, [&](Token key) {
            return ctx_.graph->ReadNodeProperty(key, batch, &column_);
          })) {
        return false;
      }
    }
  }

  Value Result(ColumnState* state) {
    switch (state->kind) {
      case Aggregate::kSum:
        return state->sum.is_null() ? Value::Int(0) : state->sum;
      case Aggregate::kAvg:
        return AverageOf(*state, ctx_);
      case Aggregate::kMin:
      case Aggregate::kMax:
        return state->sum;
      default:
        return Value::Int(state->count);
    }
  }

  std::vector<ColumnState> states_;
  std::vector<EdgeRef> edges_;
  std::vector<NodeId> nodes_;
  Column column_;
};

}  // namespace

std::unique_ptr<Operator> MakeColumnOperator(const Step& step, Runtime* runtime, Operator* next) {
  if (step.kind != Step::Kind::kColumns) return nullptr;
  return std::make_unique<ColumnOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
