// Rows that predicates hold for.
#include <algorithm>
#include <optional>
#include <vector>

#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_filter.h"

namespace pulse::cypher {
namespace {

class FilterOperator : public Operator {
 public:
  FilterOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), eval_(&ctx_) {
    for (const Expr* predicate : step->predicates) {
      Slot slot = -1;
      if (!IsPurePredicate(*predicate, &slot)) {
        single_.push_back(predicate);
        continue;
      }
      const auto found = std::find_if(batched_.begin(), batched_.end(),
                                      [slot](const Batched& b) { return b.slot == slot; });
      Batched& batched = found != batched_.end() ? *found : batched_.emplace_back(slot);
      batched.predicates.push_back(predicate);
    }
    for (Batched& batched : batched_) batched.filter.emplace(batched.predicates);
  }

  bool Push(Rows& in) override {
    for (Batched& batched : batched_) {
      if (!KeepBatched(&batched, in)) return false;
    }
    if (!single_.empty()) Keep(single_, in);
    if (ctx_.failed() || !ctx_.Tick(in.size())) return false;
    return in.empty() || next_->Push(in);
  }

 private:
  // The predicates on one variable.
  struct Batched {
    explicit Batched(Slot s) : slot(s) {}
    Slot slot;
    std::vector<const Expr*> predicates;
    std::optional<BatchFilter> filter;
  };

  void Keep(const std::vector<const Expr*>& predicates, Rows& in) {
    if (in.size() >= ctx_.columns_from) return KeepTrue(predicates, in);
    size_t kept = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!ctx_.Tick()) return;
      const bool holds = std::all_of(predicates.begin(), predicates.end(),
                                     [&](const Expr* e) { return Holds(*e, in.Row(i), ctx_); });
      if (holds) in.Move(i, kept++);
    }
    in.Resize(kept);
  }

  // One predicate after the other, each on the rows that are left.
  void KeepTrue(const std::vector<const Expr*>& predicates, Rows& in) {
    const auto all = eval_.All(in.size());
    selected_.assign(all.begin(), all.end());
    for (const Expr* predicate : predicates) {
      if (selected_.empty() || !eval_.Truths(*predicate, {.rows = &in}, selected_, &truths_) ||
          !ctx_.Tick(selected_.size())) {
        break;
      }
      size_t kept = 0;
      for (size_t i = 0; i < selected_.size(); ++i) {
        if (truths_[i] == 1) selected_[kept++] = selected_[i];
      }
      selected_.resize(kept);
    }
    MoveSelected(in);
  }

  void MoveSelected(Rows& in) {
    for (size_t kept = 0; kept < selected_.size(); ++kept) {
      if (step().all_live) {
        in.Move(selected_[kept], kept);
      } else {
        in.Move(selected_[kept], kept, step().live);
      }
    }
    in.Resize(selected_.size());
  }

  // One call of the graph for all rows, where each has a node, or each a relationship, that the
  // query did not delete; else row by row.
  bool KeepBatched(Batched* batched, Rows& in) {
    bool done = false;
    if (ctx_.deleted_nodes.empty() && ctx_.deleted_edges.empty()) {
      if (All(batched->slot, in, Type::kNode)) {
        nodes_.resize(in.size());
        for (size_t i = 0; i < in.size(); ++i) nodes_[i] = in.Row(i)[batched->slot].as_node();
        if (!batched->filter->Select(nodes_, ctx_, &selected_)) return false;
        done = true;
      } else if (!batched->filter->has_labels() && All(batched->slot, in, Type::kEdge)) {
        edges_.resize(in.size());
        for (size_t i = 0; i < in.size(); ++i) edges_[i] = in.Row(i)[batched->slot].as_edge();
        if (!batched->filter->Select(edges_, ctx_, &selected_)) return false;
        done = true;
      }
    }
    if (!done) {
      Keep(batched->predicates, in);
      return !ctx_.failed();
    }
    MoveSelected(in);
    return true;
  }

  static bool All(Slot slot, Rows& in, Type type) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (in.Row(i)[slot].type() != type) return false;
    }
    return true;
  }

  BatchEval eval_;
  std::vector<int8_t> truths_;
  std::vector<Batched> batched_;
  std::vector<const Expr*> single_;
  std::vector<NodeId> nodes_;
  std::vector<EdgeRef> edges_;
  std::vector<uint32_t> selected_;
};

}  // namespace

std::unique_ptr<Operator> MakeFilterOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<FilterOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
