// DISTINCT: rows go on as they come, but those with values that were there before. Beyond the
// memory that the values may take, rows with others are spilled in parts by their hash, and go on
// at the end, in the order in which they came.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/spill/spill_partitions.h"

namespace pulse::cypher {
namespace {

class DistinctOperator : public Operator {
 public:
  DistinctOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), seen_(step->items.size()), results_(&ctx_) {
    for (const auto& [expr, slot] : step->items) spilled_.push_back(slot);
    for (Slot slot = 0; step->all_live && slot < runtime->width; ++slot) AddSpilled(slot);
    for (const Slot slot : step->live) AddSpilled(slot);
  }

  bool Push(Rows& in) override {
    size_t kept = 0;
    for (size_t i = 0; i < in.size() && !enough_; ++i) {
      tuple_.clear();
      for (const auto& [expr, slot] : step().items) tuple_.push_back(in.Row(i)[slot]);
      if (parts_ != nullptr) {
        if (!SpillNew(in.Row(i))) return false;
      } else {
        if (seen_.Insert(&tuple_, ctx_).second) in.Move(i, kept++);
        if (step().spills && ctx_.SpillDue(seen_.charged()) && !BeginSpilling()) return false;
      }
      if (!ctx_.Tick()) return false;
    }
    in.Resize(kept);
    return (kept == 0 || next_->Push(in)) && !enough_;
  }

  bool Finish() override {
    if (parts_ != nullptr) GiveSpilled();
    seen_.Clear(ctx_);  // before others work at their end
    return FlushAndFinish();
  }

  void Reset() override {
    seen_.Clear(ctx_);
    parts_.reset();
    number_ = 0;
    ForgetHashes();
    enough_ = false;
  }

 private:
  using Part = SpillPartitions::Part;

  void AddSpilled(Slot slot) {
    if (std::find(spilled_.begin(), spilled_.end(), slot) == spilled_.end())
      spilled_.push_back(slot);
  }

  bool BeginSpilling() {
    parts_ = SpillPartitions::Make(0, ctx_);
    if (parts_ == nullptr || step().top_limit == nullptr) return parts_ != nullptr;
    uint64_t wanted = 0;
    if (!CountOfTop(step(), runtime_->width, ctx_, &wanted)) return false;
    wanted_ = wanted - std::min<uint64_t>(wanted, seen_.size());
    // As many as have room beside the set.
    if (wanted_ > ctx_.limits.memory_bytes / 4 / kHashBytes) wanted_ = 0;
    return true;
  }

  // Rows with different hashes are different: as soon as there are as many of these as LIMIT wants,
  // no further input is read.
  bool CountHash(uint64_t hash) {
    if (wanted_ == 0 || !hashes_.insert(hash).second) return true;
    enough_ = hashes_.size() == wanted_;
    hashes_charged_ += kHashBytes;
    return ctx_.Charge(kHashBytes);
  }
  void ForgetHashes() {
    absl::flat_hash_set<uint64_t>().swap(hashes_);
    ctx_.Charge(-std::exchange(hashes_charged_, 0));
    wanted_ = 0;
  }

  // A row goes to a part, unless its values are known.
  bool SpillNew(const Value* row) {
    const uint64_t hash = TupleSet::HashOf(tuple_);
    if (seen_.Find(hash, tuple_.data())) return true;
    if (!CountHash(hash)) return false;
    size_t held = sizeof(Value);
    for (const Slot slot : spilled_) held += BytesWhenRead(row[slot]);
    bytes_.clear();
    AppendRowValue(Value::Int(number_++), &bytes_);
    for (const Slot slot : spilled_) AppendRowValue(row[slot], &bytes_);
    return parts_->Add(hash, bytes_, held);
  }

  bool GiveSpilled() {
    std::vector<Part> parts;
    ForgetHashes();
    if (ctx_.failed() || !parts_->Finish(&parts) || !results_.Begin()) return false;
    parts_.reset();
    while (!parts.empty()) {
      const Part part = std::move(parts.back());
      parts.pop_back();
      seen_.Clear(ctx_);
      if (!ReadPart(part, &parts)) return false;
    }
    seen_.Clear(ctx_);
    const std::vector<Value> empty(static_cast<size_t>(runtime_->width));
    results_.Give([&](Value* from) {
      Value* const row = NewRow(empty.data());
      if (row == nullptr) return false;
      const size_t bytes = BytesWhenRead({from + 1, spilled_.size()});
      for (size_t i = 0; i < spilled_.size(); ++i) row[spilled_[i]] = std::move(from[1 + i]);
      return FlushIfLarge(bytes);
    });
    return Flush();
  }

  bool ReadPart(const Part& part, std::vector<Part>* more) {
    RowReader reader(part.file.get(), part.run, &ctx_);
    std::unique_ptr<SpillPartitions> parts;
    std::string_view bytes;
    while (!reader.done()) {
      if (!reader.Next(&row_, &bytes)) return false;
      const size_t held = BytesWhenRead(row_);
      // The values that tell rows apart are the first behind the number.
      Value* const tuple = row_.data() + 1;
      const uint64_t hash = TupleSet::HashOf({tuple, step().items.size()});
      if (parts != nullptr) {
        if (!seen_.Find(hash, tuple) && !parts->Add(hash, bytes, held)) return false;
        continue;
      }
      if (seen_.Insert(hash, tuple, ctx_).second && !results_.writer()->AddBytes(bytes, held)) {
        return false;
      }
      if (part.level < SpillPartitions::kLevels && ctx_.SpillDue(seen_.charged())) {
        parts = SpillPartitions::Make(part.level, ctx_);
        if (parts == nullptr) return false;
      }
      if (ctx_.failed()) return false;
    }
    return results_.EndPart() && (parts == nullptr || parts->Finish(more));
  }

  TupleSet seen_;
  std::vector<Value> tuple_, row_;
  std::vector<Slot> spilled_;  // of each row: first those that tell rows apart
  std::string bytes_;
  std::unique_ptr<SpillPartitions> parts_;  // null: nothing is spilled yet
  SpillResults results_;
  int64_t number_ = 0;  // of the next row that is spilled

  static constexpr int64_t kHashBytes = 24;  // about, in a table that grows
  uint64_t wanted_ = 0;                      // distinct rows of the spilled ones; 0: all
  absl::flat_hash_set<uint64_t> hashes_;     // of these
  int64_t hashes_charged_ = 0;
  bool enough_ = false;
};

}  // namespace

std::unique_ptr<Operator> MakeDistinctOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<DistinctOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
