// Operators on rows: projection, DISTINCT, ORDER BY, SKIP, LIMIT, UNWIND, CALL.
#include <algorithm>
#include <numeric>

#include "services/graph/cypher/kept_rows.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_eval.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {

namespace {

bool Equivalent(const Value& a, const Value& b) {
  if (a.type() == b.type()) {
    if (a.is_string()) return a.as_string() == b.as_string();
    if (a.is_node()) return a.as_node() == b.as_node();
    if (a.is_int()) return a.as_int() == b.as_int();
  }
  return Order(a, b) == 0;
}

}  // namespace

void TupleSet::Grow() {
  index_.assign(index_.empty() ? 16 : index_.size() * 2, 0);
  const size_t mask = index_.size() - 1;
  for (size_t i = 0; i < hashes_.size(); ++i) {
    size_t at = hashes_[i] & mask;
    while (index_[at] != 0) at = (at + 1) & mask;
    index_[at] = static_cast<uint32_t>(i + 1);
  }
}

inline bool TupleSet::IsTuple(size_t tuple, uint64_t hash, const Value* values) const {
  if (hashes_[tuple] != hash) return false;
  const Value* known = Tuple(tuple);
  bool same = true;
  for (size_t i = 0; i < width_ && same; ++i) same = Equivalent(known[i], values[i]);
  return same;
}

std::optional<size_t> TupleSet::Find(uint64_t hash, const Value* values) const {
  if (index_.empty()) return std::nullopt;
  const size_t mask = index_.size() - 1;
  for (size_t at = hash & mask; index_[at] != 0; at = (at + 1) & mask) {
    if (IsTuple(index_[at] - 1, hash, values)) return index_[at] - 1;
  }
  return std::nullopt;
}

std::pair<size_t, bool> TupleSet::Insert(uint64_t hash, Value* values, EvalContext& ctx) {
  if (hashes_.size() * 2 >= index_.size()) Grow();
  const size_t mask = index_.size() - 1;
  size_t at = hash & mask;
  for (; index_[at] != 0; at = (at + 1) & mask) {
    if (IsTuple(index_[at] - 1, hash, values)) return {index_[at] - 1, false};
  }
  const size_t count = hashes_.size();
  if (count >= UINT32_MAX - 1) {
    ctx.Fail(LimitError(absl::StatusCode::kResourceExhausted,
                        "the query has more than 2^32 different groups or rows"));
    return {0, false};
  }
  index_[at] = static_cast<uint32_t>(count + 1);
  hashes_.push_back(hash);
  int64_t bytes = 64;
  for (size_t i = 0; i < width_; ++i) {
    bytes += static_cast<int64_t>(std::max(values[i].Bytes(), values[i].DeepBytes()));
    values_.push_back(std::move(values[i]));
  }
  charged_ += bytes;
  ctx.Charge(bytes);
  return {count, true};
}

void TupleSet::Clear(EvalContext& ctx) {
  ctx.Charge(-charged_);
  charged_ = 0;
  Forget(&values_);
  Forget(&hashes_);
  Forget(&index_);
}

namespace {

class ProjectOperator : public Operator {
 public:
  ProjectOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), eval_(&ctx_) {}
  bool Push(Rows& in) override {
    if (in.size() >= ctx_.columns_from) return ProjectBatch(in) && next_->Push(in);
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      for (const auto& [expr, slot] : step().items) row[slot] = Eval(*expr, row, ctx_);
      if (!ctx_.Tick()) return false;
    }
    return next_->Push(in);
  }

 private:
  // What is projected goes into slots that no expression reads.
  bool ProjectBatch(Rows& in) {
    const auto rows = eval_.All(in.size());
    for (const auto& [expr, slot] : step().items) {
      if (!eval_.Evaluate(*expr, {.rows = &in}, rows, &value_)) return false;
      for (size_t i = 0; i < in.size(); ++i) in.Row(i)[slot] = value_.Take(i);
    }
    return ctx_.Tick(in.size());
  }

  BatchEval eval_;
  Operand value_;
};

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

class UnwindOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      Value* row = in.Row(i);
      NumberRange range;
      if (FindRange(row, &range)) {
        for (uint64_t k = 0; k < range.count; ++k) {
          Value* out = NewRow(row);
          if (out == nullptr) return false;
          out[step().slot] = Value::Int(range.At(k));
        }
        continue;
      }
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

 private:
  // Of range(…), of which no list is made. False: it is another expression, or has an error.
  bool FindRange(Value* row, NumberRange* range) {
    const Expr& e = *step().expr;
    if (e.kind != Expr::Kind::kCall || e.function == nullptr || e.function->name != "range") {
      return false;
    }
    Value arguments[3];
    for (size_t i = 0; i < e.kids.size(); ++i) arguments[i] = Eval(*e.kids[i], row, ctx_);
    return !ctx_.failed() && NumberRange::Of({arguments, e.kids.size()}, range);
  }
};

class ProcedureOperator : public Operator {
  // Memory of values for as long as it lives.
  class Charged {
   public:
    Charged(EvalContext* context, const ValueList& values) : context_(*context) {
      for (const Value& value : values) bytes_ += static_cast<int64_t>(value.Bytes());
      context_.Charge(bytes_);
    }
    ~Charged() { context_.Charge(-bytes_); }
    Charged(const Charged&) = delete;
    Charged& operator=(const Charged&) = delete;

   private:
    EvalContext& context_;
    int64_t bytes_ = 0;
  };

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
      // They are there until the last of them was passed on.
      const Charged charged(&ctx_, results);
      if (ctx_.failed()) return false;
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
  EagerOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), kept_(runtime->width, &ctx_) {}
  bool Push(Rows& in) override { return kept_.Add(in); }
  bool Finish() override {
    kept_.Drain([this](Rows& rows) { return next_->Push(rows); });
    return next_->Finish();
  }
  void Reset() override { kept_.Clear(); }

 private:
  KeptRows kept_;
};

class ImportOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      for (const auto& [expr, slot] : step().items) in.Row(i)[slot] = (*runtime_->outer)[slot];
    }
    return next_->Push(in);
  }
};

}  // namespace

std::unique_ptr<Operator> MakeTableOperator(const Step& step, Runtime* runtime, Operator* next) {
  switch (step.kind) {
    case Step::Kind::kProject:
      return std::make_unique<ProjectOperator>(&step, runtime, next);
    case Step::Kind::kDistinct:
      return MakeDistinctOperator(step, runtime, next);
    case Step::Kind::kSort:
      return MakeSortOperator(step, runtime, next);
    case Step::Kind::kSkip:
    case Step::Kind::kLimit:
      return std::make_unique<CountOperator>(&step, runtime, next);
    case Step::Kind::kLoadCsv:
      return MakeLoadCsvOperator(step, runtime, next);
    case Step::Kind::kUnwind:
      return std::make_unique<UnwindOperator>(&step, runtime, next);
    case Step::Kind::kProcedure:
      return std::make_unique<ProcedureOperator>(&step, runtime, next);
    case Step::Kind::kSubquery:
      if (step.in_transactions) return MakeBatchesOperator(step, runtime, next);
      return std::make_unique<SubqueryOperator>(&step, runtime, next);
    case Step::Kind::kImport:
      return std::make_unique<ImportOperator>(&step, runtime, next);
    case Step::Kind::kEager:
      return std::make_unique<EagerOperator>(&step, runtime, next);
    default:
      return nullptr;
  }
}

}  // namespace pulse::cypher
