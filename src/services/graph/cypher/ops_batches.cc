// CALL { … } IN TRANSACTIONS: runs a subquery for each row, and commits after each so many of them.
// All rows before it were read when it begins, so that nothing reads on in a transaction that is
// over.
#include <unordered_set>
#include <utility>

#include "services/graph/cypher/operators.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

constexpr uint64_t kDefaultRows = 1000;
// Of a batch that lost against other transactions.
constexpr int kRetries = 20;

class BatchesOperator : public Operator {
 public:
  BatchesOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next),
        batch_(runtime->width),
        results_(runtime->width),
        runner_(*step->subplan, runtime, [this](Rows& rows, const std::vector<Slot>& columns) {
          return AddResults(rows, columns);
        }) {}

  bool Push(Rows& in) override {
    if (size_ == 0 && !ReadSize()) return false;
    for (size_t i = 0; i < in.size() && more_; ++i) {
      if (!Keep(in.Row(i), &batch_)) return false;
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
    out_.clear();
  }

 private:
  bool ReadSize() {
    size_ = kDefaultRows;
    if (step().expr == nullptr) return true;
    std::vector<Value> scratch(static_cast<size_t>(runtime_->width));
    if (!CountOf(*step().expr, "OF … ROWS", &scratch, ctx_, &size_)) return false;
    if (size_ == 0) ctx_.ArgumentError("NumberOutOfRange", "OF … ROWS needs one row at least");
    return !ctx_.failed();
  }

  bool Keep(const Value* row, Rows* rows) {
    int64_t bytes = 0;
    const Value* const kept = rows->Add(row);
    for (size_t slot = 0; slot < rows->width(); ++slot) {
      bytes += static_cast<int64_t>(kept[slot].Bytes());
    }
    charged_ += bytes;
    return ctx_.Charge(bytes);
  }
  void Forget() {
    batch_ = Rows(runtime_->width);
    results_ = Rows(runtime_->width);
    ctx_.Charge(-std::exchange(charged_, 0));
  }

  bool AddResults(Rows& rows, const std::vector<Slot>& columns) {
    if (step_->unit) return true;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!Keep(outer_, &results_)) return false;
      Value* const out = results_.Row(results_.size() - 1);
      for (const auto& [column, slot] : step_->outputs) {
        out[slot] = rows.Row(i)[columns[static_cast<size_t>(column)]];
      }
    }
    return true;
  }

  // What the rows of a batch refer to and earlier ones have deleted. What the batch itself deletes
  // comes back where it is run again.
  void MarkDeleted() {
    ctx_.deleted_nodes.clear();
    ctx_.deleted_edges.clear();
    if (nodes_.empty() && edges_.empty()) return;
    for (size_t i = 0; i < batch_.size(); ++i) {
      for (size_t slot = 0; slot < batch_.width(); ++slot) {
        const Value& v = batch_.Row(i)[slot];
        if (v.is_node() && nodes_.contains(v.as_node())) ctx_.deleted_nodes.insert(v.as_node());
        if (v.is_edge() && edges_.contains(v.as_edge().id)) {
          ctx_.deleted_edges.insert(v.as_edge().id);
        }
      }
    }
  }

  bool RunBatch() {
    nodes_.swap(ctx_.deleted_nodes);
    edges_.swap(ctx_.deleted_edges);
    const bool ran = CommitBatch();
    nodes_.merge(ctx_.deleted_nodes);
    edges_.merge(ctx_.deleted_edges);
    nodes_.swap(ctx_.deleted_nodes);
    edges_.swap(ctx_.deleted_edges);
    nodes_.clear();
    edges_.clear();
    if (!ran) return false;
    Rows& rows = step().unit ? batch_ : results_;
    for (size_t i = 0; i < rows.size() && more_; ++i) more_ = NewRow(rows.Row(i)) != nullptr;
    Forget();
    return Flush() && more_;
  }

  bool CommitBatch() {
    const Counters before = ctx_.counters;
    for (int attempt = 0;; ++attempt) {
      MarkDeleted();
      results_.clear();
      for (size_t i = 0; i < batch_.size(); ++i) {
        outer_ = batch_.Row(i);
        runner_.Run(outer_);
        if (ctx_.failed()) return false;
      }
      const absl::Status committed = ctx_.transaction->CommitAndGoOn();
      if (committed.ok()) return true;
      if (!absl::IsAborted(committed) || attempt == kRetries) return ctx_.Check(committed);
      ctx_.counters = before;
      if (!ctx_.Tick()) return false;
    }
  }

  Rows batch_, results_;
  int64_t charged_ = 0;
  uint64_t size_ = 0;  // of a batch; 0: not known yet
  PlanRunner runner_;
  const Value* outer_ = nullptr;
  bool more_ = true;
  std::unordered_set<NodeId> nodes_;  // that earlier batches have deleted
  std::unordered_set<EdgeId> edges_;
};

}  // namespace

std::unique_ptr<Operator> MakeBatchesOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<BatchesOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
