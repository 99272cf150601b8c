// Grouping and aggregation. Groups and their states are flat arrays; a hash index finds the group.
// What is too much for memory is spilled (spill_groups.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "services/graph/cypher/operators.h"
#include "services/graph/cypher/spill_groups.h"
#include "services/graph/cypher/spill_values.h"
#include "services/graph/expressions/batch_eval.h"
#include "services/graph/functions/aggregate_state.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {

bool IsImpliedKey(const Step& aggregate, const Expr& key) {
  return key.kind == Expr::Kind::kProperty && key.kids[0]->kind == Expr::Kind::kVariable &&
         std::any_of(aggregate.items.begin(), aggregate.items.end(), [&key](const auto& item) {
           return item.first->kind == Expr::Kind::kVariable &&
                  item.first->slot == key.kids[0]->slot;
         });
}

namespace {

bool IsPercentile(const Expr& e) {
  return e.kind == Expr::Kind::kCall && (e.function->aggregate == Aggregate::kPercentileCont ||
                                         e.function->aggregate == Aggregate::kPercentileDisc);
}

class AggregateOperator : public Operator, private GroupTable {
 public:
  AggregateOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next),
        eval_(&ctx_),
        own_(OwnKeys(*step)),
        groups_(own_.size()),
        keys_(own_.size()),
        distinct_(step->aggregates.size()),
        unseen_(2, &ctx_),
        numbers_(step->aggregates.size()),
        spill_(this, own_.size(), &ctx_) {
    for (size_t k = 0; k < step->items.size(); ++k) {
      if (std::find(own_.begin(), own_.end(), k) == own_.end()) implied_.push_back(k);
    }
    for (size_t a = 0; a < step->aggregates.size(); ++a) {
      const Expr& e = *step->aggregates[a].first;
      if (e.flag && e.kind != Expr::Kind::kCountStar) {
        distinct_[a] = std::make_unique<TupleSet>(2);
      }
      percentiles_ = percentiles_ || IsPercentile(e);
    }
  }

  bool Push(Rows& in) override {
    if (spill_.spilling()) return PushSpilled(in);
    const bool batch = in.size() >= ctx_.columns_from && !percentiles_;
    return (batch ? PushBatch(in) : PushRows(in)) && spill_.CheckRoom();
  }

  bool Finish() override {
    const size_t n = step().aggregates.size();
    // Without keys there is one group, also of no rows.
    if (step().items.empty() && groups_.size() == 0) {
      tuple_.clear();
      groups_.Insert(&tuple_, ctx_);
      states_.resize(n);
    }
    TakeValues();
    const std::vector<Value> empty(static_cast<size_t>(runtime_->width));
    size_t given = 0;
    for (; given < groups_.size(); ++given) {
      const size_t g = given;
      Value* row = NewRow(empty.data());
      if (row == nullptr) break;
      for (size_t k = 0; k < own_.size(); ++k)
        row[step().items[own_[k]].second] = std::move(groups_.Tuple(g)[k]);
      for (size_t k = 0; k < implied_.size(); ++k) {
        row[step().items[implied_[k]].second] = std::move(implied_values_[g * implied_.size() + k]);
      }
      for (size_t a = 0; a < n; ++a) {
        row[step().aggregates[a].second] = Result(*step().aggregates[a].first, &states_[g * n + a]);
      }
    }
    if (given == groups_.size() && Flush() && spill_.spilling()) GiveSpilled();
    Clear();  // before others work at their end
    return FlushAndFinish();
  }

  void Reset() override {
    Clear();
    spill_.Reset();
  }

 private:
  bool Charge(int64_t bytes) {
    charged_ += bytes;
    return ctx_.Charge(bytes);
  }

  bool PushRows(Rows& in) {
    const size_t n = step().aggregates.size();
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      tuple_.clear();
      for (const size_t k : own_) tuple_.push_back(Eval(*step().items[k].first, row, ctx_));
      const auto [group, added] = groups_.Insert(&tuple_, ctx_);
      if (added) {
        for (const size_t k : implied_) {
          implied_values_.push_back(Eval(*step().items[k].first, row, ctx_));
          if (!Charge(static_cast<int64_t>(implied_values_.back().Bytes()))) return false;
        }
        states_.resize(states_.size() + n);
        if (!Charge(static_cast<int64_t>(n * sizeof(AggregateState)))) return false;
      }
      const int64_t weight = step().weight < 0 ? 1 : row[step().weight].as_int();
      for (size_t a = 0; a < n; ++a) Add(a, group, row, weight);
      if (!ctx_.Tick()) return false;
    }
    return true;
  }

  bool PushBatch(Rows& in) {
    const size_t n = step().aggregates.size();
    const auto rows = eval_.All(in.size());
    for (size_t k = 0; k < keys_.size(); ++k) {
      if (!eval_.Evaluate(*step().items[own_[k]].first, {.rows = &in}, rows, &keys_[k])) {
        return false;
      }
    }
    if (!FindGroups(in.size()) || !AddImplied(in)) return false;
    states_.resize(groups_.size() * n);
    for (size_t a = 0; a < n; ++a) {
      const Expr& e = *step().aggregates[a].first;
      if (e.kind == Expr::Kind::kCountStar) {
        for (size_t i = 0; i < in.size(); ++i) Count(Weight(in.Row(i)), &StateOf(of_row_[i], a));
        continue;
      }
      if (!eval_.Evaluate(*e.kids[0], {.rows = &in}, rows, &value_)) return false;
      const Aggregate kind = e.function->aggregate;
      const bool sums = kind == Aggregate::kSum || kind == Aggregate::kAvg;
      if (sums && !e.flag && step().weight < 0 && !value_.constant &&
          value_.column.kind == Column::Kind::kFloats) {
        SumFloats(a);
        continue;
      }
      for (size_t i = 0; i < in.size(); ++i) {
        AddValue(a, of_row_[i], value_.Take(i), Weight(in.Row(i)));
      }
      if (ctx_.failed()) return false;
    }
    return ctx_.Tick(in.size());
  }

  // Keys that tell the groups apart: a property beside the variable that it is of does not.
  static std::vector<size_t> OwnKeys(const Step& step) {
    std::vector<size_t> own;
    for (size_t k = 0; k < step.items.size(); ++k) {
      if (!IsImpliedKey(step, *step.items[k].first)) own.push_back(k);
    }
    return own;
  }

  // The other keys of groups that a batch has begun.
  bool AddImplied(Rows& in) {
    if (implied_.empty() || added_.empty()) return true;
    const size_t before = implied_values_.size();
    implied_values_.resize(before + added_.size() * implied_.size());
    int64_t bytes = 0;
    for (size_t k = 0; k < implied_.size(); ++k) {
      if (!eval_.Evaluate(*step().items[implied_[k]].first, {.rows = &in}, added_, &value_)) {
        return false;
      }
      for (size_t i = 0; i < added_.size(); ++i) {
        Value& value = implied_values_[before + i * implied_.size() + k];
        value = value_.Take(i);
        bytes += static_cast<int64_t>(value.Bytes());
      }
    }
    return Charge(bytes);
  }

  // The group of each row. Rows that were made of one have the same values as the one before, which
  // is seen without a look at the values; the tuples of all others are asked of memory together.
  bool FindGroups(size_t count) {
    const size_t n = step().aggregates.size(), width = keys_.size();
    of_row_.resize(count);
    firsts_.clear();
    hashes_.clear();
    added_.clear();
    for (size_t i = 0; i < count; ++i) {
      const bool same = i > 0 && std::all_of(keys_.begin(), keys_.end(), [i](const Operand& key) {
                          return key.SameAsBefore(i);
                        });
      if (!same) firsts_.push_back(i);
      of_row_[i] = firsts_.size() - 1;
    }
    tuples_.resize(std::max(tuples_.size(), firsts_.size() * width));
    for (size_t f = 0; f < firsts_.size(); ++f) {
      Value* const tuple = tuples_.data() + f * width;
      for (size_t k = 0; k < width; ++k) tuple[k] = keys_[k].Take(firsts_[f]);
      hashes_.push_back(TupleSet::HashOf({tuple, width}));
      groups_.PrefetchPlace(hashes_.back());
    }
    constexpr size_t kAhead = 8;
    for (size_t f = 0; f < firsts_.size(); ++f) {
      if (f + kAhead < firsts_.size()) groups_.PrefetchTuple(hashes_[f + kAhead]);
      const auto [group, added] = groups_.Insert(hashes_[f], tuples_.data() + f * width, ctx_);
      if (added) added_.push_back(static_cast<uint32_t>(firsts_[f]));
      firsts_[f] = group;
      if (added && !Charge(static_cast<int64_t>(n * sizeof(AggregateState)))) return false;
    }
    for (size_t& of_row : of_row_) of_row = firsts_[of_row];
    return true;
  }

  // One after the other, as all sums are: floats in another order have another sum.
  void SumFloats(size_t a) {
    constexpr double kNoSum = std::numeric_limits<double>::infinity();
    const Column& column = value_.column;
    for (size_t i = 0; i < column.floats.size(); ++i) {
      if (column.valid[i] == 0) continue;
      AggregateState& state = StateOf(of_row_[i], a);
      const double sum = state.sum.is_float() ? state.sum.as_float() + column.floats[i] : kNoSum;
      if (!std::isfinite(sum)) {  // an average goes on in another way
        AddValue(a, of_row_[i], Value::Float(column.floats[i]), 1);
        continue;
      }
      ++state.count;
      state.sum = Value::Float(sum);
    }
  }

  // As the minimum or maximum.
  void Keep(AggregateState* state, Value v) {
    Charge(static_cast<int64_t>(v.Bytes()) - static_cast<int64_t>(state->sum.Bytes()));
    state->sum = std::move(v);
  }

  // Among those that an aggregate keeps.
  void KeepValue(Value v, ValueList* values) {
    Charge(static_cast<int64_t>(std::max(v.Bytes(), v.OwnedBytes())));
    values->push_back(std::move(v));
  }

  AggregateState& StateOf(size_t group, size_t a) {
    return states_[group * step().aggregates.size() + a];
  }
  int64_t Weight(const Value* row) const {
    return step().weight < 0 ? 1 : row[step().weight].as_int();
  }

  void Add(size_t a, size_t group, Value* row, int64_t weight) {
    const Expr& e = *step().aggregates[a].first;
    if (e.kind == Expr::Kind::kCountStar) {
      Count(weight, &StateOf(group, a));
      return;
    }
    Value v = Eval(*e.kids[0], row, ctx_);
    if (ctx_.failed()) return;
    if (IsPercentile(e)) {
      const double p = PercentOf(e, row);
      if (ctx_.failed()) return;
      StateOf(group, a).Rest().percentile = p;
    }
    AddValue(a, group, std::move(v), weight);
  }

  double PercentOf(const Expr& e, Value* row) {
    const Value p = Eval(*e.kids[1], row, ctx_);
    if (ctx_.failed()) return 0;
    if (!p.is_number() || !(p.as_number() >= 0 && p.as_number() <= 1)) {
      ctx_.ArgumentError("NumberOutOfRange", "a percentile lies between 0.0 and 1.0");
      return 0;
    }
    return p.as_number();
  }

  // Of an aggregate with DISTINCT: whether the value is new to the group, and to be added now. It
  // may have been `added` before it was spilled with the group.
  bool AddSeen(size_t a, size_t group, Value v, bool added = false) {
    if (taking_) return true;
    pair_.clear();
    pair_.push_back(Value::Int(static_cast<int64_t>(group)));
    pair_.push_back(std::move(v));
    if (!unseen_.spilling()) return distinct_[a]->Insert(&pair_, ctx_).second;
    const uint64_t hash = TupleSet::HashOf(pair_);
    if (distinct_[a]->Find(hash, pair_.data())) return false;
    pair_[0] = Value::Int(static_cast<int64_t>(a));
    pair_.push_back(Value::Bool(added));
    std::string* const row = unseen_.Row();
    for (const Value& value : pair_) AppendRowValue(value, row);
    unseen_.Add(hash, BytesWhenRead(pair_));
    return false;
  }

  // What a weight does not change is all that the planner gives one besides counts.
  void AddValue(size_t a, size_t group, Value v, int64_t weight) {
    const Expr& e = *step().aggregates[a].first;
    const Aggregate kind = e.function->aggregate;
    AggregateState* const state = &StateOf(group, a);
    if (v.is_null()) return;
    if (e.flag && !AddSeen(a, group, v)) return;
    Count(e.flag ? 1 : weight, state);
    switch (kind) {
      case Aggregate::kSum:
      case Aggregate::kAvg:
        if (!v.is_number() && !v.is_duration()) {
          ctx_.TypeError(Concat(e.function->name, "() does not take a ", TypeName(v.type())));
          return;
        }
        if (kind == Aggregate::kAvg) {
          const bool scaled = state->more != nullptr;
          AddToAverage(std::move(v), state, ctx_);
          if (!scaled && state->more != nullptr) Charge(sizeof(AggregateState::More));
        } else {
          state->sum =
              state->sum.is_null() ? std::move(v) : Arithmetic(Op::kAdd, state->sum, v, ctx_);
        }
        return;
      case Aggregate::kMin:
        if (state->sum.is_null() || Order(v, state->sum) < 0) Keep(state, std::move(v));
        return;
      case Aggregate::kMax:
        if (state->sum.is_null() || Order(v, state->sum) > 0) Keep(state, std::move(v));
        return;
      case Aggregate::kCollect:
        KeepValue(std::move(v), &state->Rest().values);
        return;
      case Aggregate::kCount:
        return;
      default:
        break;
    }
    if (!v.is_number()) {
      ctx_.TypeError(Concat(e.function->name, "() does not take a ", TypeName(v.type())));
      return;
    }
    if (state->more == nullptr) Charge(sizeof(AggregateState::More));
    AggregateState::More& more = state->Rest();
    if (kind == Aggregate::kStDev || kind == Aggregate::kStDevP) {
      const double delta = v.as_number() - more.mean;
      more.mean += delta / static_cast<double>(state->count);
      more.squares += delta * (v.as_number() - more.mean);
      return;
    }
    Charge(sizeof(Value));
    more.values.push_back(std::move(v));
  }

  void Count(int64_t rows, AggregateState* state) {
    if (!__builtin_add_overflow(state->count, rows, &state->count)) return;
    ctx_.Fail(RuntimeError("ArithmeticError", "NumberOutOfRange", "there are more than 2^63 rows"));
  }

  Value Result(const Expr& e, AggregateState* state) {
    return e.kind == Expr::Kind::kCountStar ? Value::Int(state->count)
                                            : ResultOf(e.function->aggregate, state, ctx_);
  }

  // --- Groups that are spilled.

  bool PushSpilled(Rows& in) {
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      piece_.clear();
      piece_.emplace_back();
      const auto add = [&](const Expr& e) { piece_.push_back(Eval(e, row, ctx_)); };
      for (const size_t k : own_) add(*step().items[k].first);
      piece_.push_back(Value::Int(static_cast<int64_t>(GroupPiece::kRow)));
      piece_.push_back(Value::Int(Weight(row)));
      for (const size_t k : implied_) add(*step().items[k].first);
      for (const auto& [e, slot] : step().aggregates) {
        if (e->kind == Expr::Kind::kCountStar) continue;
        add(*e->kids[0]);
        if (IsPercentile(*e)) piece_.push_back(Value::Float(PercentOf(*e, row)));
      }
      if (ctx_.failed() || !spill_.Take(&piece_) || !ctx_.Tick()) return false;
    }
    return true;
  }

  bool GiveSpilled() {
    const std::vector<Value> empty(static_cast<size_t>(runtime_->width));
    spill_.Finish([&](Value* from) {
      Value* const row = NewRow(empty.data());
      if (row == nullptr) return false;
      const size_t bytes =
          BytesWhenRead({from + 1, own_.size() + implied_.size() + step().aggregates.size()});
      for (const size_t k : own_) row[step().items[k].second] = std::move(*++from);
      for (const size_t k : implied_) row[step().items[k].second] = std::move(*++from);
      for (const auto& [e, slot] : step().aggregates) row[slot] = std::move(*++from);
      return FlushIfLarge(bytes);
    });
    return Flush();
  }

  size_t Count() const override { return groups_.size(); }
  int64_t Held() const override {
    int64_t held = charged_ + groups_.charged();
    for (const auto& distinct : distinct_) held += distinct != nullptr ? distinct->charged() : 0;
    return held;
  }
  void Clear() override {
    for (const auto& distinct : distinct_) {
      if (distinct != nullptr) distinct->Clear(ctx_);
    }
    unseen_.Reset();
    for (SortedNumbers& numbers : numbers_) numbers.Clear();
    Forget(&states_);
    Forget(&implied_values_);
    groups_.Clear(ctx_);
    ctx_.Charge(-charged_);
    charged_ = 0;
  }
  const Value* Keys(size_t group) const override { return groups_.Tuple(group); }
  size_t Find(uint64_t hash, Value* keys, bool* added) override {
    if (added == nullptr) return groups_.Find(hash, keys).value_or(kNone);
    const auto [group, is_new] = groups_.Insert(hash, keys, ctx_);
    *added = is_new;
    return group;
  }

  bool Apply(size_t group, bool added, std::span<Value> piece) override {
    const auto kind = static_cast<GroupPiece>(piece[0].as_int());
    size_t at = kind == GroupPiece::kRow ? 2 : 1;
    if (added) {
      states_.resize(states_.size() + step().aggregates.size());
      Charge(static_cast<int64_t>(step().aggregates.size() * sizeof(AggregateState)));
    }
    if (kind == GroupPiece::kRow || kind == GroupPiece::kState) {
      for (size_t k = 0; k < implied_.size(); ++k, ++at) {
        if (!added) continue;
        Charge(static_cast<int64_t>(piece[at].Bytes()));
        implied_values_.push_back(std::move(piece[at]));
      }
      for (size_t a = 0; a < step().aggregates.size() && !ctx_.failed(); ++a) {
        kind == GroupPiece::kRow ? ApplyRow(group, a, piece, &at) : Restore(group, a, piece, &at);
      }
    } else {
      const auto a = static_cast<size_t>(piece[1].as_int());
      for (Value& value : piece.subspan(2)) {
        if (kind == GroupPiece::kValues) {
          KeepValue(std::move(value), &StateOf(group, a).Rest().values);
        } else {
          AddSeen(a, group, std::move(value), true);
        }
      }
    }
    return !ctx_.failed();
  }
  // The next values of a piece, of one aggregate.
  void ApplyRow(size_t group, size_t a, std::span<Value> piece, size_t* at) {
    const Expr& e = *step().aggregates[a].first;
    const int64_t weight = piece[1].as_int();
    if (e.kind == Expr::Kind::kCountStar) return Count(weight, &StateOf(group, a));
    Value v = std::move(piece[(*at)++]);
    if (IsPercentile(e)) StateOf(group, a).Rest().percentile = piece[(*at)++].as_float();
    AddValue(a, group, std::move(v), weight);
  }
  void Restore(size_t group, size_t a, std::span<Value> piece, size_t* at) {
    AggregateState& state = StateOf(group, a);
    ReadState(piece, at, &state);
    Charge(static_cast<int64_t>(state.sum.Bytes()));
    if (state.more != nullptr) Charge(sizeof(AggregateState::More));
  }

  bool SaveAll(const Save& save) override {
    const size_t n = step().aggregates.size();
    std::vector<Value> piece;
    for (size_t g = 0; g < groups_.size(); ++g) {
      BeginPiece(GroupPiece::kState, &piece);
      for (size_t k = 0; k < implied_.size(); ++k)
        piece.push_back(implied_values_[g * implied_.size() + k]);
      for (size_t a = 0; a < n; ++a) AppendState(StateOf(g, a), &piece);
      if (!save(g, piece)) return false;
      for (size_t a = 0; a < n; ++a) {
        const bool saved =
            SaveValues(StateOf(g, a), a, [&](auto values) { return save(g, values); });
        if (!saved) return false;
      }
    }
    for (size_t a = 0; a < n; ++a) {
      for (size_t i = 0; distinct_[a] != nullptr && i < distinct_[a]->size(); ++i) {
        const Value* pair = distinct_[a]->Tuple(i);
        BeginPiece(GroupPiece::kSeen, &piece);
        piece.push_back(Value::Int(static_cast<int64_t>(a)));
        piece.push_back(pair[1]);
        if (!save(static_cast<size_t>(pair[0].as_int()), piece)) return false;
      }
    }
    return true;
  }

  bool SpillValues() override {
    int64_t seen = 0;
    for (const auto& distinct : distinct_) seen += distinct != nullptr ? distinct->charged() : 0;
    if (!unseen_.spilling() && ctx_.SpillDue(seen) && !unseen_.Begin()) return false;
    return !percentiles_ || SpillNumbers(false);
  }
  // Of a percentile of the only group; null: of another aggregate.
  ValueList* NumbersOf(size_t a) {
    return IsPercentile(*step().aggregates[a].first) ? &StateOf(0, a).Rest().values : nullptr;
  }
  bool SpillNumbers(bool all) {
    int64_t bytes = 0;
    for (size_t a = 0; a < numbers_.size(); ++a) {
      const ValueList* const list = NumbersOf(a);
      if (list != nullptr) bytes += static_cast<int64_t>(list->size() * sizeof(Value));
    }
    if (!all && !ctx_.SpillDue(bytes)) return true;
    for (size_t a = 0; a < numbers_.size(); ++a) {
      ValueList* const list = NumbersOf(a);
      if (list != nullptr && !numbers_[a].Spill(list, ctx_)) return false;
    }
    return Charge(-bytes);
  }
  // Values that are in no set come once now, in their order.
  bool TakeValues() override {
    if (unseen_.spilling()) {
      for (const auto& distinct : distinct_) {
        if (distinct != nullptr) distinct->Clear(ctx_);
      }
      taking_ = true;
      const bool taken = unseen_.Finish([this](Value* row) {
        const auto a = static_cast<size_t>(row[1].as_int());
        if (!row[3].as_bool()) AddValue(a, 0, std::move(row[2]), 1);
        return !ctx_.failed() && (!percentiles_ || SpillNumbers(false));
      });
      taking_ = false;
      if (!taken) return false;
    }
    const auto is_empty = [](const SortedNumbers& numbers) { return numbers.empty(); };
    if (std::all_of(numbers_.begin(), numbers_.end(), is_empty)) return !ctx_.failed();
    if (!SpillNumbers(true)) return false;
    for (size_t a = 0; a < numbers_.size(); ++a) {
      if (numbers_[a].empty()) continue;
      AggregateState& state = StateOf(0, a);
      const Expr& e = *step().aggregates[a].first;
      const bool discrete = e.function->aggregate == Aggregate::kPercentileDisc;
      state.sum = numbers_[a].Percentile(state.more->percentile, discrete, ctx_);
    }
    return !ctx_.failed();
  }

  void AppendResults(size_t group, std::vector<Value>* row) override {
    for (size_t k = 0; k < implied_.size(); ++k)
      row->push_back(std::move(implied_values_[group * implied_.size() + k]));
    for (size_t a = 0; a < step().aggregates.size(); ++a)
      row->push_back(Result(*step().aggregates[a].first, &StateOf(group, a)));
  }

  BatchEval eval_;
  const std::vector<size_t> own_;  // keys, by their place in the step
  std::vector<size_t> implied_;
  std::vector<Value> implied_values_;  // of each group
  std::vector<uint32_t> added_;        // rows of a batch that began groups
  TupleSet groups_;
  std::vector<AggregateState> states_;
  std::vector<Value> tuple_, pair_;
  std::vector<Operand> keys_;
  Operand value_;
  std::vector<size_t> of_row_;  // the group of each row of a batch
  std::vector<size_t> firsts_;
  std::vector<uint64_t> hashes_;
  std::vector<Value> tuples_;
  // Of aggregates with DISTINCT: group and value.
  std::vector<std::unique_ptr<TupleSet>> distinct_;
  // Of a group that is alone, and too large: an aggregate, a value that is not in its set, whether
  // it was added; and the numbers of percentiles.
  DistinctSpill unseen_;
  bool taking_ = false;  // those of unseen_
  std::vector<SortedNumbers> numbers_;
  bool percentiles_ = false;
  int64_t charged_ = 0;
  GroupSpill spill_;
  std::vector<Value> piece_;
};

}  // namespace

std::unique_ptr<Operator> MakeAggregateOperator(const Step& step, Runtime* runtime,
                                                Operator* next) {
  if (step.kind != Step::Kind::kAggregate) return nullptr;
  return std::make_unique<AggregateOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
