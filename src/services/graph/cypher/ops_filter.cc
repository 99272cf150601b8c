// Rows that predicates hold for.
#include <vector>

#include "services/graph/cypher/operators.h"

namespace pulse::cypher {
namespace {

class FilterOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    if (!KeepLabelled(in)) return false;
    size_t kept = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!ctx_.Tick()) return false;
      bool holds = true;
      for (const Expr* predicate : step().predicates) {
        if (predicate == labels_done_) continue;
        holds = Holds(*predicate, in.Row(i), ctx_);
        if (!holds) break;
      }
      if (holds) in.Move(i, kept++);
    }
    if (ctx_.failed()) return false;
    in.Resize(kept);
    return kept == 0 || next_->Push(in);
  }

 private:
  // Where the first predicate asks for labels of a node: keeps the rows that have them, by one call
  // of the store for each label, which can then fetch many nodes at the same time.
  bool KeepLabelled(Rows& in) {
    labels_done_ = nullptr;
    const auto& predicates = step().predicates;
    if (predicates.empty() || predicates[0]->kind != Expr::Kind::kHasLabels) return true;
    const Expr& e = *predicates[0];
    if (e.kids[0]->kind != Expr::Kind::kVariable) return true;
    const Slot slot = e.kids[0]->slot;
    nodes_.clear();
    for (size_t i = 0; i < in.size(); ++i) {
      const Value& value = in.Row(i)[slot];
      if (!value.is_node()) return true;  // row by row: null, or a relationship
      nodes_.push_back(value.as_node());
    }
    has_.resize(nodes_.size());
    for (size_t name = 0; name < e.names.size(); ++name) {
      const Token label = ctx_.Label(e.slot2 + static_cast<int>(name));
      size_t kept = 0;
      if (label != kNoToken) {
        if (!ctx_.Check(ctx_.graph->HasLabel(label, nodes_, has_))) return false;
        for (size_t i = 0; i < nodes_.size(); ++i) {
          if (has_[i] == 0) continue;
          nodes_[kept] = nodes_[i];
          in.Move(i, kept++);
        }
      }
      in.Resize(kept);
      nodes_.resize(kept);
      has_.resize(kept);
    }
    labels_done_ = &e;
    return true;
  }

  std::vector<NodeId> nodes_;
  std::vector<uint8_t> has_;
  const Expr* labels_done_ = nullptr;
};

}  // namespace

std::unique_ptr<Operator> MakeFilterOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<FilterOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
