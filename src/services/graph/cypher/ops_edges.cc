// The operator that reads properties of all relationships of some types by columns, in the order in
// which the graph has them: a relationship itself is not looked at. Those that comparisons with
// constants do not hold for make no rows, and are not read where the graph knows that of many.
#include <algorithm>

#include "services/graph/cypher/match.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_filter.h"

namespace pulse::cypher {
namespace {

constexpr size_t kRows = 4096;

class EdgeColumnsOperator : public Operator {
 public:
  using Operator::Operator;

  bool Push(Rows& in) override {
    if (!ResolveTypes(step().types, ctx_, &types_) || !Prepare()) return !ctx_.failed();
    for (size_t i = 0; i < in.size(); ++i) {
      position_ = 0;
      while (true) {
        const size_t count = Read();
        if (count == 0) break;
        if (!Emit(in.Row(i), count)) return false;
      }
      if (ctx_.failed()) return false;
    }
    return Flush();
  }

 private:
  struct Property {
    Token key;
    Slot slot;
    Column column;
  };
  struct Test {
    size_t property;
    Op op;
    Value value;
  };

  // False: nothing can hold, or an error.
  bool Prepare() {
    properties_.clear();
    tests_.clear();
    bounds_.clear();
    for (size_t k = 0; k < step().keys.size(); ++k) {
      properties_.push_back({ctx_.Key(step().keys[k]), step().outputs[k].second, {}});
    }
    for (const Expr* e : step().predicates) {
      const bool left = e->kids[0]->kind == Expr::Kind::kVariable;
      const Slot slot = e->kids[left ? 0 : 1]->slot;
      const auto property = std::find_if(properties_.begin(), properties_.end(),
                                         [slot](const Property& p) { return p.slot == slot; });
      tests_.push_back({static_cast<size_t>(property - properties_.begin()),
                        left ? e->op : Mirrored(e->op),
                        Eval(*e->kids[left ? 1 : 0], nullptr, ctx_)});
      if (property->key == kNoToken) return false;  // null, whatever it is compared with
      AddBounds(property->key, tests_.back());
    }
    return !ctx_.failed();
  }

  // What holds wherever the test does.
  void AddBounds(Token key, const Test& test) {
    const bool equal = test.op == Op::kEq;
    if (equal || test.op == Op::kGt || test.op == Op::kGe) {
      bounds_.push_back({key, {Bound::Kind::kAtLeast, test.value}});
    }
    if (equal || test.op == Op::kLt || test.op == Op::kLe) {
      bounds_.push_back({key, {Bound::Kind::kAtMost, test.value}});
    }
  }

  // The next relationships' properties; 0: the end, or an error.
  size_t Read() {
    size_t limit = kRows;
    if (!bounds_.empty()) {
      limit = std::min(limit, ctx_.graph->SkipEdges(types_, bounds_, &position_));
    }
    size_t rows = 0;
    Scanned scanned = Scanned::kUnlike;
    // A layer that changes meanwhile may change how the properties behind it are scanned, and so
    // where a scan stops; but once.
    for (int tries = 0; tries < 3 && scanned == Scanned::kUnlike; ++tries) {
      scanned = ScanProperties(limit, &rows);
      if (ctx_.failed()) return 0;
    }
    if (scanned == Scanned::kUnlike) {
      ctx_.Fail(absl::InternalError("scans of one graph's relationships are not alike"));
      return 0;
    }
    if (scanned == Scanned::kNone) {
      edges_.resize(kRows);
      const auto count = ctx_.graph->ScanEdges(types_, &position_, edges_);
      if (!ctx_.Check(count.status())) return 0;
      rows = *count;
    }
    return ctx_.Tick(rows) ? rows : 0;
  }

  // All properties of the next relationships, each by a scan of its own.
  enum class Scanned { kNone, kAll, kUnlike };
  Scanned ScanProperties(size_t limit, size_t* rows) {
    Scanned scanned = Scanned::kNone;
    uint64_t next = position_;
    for (Property& property : properties_) {
      if (property.key == kNoToken) continue;
      next = position_;
      const auto count =
          ctx_.graph->ScanEdgeProperty(types_, property.key, &next, limit, &property.column);
      if (!ctx_.Check(count.status())) return Scanned::kUnlike;
      if (scanned == Scanned::kAll && *count != *rows) return Scanned::kUnlike;
      scanned = Scanned::kAll;
      *rows = *count;
    }
    if (scanned == Scanned::kAll) position_ = next;
    return scanned;
  }

  bool Emit(const Value* base, size_t count) {
    pass_.assign(count, 1);
    for (const Test& test : tests_) {
      ApplyComparison(test.op, properties_[test.property].column, test.value, pass_);
    }
    for (size_t i = 0; i < count; ++i) {
      if (pass_[i] == 0) continue;
      Value* row = NewRow(base);
      if (row == nullptr) return false;
      for (Property& property : properties_) {
        row[property.slot] = property.key == kNoToken ? Value() : ValueAt(property.column, i);
      }
    }
    return !ctx_.failed();
  }

  std::vector<Token> types_;
  std::vector<Property> properties_;
  std::vector<Test> tests_;
  std::vector<PropertyBound> bounds_;  // some of the tests
  std::vector<uint8_t> pass_;
  std::vector<EdgeRef> edges_;  // where none of the properties has a name in the graph
  uint64_t position_ = 0;
};

}  // namespace

std::unique_ptr<Operator> MakeEdgeColumnsOperator(const Step& step, Runtime* runtime,
                                                  Operator* next) {
  return std::make_unique<EdgeColumnsOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
