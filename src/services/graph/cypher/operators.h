// The operators that a plan's steps become when it runs. Rows are pushed through them in batches;
// each has its own state, and no other operator's. One thread; several threads of an execution have
// operators of their own.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "services/graph/cypher/join_table.h"
#include "services/graph/cypher/parallel.h"
#include "services/graph/cypher/plan.h"
#include "services/graph/expressions/eval.h"
#include "services/graph/expressions/rows.h"

namespace pulse::cypher {

// What the operators of one execution share.
struct Runtime {
  EvalContext* context = nullptr;
  int width = 0;
  Profile* profile = nullptr;  // null: nothing is counted
  JoinTables* joins = nullptr;
  const Value* const* outer = nullptr;  // within a PlanRunner: the row that it runs for
};

class Operator {
 public:
  Operator(const Step* step, Runtime* runtime, Operator* next)
      : step_(step),
        ctx_(*runtime->context),
        runtime_(runtime),
        next_(next),
        out_(runtime->width) {}
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  virtual ~Operator() = default;

  // Takes rows, which it may change. False: no more are wanted, or something failed.
  virtual bool Push(Rows& in) = 0;
  // No more rows come.
  virtual bool Finish() { return next_->Finish(); }
  // Ready for a new input.
  virtual void Reset() { out_.clear(); }

 protected:
  // A copy of `base` in the output; full batches go on. Null: stop.
  Value* NewRow(const Value* base) {
    if (out_.full() && !Flush()) return nullptr;
    if (!ctx_.Tick()) return nullptr;
    Value* const row = step_->all_live ? out_.Add(base) : out_.Add(base, step_->live);
    if (const size_t held = out_.Held(); held != held_) {
      if (!ctx_.Charge(static_cast<int64_t>(held - std::exchange(held_, held)))) return nullptr;
    }
    return row;
  }
  // The end of who gives rows at its own end. Also who wants no more of them, as LIMIT, is told:
  // who sorts or counts behind it gives its rows then.
  bool FlushAndFinish() {
    Flush();
    return !ctx_.failed() && next_->Finish();
  }
  bool Flush() {
    if (out_.empty()) return !ctx_.failed();
    const bool more = next_->Push(out_);
    out_.clear();
    return more && !ctx_.failed();
  }
  // After a row of values that were in a file, which nobody charges any more: of large ones fewer
  // go on at once.
  bool FlushIfLarge(size_t bytes) {
    large_ = out_.size() == 1 ? bytes : large_ + bytes;
    return large_ < ctx_.limits.memory_bytes / 16 || Flush();
  }
  const Step& step() const { return *step_; }

  const Step* const step_;
  EvalContext& ctx_;
  Runtime* const runtime_;
  Operator* const next_;
  Rows out_;

 private:
  size_t held_ = 0;   // by out_, as it was charged; it keeps its memory
  size_t large_ = 0;  // by the values of out_, for FlushIfLarge()
};

// The operators of some steps, from the first to a sink that lives elsewhere.
class Pipeline {
 public:
  // `parallel` and `sections`: of these steps, which begin a branch. Null: one thread runs all.
  Pipeline(std::span<const Step> steps, Runtime* runtime, Operator* sink,
           const ParallelPlan* parallel = nullptr, std::span<const ParallelSection> sections = {});
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  // Runs one row through, to the end, and gets ready for the next.
  void RunOne(const Value* row);
  // The same for a batch.
  void Run(Rows& rows);
  // The same for several batches: Push() for each, between Begin() and End().
  void Begin();
  bool Push(Rows& rows) { return head_->Push(rows); }
  void End();

 private:
  Operator* head_;
  std::vector<std::unique_ptr<Operator>> operators_;
  Rows input_;
  ReadCounts* outer_reads_ = nullptr;  // of who runs it, and takes its rows
};

std::unique_ptr<Operator> MakeOperator(const Step& step, Runtime* runtime, Operator* next);
// By kind; nullptr where the kind is another file's.
std::unique_ptr<Operator> MakeMatchOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeScanOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeIntersectOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeIntoOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeQuantifiedOperator(const Step& step, Runtime* runtime,
                                                 Operator* next);
std::unique_ptr<Operator> MakeShortestOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeFilterOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeTableOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeLoadCsvOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeDistinctOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeSortOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeBatchesOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeUpdateOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeAggregateOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeCountOperator(const Step& step, Runtime* runtime, Operator* next);
std::unique_ptr<Operator> MakeEdgeColumnsOperator(const Step& step, Runtime* runtime,
                                                  Operator* next);
std::unique_ptr<Operator> MakeColumnOperator(const Step& step, Runtime* runtime, Operator* next);

// Hands every batch to a function.
template <typename Function>
class SinkOperator : public Operator {
 public:
  SinkOperator(Runtime* runtime, Function function)
      : Operator(nullptr, runtime, nullptr), function_(std::move(function)) {}
  bool Push(Rows& in) override { return function_(in) && !ctx_.failed(); }
  bool Finish() override { return true; }

 private:
  Function function_;
};
template <typename Function>
std::unique_ptr<Operator> MakeSink(Runtime* runtime, Function function) {
  return std::make_unique<SinkOperator<Function>>(runtime, std::move(function));
}

// Empties it; a large one gives its memory back, as a small one is filled again at once.
template <typename T>
void Forget(std::vector<T>* values) {
  constexpr size_t kSmall = 64 << 10;
  values->clear();
  if (values->capacity() * sizeof(T) > kSmall) std::vector<T>().swap(*values);
}

// A set of tuples of values, each equal to none before; what DISTINCT is. Charges memory for them.
class TupleSet {
 public:
  explicit TupleSet(size_t width) : width_(width) {}
  // The index of the tuple, and whether it is new. `values` are moved from where it is.
  std::pair<size_t, bool> Insert(std::vector<Value>* values, EvalContext& context) {
    return Insert(HashOf(*values), values->data(), context);
  }
  // With the hash of the tuple, so that others can be asked of memory meanwhile.
  std::pair<size_t, bool> Insert(uint64_t hash, Value* values, EvalContext& context);
  // The index of a tuple that is there.
  std::optional<size_t> Find(uint64_t hash, const Value* values) const;
  static uint64_t HashOf(std::span<const Value> values) {
    uint64_t hash = 0;
    for (const Value& v : values) hash = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15u + Hash(v);
    return hash;
  }
  // Brings into the cache where the tuple's number is, then the tuple.
  void PrefetchPlace(uint64_t hash) const {
    if (!index_.empty()) __builtin_prefetch(&index_[hash & (index_.size() - 1)]);
  }
  void PrefetchTuple(uint64_t hash) const {
    const uint32_t number = index_.empty() ? 0 : index_[hash & (index_.size() - 1)];
    if (number == 0) return;
    __builtin_prefetch(&hashes_[number - 1]);
    __builtin_prefetch(Tuple(number - 1));
  }
  const Value* Tuple(size_t i) const { return values_.data() + i * width_; }
  Value* Tuple(size_t i) { return values_.data() + i * width_; }
  size_t size() const { return hashes_.size(); }
  int64_t charged() const { return charged_; }
  void Clear(EvalContext& context);

 private:
  void Grow();
  bool IsTuple(size_t tuple, uint64_t hash, const Value* values) const;

  size_t width_;
  int64_t charged_ = 0;
  std::vector<Value> values_;
  std::vector<uint64_t> hashes_;  // of each tuple
  // Numbers of tuples, from 1 on, by their hash, each in the first free place from there; 0 is
  // free.
  std::vector<uint32_t> index_;
};

// Runs the branches of a plan, with what UNION says of them.
class PlanRunner {
 public:
  // `consume`: takes rows and the slots of the columns.
  using Consume = std::function<bool(Rows&, const std::vector<Slot>&)>;
  // `parallel`: of this plan; null: one thread runs it.
  PlanRunner(const Plan& plan, Runtime* runtime, Consume consume,
             const ParallelPlan* parallel = nullptr);
  void Run(const Value* row);

 private:
  const Value* row_ = nullptr;  // before what points to it
  Runtime runtime_;
  const Consume consume_;
  // Of UNION without ALL: rows of all branches, which have nothing but the columns.
  Runtime united_runtime_;
  Rows united_;
  std::unique_ptr<Operator> united_sink_;
  std::unique_ptr<Pipeline> unite_;
  std::vector<std::unique_ptr<Operator>> sinks_;
  std::vector<std::unique_ptr<Pipeline>> pipelines_;
};

// Runs subqueries in expressions; their operators are made once for an execution, or for a thread
// of it.
std::unique_ptr<SubplanRunner> MakeSubplans(const Runtime& runtime);

// The number of SKIP or LIMIT (`what`), on a row of nothing; false: it is none.
bool CountOf(const Expr& expr, std::string_view what, std::vector<Value>* scratch,
             EvalContext& context, uint64_t* out);

// How many rows a step with top_limit wants, those that it skips among them. `width`: of rows.
bool CountOfTop(const Step& step, int width, EvalContext& context, uint64_t* out);

// Whether a key of an aggregation does not tell groups apart: a property beside the variable that
// it is of. It is read once for each group.
bool IsImpliedKey(const Step& aggregate, const Expr& key);

// The path of a part whose nodes and relationships are in the row. False, and null: one of them is
// null.
bool BuildPath(const PatternPart& part, const Value* row, Value* out);

// Changes an entity as SET and REMOVE say; on all rows. ops_update.cc
void ApplySet(const std::vector<SetOp>& ops, Value* row, EvalContext& context);

}  // namespace pulse::cypher
