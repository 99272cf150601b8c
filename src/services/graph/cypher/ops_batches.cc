// CALL { … } IN TRANSACTIONS: runs a subquery for each row, and commits after each so many of them.
// With ON ERROR CONTINUE or BREAK an error gives up its batch, whose rows have null for what the
// subquery returns; REPORT STATUS gives each row what became of its batch.
// All rows before it were read when it begins, so that nothing reads on in a transaction that is
// over.
#include <optional>
#include <unordered_set>
#include <utility>

#include "services/graph/cypher/operators.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

constexpr uint64_t kDefaultRows = 1000;
// Of a batch that lost against other transactions.
constexpr int kRetries = 20;

class BatchesOperator : public Operator {
 public:
  BatchesOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), batch_(runtime->width), results_(runtime->width) {
    MakeRunner();
  }

  bool Push(Rows& in) override {
    if (size_ == 0 && !ReadSize()) return false;
    for (size_t i = 0; i < in.size() && more_; ++i) {
      if (!ChargeRow(batch_.Add(in.Row(i)), &charged_)) return false;
      if (batch_.size() == size_ && !RunBatch()) return false;
    }
    return more_;
  }
  bool Finish() override {
    if (!ctx_.failed() && !batch_.empty()) RunBatch();
    return FlushAndFinish();
  }
  void Reset() override {
    Forget();
    more_ = true;
    broken_ = false;
    out_.clear();
  }

 private:
  void MakeRunner() {
    runner_.emplace(
        *step_->subplan, runtime_,
        [this](Rows& rows, const std::vector<Slot>& columns) { return AddResults(rows, columns); });
  }

  bool ReadSize() {
    size_ = kDefaultRows;
    if (step().expr == nullptr) return true;
    std::vector<Value> scratch(static_cast<size_t>(runtime_->width));
    if (!CountOf(*step().expr, "OF … ROWS", &scratch, ctx_, &size_)) return false;
    if (size_ == 0) ctx_.ArgumentError("NumberOutOfRange", "OF … ROWS needs one row at least");
    return !ctx_.failed();
  }

  bool ChargeRow(const Value* kept, int64_t* charged) {
    int64_t bytes = 0;
    for (size_t slot = 0; slot < batch_.width(); ++slot) {
      bytes += static_cast<int64_t>(kept[slot].Bytes());
    }
    *charged += bytes;
    return ctx_.Charge(bytes);
  }
  void Forget() {
    batch_ = Rows(runtime_->width);
    ctx_.Charge(-std::exchange(charged_, 0));
    ForgetResults();
  }
  void ForgetResults() {
    results_ = Rows(runtime_->width);
    ctx_.Charge(-std::exchange(results_charged_, 0));
  }

  bool AddResults(Rows& rows, const std::vector<Slot>& columns) {
    if (step_->unit) return true;
    for (size_t i = 0; i < rows.size(); ++i) {
      Value* const out = results_.Add(outer_);
      for (const auto& [column, slot] : step_->outputs) {
        out[slot] = rows.Row(i)[columns[static_cast<size_t>(column)]];
      }
      if (!ChargeRow(out, &results_charged_)) return false;
    }
    return true;
  }

  // What the rows of a batch refer to and earlier ones have deleted. What the batch itself deletes
  // comes back where it is run again.
  void MarkDeleted() {
    ctx_.ForgetDeleted();
    if (nodes_.empty() && edges_.empty()) return;
    for (size_t i = 0; i < batch_.size(); ++i) {
      for (size_t slot = 0; slot < batch_.width(); ++slot) MarkDeleted(batch_.Row(i)[slot]);
    }
  }
  void MarkDeleted(NodeId node) {
    if (nodes_.contains(node)) ctx_.deleted_nodes.insert(node);
  }
  void MarkDeleted(const EdgeRef& edge) {
    if (edges_.contains(edge.id)) ctx_.deleted_edges.insert(edge.id);
  }
  void MarkDeleted(const Value& v) {
    if (v.is_node()) MarkDeleted(v.as_node());
    if (v.is_edge()) MarkDeleted(v.as_edge());
    if (v.is_path()) {
      for (const NodeId node : v.as_path().nodes) MarkDeleted(node);
      for (const EdgeRef& edge : v.as_path().edges) MarkDeleted(edge);
    }
    if (v.is_list()) {
      for (const Value& item : v.as_list()) MarkDeleted(item);
    }
    if (v.is_map()) {
      for (const auto& item : v.as_map()) MarkDeleted(item.second);
    }
  }

  bool RunBatch() {
    nodes_.swap(ctx_.deleted_nodes);
    edges_.swap(ctx_.deleted_edges);
    const size_t before = nodes_.size() + edges_.size();
    const bool started = !broken_;
    absl::Status error;
    bool ran = started ? CommitBatch(&error) : AddNulls();
    broken_ = broken_ || (!error.ok() && step().on_error == OnError::kBreak);
    nodes_.merge(ctx_.deleted_nodes);
    edges_.merge(ctx_.deleted_edges);
    ctx_.ForgetDeleted();
    // They stay until the statement ends.
    const auto more = static_cast<int64_t>(nodes_.size() + edges_.size() - before);
    ran = ctx_.Charge(more * EvalContext::kBytesOfId) && ran;
    nodes_.swap(ctx_.deleted_nodes);
    edges_.swap(ctx_.deleted_edges);
    nodes_.clear();
    edges_.clear();
    if (!ran) return false;
    Rows& rows = step().unit ? batch_ : results_;
    if (step().status >= 0) {
      const Value status = StatusOf(started, error);
      for (size_t i = 0; i < rows.size(); ++i) rows.Row(i)[step().status] = status;
    }
    for (size_t i = 0; i < rows.size() && more_; ++i) more_ = NewRow(rows.Row(i)) != nullptr;
    Forget();
    return Flush() && more_;
  }

  // False: the statement ends. `*error`: why the batch was given up.
  bool CommitBatch(absl::Status* error) {
    const Counters before = ctx_.counters;
    for (int attempt = 0;; ++attempt) {
      MarkDeleted();
      ForgetResults();
      const int64_t charged = ctx_.charged();
      for (size_t i = 0; i < batch_.size() && !ctx_.failed(); ++i) {
        outer_ = batch_.Row(i);
        runner_->Run(outer_);
      }
      const bool ran = !ctx_.failed();
      const absl::Status committed = ran ? ctx_.transaction->CommitAndGoOn() : ctx_.status();
      if (committed.ok()) return true;
      ctx_.counters = before;
      if (ran && absl::IsAborted(committed) && attempt < kRetries) {
        if (!ctx_.Tick()) return false;
        continue;
      }
      if (!GoesOnAfter(committed)) return ctx_.Check(committed);
      *error = committed;
      ForgetResults();
      // Operators that an error has ended hold what they had collected: what to delete, for
      // example.
      MakeRunner();
      ctx_.ForgetDeleted();
      ctx_.Charge(charged - ctx_.charged());
      ctx_.ForgetFailure();  // last: what is charged may be over the limit until here
      return ctx_.Check(ctx_.transaction->RollbackAndGoOn()) && AddNulls();
    }
  }
  // Who kills a statement, or limits its time, means all of it.
  bool GoesOnAfter(const absl::Status& error) const {
    return step().on_error != OnError::kFail && !absl::IsCancelled(error) &&
           !absl::IsDeadlineExceeded(error);
  }

  // Rows of a batch that was given up, or not begun.
  bool AddNulls() {
    if (step().unit) return true;
    for (size_t i = 0; i < batch_.size(); ++i) {
      Value* const out = results_.Add(batch_.Row(i));
      for (const auto& [column, slot] : step().outputs) out[slot] = Value();
      if (!ChargeRow(out, &results_charged_)) return false;
    }
    return true;
  }

  Value StatusOf(bool started, const absl::Status& error) {
    const bool failed = !error.ok();
    ValueMap map;
    map.emplace_back("committed", Value::Bool(started && !failed));
    map.emplace_back("errorMessage",
                     failed ? Value::String(std::string(error.message())) : Value());
    map.emplace_back("started", Value::Bool(started));
    map.emplace_back("transactionId",
                     started ? Value::String(Concat("batch-", ++begun_)) : Value());
    return Value::Map(std::move(map));
  }

  Rows batch_, results_;
  int64_t charged_ = 0, results_charged_ = 0;
  uint64_t size_ = 0;  // of a batch; 0: not known yet
  std::optional<PlanRunner> runner_;
  const Value* outer_ = nullptr;
  bool more_ = true;
  bool broken_ = false;               // by an error, after which ON ERROR BREAK begins no more
  uint64_t begun_ = 0;                // transactions whose status was reported
  std::unordered_set<NodeId> nodes_;  // that earlier batches have deleted
  std::unordered_set<EdgeId> edges_;
};

}  // namespace

std::unique_ptr<Operator> MakeBatchesOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<BatchesOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
