// Operators on rows: projection, DISTINCT, ORDER BY, SKIP, LIMIT, UNWIND, CALL.
#include <algorithm>
#include <numeric>

#include "services/graph/cypher/functions.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {

std::pair<size_t, bool> TupleSet::Insert(std::vector<Value>* values, EvalContext& ctx) {
  uint64_t hash = 0;
  for (const Value& v : *values) hash = hash * 0x9E3779B97F4A7C15u + Hash(v);
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Value* known = Tuple(it->second);
    bool same = true;
    for (size_t i = 0; i < width_ && same; ++i) same = Order(known[i], (*values)[i]) == 0;
    if (same) return {it->second, false};
  }
  int64_t bytes = 64;
  for (Value& v : *values) {
    bytes += static_cast<int64_t>(v.Bytes());
    values_.push_back(std::move(v));
  }
  charged_ += bytes;
  ctx.Charge(bytes);
  index_.emplace(hash, count_);
  return {count_++, true};
}

void TupleSet::Clear(EvalContext& ctx) {
  ctx.Charge(-charged_);
  charged_ = 0;
  count_ = 0;
  values_.clear();
  index_.clear();
}

namespace {

class ProjectOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      for (const auto& [expr, slot] : step().items) row[slot] = Eval(*expr, row, ctx_);
      if (!ctx_.Tick()) return false;
    }
    return next_->Push(in);
  }
};

class DistinctOperator : public Operator {
 public:
  DistinctOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), seen_(step->items.size()) {}
  bool Push(Rows& in) override {
    size_t kept = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      tuple_.clear();
      for (const auto& [expr, slot] : step().items) tuple_.push_back(in.Row(i)[slot]);
      if (seen_.Insert(&tuple_, ctx_).second) in.Move(i, kept++);
      if (!ctx_.Tick()) return false;
    }
    in.Resize(kept);
    return kept == 0 || next_->Push(in);
  }
  void Reset() override { seen_.Clear(ctx_); }

 private:
  TupleSet seen_;
  std::vector<Value> tuple_;
};

// The number of SKIP and LIMIT; false: it is none.
bool CountOf(const Expr& expr, std::string_view what, std::vector<Value>* scratch, EvalContext& ctx,
             uint64_t* out) {
  const Value v = Eval(expr, scratch->data(), ctx);
  if (ctx.failed()) return false;
  if (!v.is_int()) {
    ctx.Fail(RuntimeError("SyntaxError", "InvalidArgumentType",
                          Concat(what, " needs an INTEGER, found a ", TypeName(v.type()))));
    return false;
  }
  if (v.as_int() < 0) {
    ctx.Fail(RuntimeError("SyntaxError", "NegativeIntegerArgument",
                          Concat(what, " may not be negative")));
    return false;
  }
  *out = static_cast<uint64_t>(v.as_int());
  return true;
}

class CountOperator : public Operator {
 public:
  CountOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), scratch_(static_cast<size_t>(runtime->width)) {}
  bool Push(Rows& in) override {
    if (!Prepare()) return false;
    const bool skip = step().kind == Step::Kind::kSkip;
    const uint64_t take = std::min<uint64_t>(left_, in.size());
    left_ -= take;
    if (!skip) {
      in.Resize(take);
      const bool more = in.empty() || next_->Push(in);
      return more && left_ > 0;
    }
    for (size_t i = take; i < in.size(); ++i) in.Move(i, i - take);
    in.Resize(in.size() - take);
    return in.empty() || next_->Push(in);
  }
  bool Finish() override {
    // A wrong number is wrong without rows, too.
    return Prepare() && next_->Finish();
  }
  void Reset() override { ready_ = false; }

 private:
  bool Prepare() {
    if (ready_) return true;
    ready_ = CountOf(*step().expr, step().kind == Step::Kind::kSkip ? "SKIP" : "LIMIT", &scratch_,
                     ctx_, &left_);
    return ready_;
  }
  std::vector<Value> scratch_;
  bool ready_ = false;
  uint64_t left_ = 0;
};

class SortOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    const size_t keys = step().order.size();
    int64_t bytes = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      for (const auto& [expr, descending] : step().order) {
        keys_.push_back(Eval(*expr, row, ctx_));
        bytes += static_cast<int64_t>(keys_.back().Bytes());
      }
      for (size_t k = 0; k < in.width(); ++k) {
        bytes += static_cast<int64_t>(row[k].Bytes());
        rows_.push_back(std::move(row[k]));
      }
      if (!ctx_.Tick()) return false;
    }
    count_ += in.size();
    charged_ += bytes;
    if (!ctx_.Charge(bytes)) return false;
    if (!limited_ && !Limit()) return false;
    if (count_ > keep_ && count_ - keep_ > keep_ + 4 * kBatchRows) Cut(keys);
    return true;
  }
  bool Finish() override {
    const size_t keys = step().order.size(), width = static_cast<size_t>(runtime_->width);
    const std::vector<size_t> order = Sorted(keys);
    for (const size_t i : order) {
      if (NewRow(&rows_[i * width]) == nullptr) break;
    }
    return Flush() && next_->Finish();
  }
  void Reset() override {
    keys_.clear();
    rows_.clear();
    count_ = 0;
    ctx_.Charge(-charged_);
    charged_ = 0;
    limited_ = false;
  }

 private:
  bool Limit() {
    limited_ = true;
    keep_ = ~size_t{0} / 2;
    if (step().top_limit == nullptr) return true;
    std::vector<Value> scratch(static_cast<size_t>(runtime_->width));
    uint64_t limit = 0, skip = 0;
    if (!CountOf(*step().top_limit, "LIMIT", &scratch, ctx_, &limit)) return false;
    if (step().top_skip != nullptr && !CountOf(*step().top_skip, "SKIP", &scratch, ctx_, &skip))
      return false;
    if (limit < keep_ / 2 && skip < keep_ / 2) keep_ = limit + skip;
    return true;
  }
  std::vector<size_t> Sorted(size_t keys) const {
    std::vector<size_t> order(count_);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      for (size_t k = 0; k < keys; ++k) {
        const int c = Order(keys_[a * keys + k], keys_[b * keys + k]);
        if (c != 0) return step_->order[k].second ? c > 0 : c < 0;
      }
      return false;
    });
    return order;
  }
  // Forgets the rows that LIMIT would drop.
  void Cut(size_t keys) {
    const auto width = static_cast<size_t>(runtime_->width);
    std::vector<size_t> order = Sorted(keys);
    order.resize(std::min(order.size(), keep_));
    std::vector<Value> kept_keys, kept_rows;
    int64_t bytes = 0;
    for (const size_t i : order) {
      for (size_t k = 0; k < keys; ++k) kept_keys.push_back(std::move(keys_[i * keys + k]));
      for (size_t k = 0; k < width; ++k) {
        bytes += static_cast<int64_t>(rows_[i * width + k].Bytes());
        kept_rows.push_back(std::move(rows_[i * width + k]));
      }
    }
    for (const Value& v : kept_keys) bytes += static_cast<int64_t>(v.Bytes());
    keys_ = std::move(kept_keys);
    rows_ = std::move(kept_rows);
    count_ = order.size();
    ctx_.Charge(bytes - charged_);
    charged_ = bytes;
  }

  std::vector<Value> keys_, rows_;
  size_t count_ = 0;
  size_t keep_ = 0;
  bool limited_ = false;
  int64_t charged_ = 0;
};

class UnwindOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      const Value v = Eval(*step().expr, row, ctx_);
      if (ctx_.failed()) return false;
      if (v.is_null()) continue;
      const size_t count = v.is_list() ? v.as_list().size() : 1;
      for (size_t k = 0; k < count; ++k) {
        Value* out = NewRow(row);
        if (out == nullptr) return false;
        out[step().slot] = v.is_list() ? v.as_list()[k] : v;
      }
    }
    return Flush();
  }
};

class ProcedureOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    const Procedure& procedure = *step().procedure;
    const size_t width = procedure.results.size();
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      ValueList arguments;
      for (size_t a = 0; a < step().arguments.size(); ++a) {
        Value v = Eval(*step().arguments[a], row, ctx_);
        const uint32_t types = procedure.arguments[a].types | Bit(Type::kNull);
        if (v.is_int() && (types & Bit(Type::kInt)) == 0 && (types & Bit(Type::kFloat)) != 0) {
          v = Value::Float(v.as_number());
        }
        if ((types & Bit(v.type())) == 0) {
          ctx_.TypeError(Concat("argument ", procedure.arguments[a].name, " of `", procedure.name,
                                "` cannot be a ", TypeName(v.type())));
        }
        arguments.push_back(std::move(v));
      }
      ValueList results;
      if (ctx_.failed() || !ctx_.Check(procedure.call(ctx_, arguments, &results))) return false;
      if (width == 0) {
        if (NewRow(row) == nullptr) return false;
        continue;
      }
      for (size_t r = 0; r + width <= results.size(); r += width) {
        Value* out = NewRow(row);
        if (out == nullptr) return false;
        for (const auto& [column, slot] : step().outputs)
          out[slot] = results[r + static_cast<size_t>(column)];
      }
    }
    return Flush();
  }
};

class SubqueryOperator : public Operator {
 public:
  SubqueryOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next),
        runner_(*step->subplan, runtime, [this](Rows& rows, const std::vector<Slot>& columns) {
          if (step_->unit) return true;
          for (size_t i = 0; i < rows.size(); ++i) {
            Value* out = NewRow(outer_);
            if (out == nullptr) {
              more_ = false;
              return false;
            }
            for (const auto& [column, slot] : step_->outputs)
              out[slot] = rows.Row(i)[columns[static_cast<size_t>(column)]];
          }
          return true;
        }) {}
  bool Push(Rows& in) override {
    more_ = true;
    for (size_t i = 0; i < in.size() && more_; ++i) {
      outer_ = in.Row(i);
      runner_.Run(outer_);
      if (ctx_.failed()) return false;
      if (step().unit && NewRow(outer_) == nullptr) return false;
    }
    return Flush() && more_;
  }

 private:
  PlanRunner runner_;
  const Value* outer_ = nullptr;
  bool more_ = true;
};

// Holds all rows back until no more come.
class EagerOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    int64_t bytes = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      if (batches_.empty() || batches_.back().full()) batches_.emplace_back(runtime_->width);
      batches_.back().Add(in.Row(i));
    }
    bytes = static_cast<int64_t>(in.Bytes());
    charged_ += bytes;
    return ctx_.Charge(bytes);
  }
  bool Finish() override {
    for (Rows& rows : batches_) {
      if (!next_->Push(rows)) break;
    }
    return next_->Finish();
  }
  void Reset() override {
    batches_.clear();
    ctx_.Charge(-charged_);
    charged_ = 0;
  }

 private:
  std::vector<Rows> batches_;
  int64_t charged_ = 0;
};

}  // namespace

std::unique_ptr<Operator> MakeTableOperator(const Step& step, Runtime* runtime, Operator* next) {
  switch (step.kind) {
    case Step::Kind::kProject:
      return std::make_unique<ProjectOperator>(&step, runtime, next);
    case Step::Kind::kDistinct:
      return std::make_unique<DistinctOperator>(&step, runtime, next);
    case Step::Kind::kSort:
      return std::make_unique<SortOperator>(&step, runtime, next);
    case Step::Kind::kSkip:
    case Step::Kind::kLimit:
      return std::make_unique<CountOperator>(&step, runtime, next);
    case Step::Kind::kUnwind:
      return std::make_unique<UnwindOperator>(&step, runtime, next);
    case Step::Kind::kProcedure:
      return std::make_unique<ProcedureOperator>(&step, runtime, next);
    case Step::Kind::kSubquery:
      return std::make_unique<SubqueryOperator>(&step, runtime, next);
    case Step::Kind::kEager:
      return std::make_unique<EagerOperator>(&step, runtime, next);
    default:
      return nullptr;
  }
}

}  // namespace pulse::cypher
