// DISTINCT: rows go on as they come, but those with values that were there before. Beyond the
// memory that the values may take, rows with others are spilled in parts by their hash, and go on
// at the end, in the order in which they came.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/cypher/spill_values.h"

namespace pulse::cypher {
namespace {

class DistinctOperator : public Operator {
 public:
  DistinctOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next),
        seen_(step->items.size()),
        spill_(step->items.size(), &ctx_) {
    for (const auto& [expr, slot] : step->items) spilled_.push_back(slot);
    for (Slot slot = 0; step->all_live && slot < runtime->width; ++slot) AddSpilled(slot);
    for (const Slot slot : step->live) AddSpilled(slot);
  }

  bool Push(Rows& in) override {
    size_t kept = 0;
    for (size_t i = 0; i < in.size() && !enough_; ++i) {
      tuple_.clear();
      for (const auto& [expr, slot] : step().items) tuple_.push_back(in.Row(i)[slot]);
      if (spill_.spilling()) {
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
    if (spill_.spilling()) GiveSpilled();
    seen_.Clear(ctx_);  // before others work at their end
    return FlushAndFinish();
  }

  void Reset() override {
    seen_.Clear(ctx_);
    spill_.Reset();
    ForgetHashes();
    enough_ = false;
  }

 private:
  void AddSpilled(Slot slot) {
    if (std::find(spilled_.begin(), spilled_.end(), slot) == spilled_.end())
      spilled_.push_back(slot);
  }

  bool BeginSpilling() {
    if (!spill_.Begin()) return false;
    if (step().top_limit == nullptr) return true;
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
    size_t held = 0;
    std::string* const bytes = spill_.Row();
    for (const Slot slot : spilled_) {
      held += BytesWhenRead(row[slot]);
      AppendRowValue(row[slot], bytes);
    }
    return spill_.Add(hash, held);
  }

  bool GiveSpilled() {
    ForgetHashes();
    seen_.Clear(ctx_);
    const std::vector<Value> empty(static_cast<size_t>(runtime_->width));
    spill_.Finish([&](Value* from) {
      Value* const row = NewRow(empty.data());
      if (row == nullptr) return false;
      const size_t bytes = BytesWhenRead({from + 1, spilled_.size()});
      for (size_t i = 0; i < spilled_.size(); ++i) row[spilled_[i]] = std::move(from[1 + i]);
      return FlushIfLarge(bytes);
    });
    return Flush();
  }

  TupleSet seen_;
  std::vector<Value> tuple_;
  std::vector<Slot> spilled_;  // of each row: first those that tell rows apart
  DistinctSpill spill_;

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
