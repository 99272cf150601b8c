#include "services/graph/cypher/engine.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/cypher/step_reads.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {

std::unique_ptr<Operator> MakeOperator(const Step& step, Runtime* runtime, Operator* next) {
  if (auto op = MakeMatchOperator(step, runtime, next)) return op;
  if (auto op = MakeTableOperator(step, runtime, next)) return op;
  if (auto op = MakeAggregateOperator(step, runtime, next)) return op;
  if (auto op = MakeColumnOperator(step, runtime, next)) return op;
  if (auto op = MakeCountOperator(step, runtime, next)) return op;
  return MakeUpdateOperator(step, runtime, next);
}

namespace {

// Stands between two steps. Counts the rows that the one before gives, and what the one behind
// reads: in *reads, which Pipeline::Run sets for who takes the rows of the last step.
class ProfileOperator : public Operator {
 public:
  ProfileOperator(uint64_t* rows, ReadCounts* const* reads, Runtime* runtime, Operator* next)
      : Operator(nullptr, runtime, next), rows_(rows), reads_(reads) {}
  // Of a step.
  ProfileOperator(uint64_t* rows, ReadCounts* reads, Runtime* runtime, Operator* next)
      : Operator(nullptr, runtime, next), rows_(rows), own_(reads), reads_(&own_) {}
  bool Push(Rows& in) override {
    if (rows_ != nullptr) *rows_ += in.size();
    const StepReads reads(*reads_);
    return next_->Push(in);
  }
  bool Finish() override {
    const StepReads reads(*reads_);
    return next_->Finish();
  }

 private:
  uint64_t* const rows_;
  ReadCounts* const own_ = nullptr;
  ReadCounts* const* const reads_;
};

}  // namespace

Pipeline::Pipeline(std::span<const Step> steps, Runtime* runtime, Operator* sink,
                   const ParallelPlan* parallel, std::span<const ParallelSection> sections)
    : head_(sink), input_(runtime->width) {
  const auto add = [this](std::unique_ptr<Operator> op) {
    operators_.push_back(std::move(op));
    head_ = operators_.back().get();
  };
  StepCounts* behind = nullptr;
  const auto add_profile = [&](uint64_t* rows) {
    add(behind == nullptr
            ? std::make_unique<ProfileOperator>(rows, &outer_reads_, runtime, head_)
            : std::make_unique<ProfileOperator>(rows, &behind->reads, runtime, head_));
  };
  // From the last on.
  for (size_t end = steps.size(); end > 0;) {
    const ParallelSection* const section = sections.empty() ? nullptr : &sections.back();
    const bool whole = section != nullptr && section->end == end;
    // A section counts the rows of its steps itself.
    const Step& step = steps[whole ? section->begin : end - 1];
    if (runtime->profile != nullptr) {
      StepCounts& counts = runtime->profile->steps[&step];
      add_profile(whole ? nullptr : &counts.rows);
      behind = &counts;
    }
    if (whole) {
      add(MakeSectionOperator(steps, *section, parallel->options(), runtime, head_));
      sections = sections.first(sections.size() - 1);
      end = section->begin;
      continue;
    }
    const bool fed = section != nullptr && section->end == end - 1 && section->aggregate != nullptr;
    add(MakeOperator(fed ? *section->aggregate : step, runtime, head_));
    --end;
  }
  if (behind != nullptr) add_profile(nullptr);
}

void Pipeline::Run(Rows& rows) {
  Begin();
  Push(rows);
  End();
}

void Pipeline::Begin() { outer_reads_ = counted_reads; }

void Pipeline::End() {
  // Also where no more rows are wanted: what sorts or counts has something to give still.
  head_->Finish();
  for (const auto& op : operators_) op->Reset();
}

void Pipeline::RunOne(const Value* row) {
  input_.clear();
  input_.Add(row);
  Run(input_);
}

PlanRunner::PlanRunner(const Plan& plan, Runtime* runtime, Consume consume,
                       const ParallelPlan* parallel)
    : runtime_(*runtime),
      consume_(std::move(consume)),
      united_runtime_(*runtime),
      united_(std::max(static_cast<int>(plan.columns.size()), 1)) {
  runtime_.outer = &row_;
  if (!plan.unite.empty()) {
    united_runtime_.width = static_cast<int>(united_.width());
    const std::vector<Slot>& columns = plan.unite[0].live;
    united_sink_ = MakeSink(&united_runtime_, [this, &columns](Rows& rows) {
      return rows.empty() || consume_(rows, columns);
    });
    unite_ = std::make_unique<Pipeline>(plan.unite, &united_runtime_, united_sink_.get());
  }
  for (size_t b = 0; b < plan.branches.size(); ++b) {
    const Plan::Branch& branch = plan.branches[b];
    sinks_.push_back(MakeSink(&runtime_, [this, &branch](Rows& rows) {
      if (unite_ == nullptr) return rows.empty() || consume_(rows, branch.outputs);
      united_.clear();
      for (size_t i = 0; i < rows.size(); ++i) {
        Value* const row = united_.Add(rows.Row(i), {});
        for (size_t c = 0; c < branch.outputs.size(); ++c) row[c] = rows.Row(i)[branch.outputs[c]];
      }
      return unite_->Push(united_);
    }));
    pipelines_.push_back(std::make_unique<Pipeline>(
        branch.steps, &runtime_, sinks_.back().get(), parallel,
        parallel != nullptr ? parallel->Of(b) : std::span<const ParallelSection>()));
  }
}

void PlanRunner::Run(const Value* row) {
  row_ = row;
  if (unite_ != nullptr) unite_->Begin();
  for (const auto& pipeline : pipelines_) {
    if (!runtime_.context->failed()) pipeline->RunOne(row);
  }
  if (unite_ != nullptr) unite_->End();
}

namespace {

class Subplans : public SubplanRunner {
 public:
  explicit Subplans(const Runtime& runtime) : runtime_(runtime) {
    // Plans do not show their steps: what they read counts for the step that evaluates them.
    runtime_.profile = nullptr;
  }

  bool Exists(const Plan& plan, const Value* row) override { return CountTo(1, plan, row) > 0; }

  int64_t Count(const Plan& plan, const Value* row) override {
    return CountTo(std::numeric_limits<int64_t>::max(), plan, row);
  }

  void Collect(const Plan& plan, const Expr* result, const Value* row, ValueList* out) override {
    State& state = StateOf(plan);
    state.out = out;
    state.bytes = 0;
    state.result = result;
    state.runner->Run(row);
    state.out = nullptr;
  }

 private:
  struct State {
    std::unique_ptr<PlanRunner> runner;
    int64_t rows = 0, most = 0;
    ValueList* out = nullptr;
    size_t bytes = 0;  // of its values
    const Expr* result = nullptr;
  };

  int64_t CountTo(int64_t most, const Plan& plan, const Value* row) {
    State& state = StateOf(plan);
    state.rows = 0;
    state.most = most;
    state.out = nullptr;
    state.runner->Run(row);
    return state.rows;
  }

  State& StateOf(const Plan& plan) {
    auto& state = states_[&plan];
    if (state != nullptr) return *state;
    state = std::make_unique<State>();
    State* s = state.get();
    s->runner = std::make_unique<PlanRunner>(
        plan, &runtime_, [this, s](Rows& rows, const std::vector<Slot>& columns) {
          if (s->out == nullptr) {
            s->rows += static_cast<int64_t>(rows.size());
            return s->rows < s->most;
          }
          EvalContext& ctx = *runtime_.context;
          for (size_t i = 0; i < rows.size(); ++i) {
            s->out->push_back(s->result != nullptr ? Eval(*s->result, rows.Row(i), ctx)
                                                   : rows.Row(i)[static_cast<size_t>(columns[0])]);
            s->bytes += sizeof(Value) + s->out->back().DeepBytes();
          }
          return ctx.Fits(s->bytes);
        });
    return *state;
  }

  Runtime runtime_;
  std::unordered_map<const Plan*, std::unique_ptr<State>> states_;
};

}  // namespace

std::unique_ptr<SubplanRunner> MakeSubplans(const Runtime& runtime) {
  return std::make_unique<Subplans>(runtime);
}

namespace {

absl::Status CheckParameters(const Plan& plan, const ValueMap& parameters) {
  for (const std::string& name : plan.parameters) {
    const bool found = std::any_of(parameters.begin(), parameters.end(),
                                   [&](const auto& parameter) { return parameter.first == name; });
    if (!found) {
      return CompileError("ParameterMissing", "MissingParameter",
                          Concat("the parameter $", name, " has no value"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Execute(const Plan& plan, const ExecuteOptions& options, ResultSink* sink,
                     ExecuteSummary* summary) {
  static const ValueMap kNone;
  EvalContext ctx;
  ctx.graph = options.transaction != nullptr ? options.transaction : options.view;
  ctx.transaction = options.transaction;
  ctx.parameters = options.parameters != nullptr ? options.parameters : &kNone;
  ctx.limits = options.limits;
  ctx.monotonic_nanos =
      options.monotonic_nanos ? options.monotonic_nanos : [] { return NowNanos(); };
  ctx.wall_nanos =
      options.wall_nanos ? options.wall_nanos : [] { return ClockNanos(CLOCK_REALTIME); };
  ctx.transaction_nanos = options.transaction_nanos;
  ctx.cancelled = options.cancelled;
  ctx.interrupted = options.interrupted;
  ctx.caller = options.caller;
  ctx.open_csv = options.open_csv;
  if (absl::Status status = CheckParameters(plan, *ctx.parameters); !status.ok()) return status;
  if (plan.writes && options.transaction == nullptr && !plan.explain) {
    return RuntimeError("SemanticError", "ReadOnly",
                        "this query writes, and the transaction is for reading only");
  }
  ctx.random_seed = options.random_seed;
  ctx.columns_from = options.columns_from;
  std::optional<SpillSpace> spill;
  ctx.pool = options.pool;
  if (ctx.pool != nullptr && ctx.pool->limit() != 0) {
    // No query gets more than all of them.
    const auto all = static_cast<size_t>(ctx.pool->limit());
    size_t& own = ctx.limits.memory_bytes;
    own = own == 0 ? all : std::min(own, all);
  }
  if (options.spill.enabled()) ctx.spill = &spill.emplace(options.spill);
  ctx.Start(&plan.names);
  if (plan.explain) {
    const Value text = Value::String(PlanText(plan));
    const Slot column = 0;
    sink->OnRows(&text, 1, 1, {&column, 1});
    return absl::OkStatus();
  }
  const std::unique_ptr<ParallelPlan> parallel = ParallelPlan::Make(plan, options.parallel, &ctx);
  const int width = plan.width + (parallel != nullptr ? parallel->extra_slots() : 0);
  JoinTables joins;
  Runtime runtime{&ctx, width, options.profile, &joins};
  Subplans subplans(runtime);
  ctx.subplans = &subplans;
  uint64_t rows_given = 0;
  PlanRunner runner(
      plan, &runtime,
      [&](Rows& rows, const std::vector<Slot>& columns) {
        if (plan.columns.empty()) return true;
        rows_given += rows.size();
        if (ctx.limits.result_rows != 0 && rows_given > ctx.limits.result_rows) {
          ctx.Fail(LimitError(
              absl::StatusCode::kResourceExhausted,
              Concat("the result has more than its limit of ", ctx.limits.result_rows, " rows")));
          return false;
        }
        return sink->OnRows(rows.data(), rows.width(), rows.size(), columns);
      },
      parallel.get());
  const std::vector<Value> first(static_cast<size_t>(width));
  runner.Run(first.data());
  if (summary != nullptr) {
    summary->counters = ctx.counters;
    summary->rows = rows_given;
    summary->spilled_bytes = spill ? spill->written() : 0;
  }
  return ctx.status();
}

}  // namespace pulse::cypher
