// The operator that finds nodes: by an index, by their numbers, by a table that it makes, by
// labels, or all of them.
#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "services/graph/cypher/node_source.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_filter.h"

namespace pulse::cypher {
namespace {

// The node whose id() or elementId() the value may be; the predicate tells which of them it is.
std::optional<NodeId> NodeNumber(const Value& value) {
  if (value.is_int() && value.as_int() >= 0) return static_cast<NodeId>(value.as_int());
  constexpr double kBeyond = 9223372036854775808.0;
  if (value.is_float() && value.as_float() >= 0 && value.as_float() < kBeyond) {
    return static_cast<NodeId>(value.as_float());
  }
  if (!value.is_string()) return std::nullopt;
  const std::string_view text = value.as_string();
  NodeId node = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), node);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return node;
}

class ScanOperator : public Operator {
 public:
  ScanOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next),
        filter_(step->predicates),
        by_table_(step->sought_as == Step::Sought::kTable),
        eval_(&ctx_),
        operands_(step->sought.size()) {}

  bool Push(Rows& in) override {
    const bool scans = by_table_ || step().sought.empty();
    for (size_t i = 0; i < in.size() && !ctx_.failed(); ++i) {
      if (by_table_ && FindTable()) return Join(in, i) && Flush();
      if (!(scans ? Scan(in.Row(i)) : Seek(in.Row(i)))) return false;
    }
    return Flush();
  }

  void Reset() override {
    Operator::Reset();
    if (!by_table_ || ctx_.transaction == nullptr) return;
    // The graph may be another one until the next input.
    if (std::exchange(table_, nullptr) != nullptr) runtime_->joins->Forget(&step(), ctx_);
    looked_ = 0;
    no_table_ = false;
  }

 private:
  struct Hashed {
    uint64_t hash;
    const Value* value;
  };

  bool Scan(Value* row) {
    return ScanAll(row, [this, row](std::span<const NodeId> nodes) {
      return std::all_of(nodes.begin(), nodes.end(),
                         [this, row](NodeId node) { return Emit(row, node); });
    });
  }

  // `give` takes the nodes, some at a time; it says whether more are wanted.
  template <typename Give>
  bool ScanAll(Value* row, const Give& give) {
    before_.clear();
    for (const int name : step().any_of) {
      const Token label = ctx_.Label(name);
      if (label == kNoToken) continue;
      if (!ScanLabel(label, row, give)) return false;
      before_.push_back(label);
    }
    if (!step().any_of.empty()) return true;
    Token label = kNoToken;
    if (step().label >= 0) {
      label = ctx_.Label(step().label);
      if (label == kNoToken) return true;
    }
    return ScanLabel(label, row, give);
  }

  // Whether the step has a table, which is made when scans have looked at as many nodes as there
  // are: where one row is all that is wanted, they end before.
  bool FindTable() {
    if (table_ != nullptr) return true;
    if (looked_ == 0 || no_table_ || ctx_.failed()) return false;
    const Token label = step().label >= 0 ? ctx_.Label(step().label) : kNoToken;
    if (looked_ < ctx_.graph->NodeCount(label) && step().any_of.empty()) return false;
    const auto fill = [this](JoinTable* table) {
      FindKeys();
      if (std::find(keys_.begin(), keys_.end(), kNoToken) != keys_.end()) return true;
      // The bounds of a scan by table would be of one row; it has none.
      return ScanAll(nullptr,
                     [&](std::span<const NodeId> nodes) { return table->Add(nodes, keys_, ctx_); });
    };
    table_ = runtime_->joins->Get(&step(), ctx_, fill);
    no_table_ = table_ == nullptr;
    return !no_table_;
  }

  // The predicates behind look at what is found: the hashes of others may be the same.
  bool Join(Rows& in, size_t first) {
    if (table_->empty()) return true;
    const auto rows = eval_.All(in.size()).subspan(first);
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (!eval_.Evaluate(*step().sought[k], {.rows = &in}, rows, &operands_[k])) return false;
    }
    for (size_t i = first; i < in.size(); ++i) {
      values_.clear();
      for (const Operand& operand : operands_) values_.push_back(operand.At(i - first));
      if (std::any_of(values_.begin(), values_.end(), [](const Value& v) { return v.is_null(); }))
        continue;
      const Value* row = in.Row(i);
      if (!table_->Find(TupleSet::HashOf(values_), [&](NodeId node) { return Emit(row, node); })) {
        return false;
      }
    }
    return ctx_.Tick(in.size());
  }

  void FindKeys() {
    keys_.clear();
    for (const int name : step().keys) keys_.push_back(ctx_.Key(name));
  }

  // Drops the nodes that the scan of another label has given.
  bool DropSeen(size_t* count) {
    for (const Token label : before_) {
      seen_.assign(*count, 0);
      const std::span<const NodeId> nodes(nodes_.data(), *count);
      if (!ctx_.Check(ctx_.graph->HasLabel(label, nodes, seen_)) || !ctx_.Tick(*count))
        return false;
      size_t kept = 0;
      for (size_t i = 0; i < *count; ++i) {
        if (seen_[i] == 0) nodes_[kept++] = nodes_[i];
      }
      *count = kept;
    }
    return true;
  }

  template <typename Give>
  bool ScanLabel(Token label, Value* row, const Give& give) {
    if (!source_.Begin(step(), label, row, ctx_)) return false;
    while (true) {
      nodes_.resize(kGraphBatch);
      auto count = source_.Next(*ctx_.graph, nodes_);
      if (!ctx_.Check(count.status())) return false;
      if (*count == 0) return true;
      looked_ += *count;
      if (!before_.empty() && !DropSeen(&*count)) return false;
      if (!filter_.empty()) {
        if (!filter_.Select({nodes_.data(), *count}, ctx_, &selected_) || !ctx_.Tick(*count))
          return false;
        *count = selected_.size();
        for (size_t i = 0; i < *count; ++i) nodes_[i] = nodes_[selected_[i]];
      }
      if (!give(std::span<const NodeId>(nodes_.data(), *count))) return false;
    }
  }

  bool Seek(Value* row) {
    FindKeys();
    values_.clear();
    for (const Expr* sought : step().sought) values_.push_back(Eval(*sought, row, ctx_));
    if (ctx_.failed()) return false;
    // No node has a property that the graph has no name of.
    if (std::find(keys_.begin(), keys_.end(), kNoToken) != keys_.end()) return true;
    labels_.clear();
    const auto add = [this](int name) {
      const Token label = ctx_.Label(name);
      if (label != kNoToken) labels_.push_back(label);
    };
    if (step().label >= 0) add(step().label);
    for (const int name : step().any_of) add(name);
    found_.clear();
    bool listed = true;
    gone_ = false;
    switch (step().sought_as) {
      case Step::Sought::kAll:
        if (!SeekIn(values_)) return false;
        break;
      case Step::Sought::kAny:
        if (!SeekEach(values_)) return false;
        break;
      case Step::Sought::kInList:
        listed = values_[0].is_null() || values_[0].is_list();
        if (values_[0].is_list() && !SeekEach(values_[0].as_list())) return false;
        break;
      case Step::Sought::kId:
        if (!SeekNumbers(values_)) return false;
        break;
      case Step::Sought::kIdInList:
        listed = values_[0].is_null() || values_[0].is_list();
        if (values_[0].is_list() && !SeekNumbers(values_[0].as_list())) return false;
        break;
      case Step::Sought::kTable:
        break;
    }
    // Also where the list is none: the predicate says what is wrong with it.
    if (gone_ || !listed) return ScanInstead(row);
    if (labels_.size() > 1 || step().sought_as != Step::Sought::kAll) {
      std::sort(found_.begin(), found_.end());
      found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    }
    for (const NodeId node : found_) {
      if (!Emit(row, node)) return false;
    }
    return true;
  }

  // Without the index, which may have gone since the query was planned.
  bool ScanInstead(Value* row) {
    instead_ = true;
    const bool more = Scan(row);
    instead_ = false;
    return more;
  }

  // Nodes with one of the values, each of which is sought once.
  bool SeekEach(std::span<const Value> values) {
    if (values.size() == 1) return SeekIn(values);
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(Hashed));
    if (!ctx_.Charge(bytes)) return false;
    std::vector<Hashed> order;
    order.reserve(values.size());
    for (const Value& value : values) order.push_back({Hash(value), &value});
    std::stable_sort(order.begin(), order.end(),
                     [](const Hashed& a, const Hashed& b) { return a.hash < b.hash; });
    bool more = ctx_.Tick(values.size());
    for (size_t i = 0; more && i < order.size() && !gone_; ++i) {
      // Equal ones have the same hash; a few are looked at, and what is found twice is dropped
      // later.
      bool seen = false;
      for (size_t k = i; k > 0 && i - k < 4 && order[k - 1].hash == order[i].hash && !seen; --k) {
        seen = Equals(*order[k - 1].value, *order[i].value) == 1;
      }
      more = seen || SeekIn({order[i].value, 1});
    }
    ctx_.Charge(-bytes);
    return more;
  }

  // Nodes that there are of these.
  bool SeekNumbers(std::span<const Value> values) {
    for (const Value& value : values) {
      const std::optional<NodeId> node = NodeNumber(value);
      if (!node) continue;
      const absl::StatusOr<bool> exists = ctx_.graph->NodeExists(*node);
      if (!ctx_.Check(exists.status()) || !ctx_.Tick()) return false;
      if (*exists) found_.push_back(*node);
      if (!ChargeFound()) return false;
    }
    return true;
  }

  // Nodes with all of the values, each of its key. Null is equal to nothing.
  bool SeekIn(std::span<const Value> values) {
    if (std::any_of(values.begin(), values.end(), [](const Value& v) { return v.is_null(); })) {
      return true;
    }
    for (const Token label : labels_) {
      const size_t before = found_.size();
      const absl::Status status = ctx_.graph->Seek(label, keys_, values, &found_);
      gone_ = absl::IsFailedPrecondition(status);
      if (gone_) return true;
      if (!ctx_.Check(status) || !ctx_.Tick(found_.size() - before + 1)) return false;
      if (!ChargeFound()) return false;
    }
    return true;
  }

  // It keeps its memory.
  bool ChargeFound() {
    const size_t held = found_.capacity() * sizeof(NodeId);
    const size_t more = held - std::exchange(found_held_, held);
    return more == 0 || ctx_.Charge(static_cast<int64_t>(more));
  }

  // Whether the node is one that was sought.
  bool IsSought(const Value* row, NodeId node) {
    whole_.assign(row, row + runtime_->width);
    whole_[static_cast<size_t>(step().slot)] = Value::Node(node);
    return std::all_of(step().sought_by.begin(), step().sought_by.end(),
                       [this](const Expr* e) { return Holds(*e, whole_.data(), ctx_); });
  }

  bool Emit(const Value* row, NodeId node) {
    if (instead_ && !IsSought(row, node)) return !ctx_.failed();
    Value* out = NewRow(row);
    if (out != nullptr) out[step().slot] = Value::Node(node);
    return out != nullptr;
  }

  BatchFilter filter_;
  const bool by_table_;
  BatchEval eval_;                 // of what is sought in a table
  std::vector<Operand> operands_;  // the same
  uint64_t looked_ = 0;            // nodes, by scans until there is a table
  std::shared_ptr<const JoinTable> table_;
  bool no_table_ = false;  // it would be too large
  NodeSource source_;
  std::vector<NodeId> nodes_;  // not on the stack, where the scans of a plan lie in each other
  std::vector<uint32_t> selected_;
  std::vector<NodeId> found_;
  std::vector<Token> labels_, keys_;  // that are sought
  std::vector<Value> values_, whole_;
  size_t found_held_ = 0;      // by found_, as it was charged
  bool gone_ = false;          // the index, while it was asked
  bool instead_ = false;       // a scan, of a seek
  std::vector<Token> before_;  // labels of `any_of` that were scanned
  std::vector<uint8_t> seen_;
};

}  // namespace

std::unique_ptr<Operator> MakeScanOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<ScanOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
