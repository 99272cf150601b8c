// ORDER BY. Values of the first two keys become numbers in their order where all of a key have one
// type, so that sorting compares numbers, and looks at values where these are the same. What is too
// much for memory is sorted in parts, as runs, which are merged: rows with equal keys stay in the
// order in which they came.
#include <algorithm>
#include <array>
#include <bit>

#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_eval.h"
#include "services/graph/model/text.h"
#include "services/graph/spill/spill_merge.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {

bool CountOf(const Expr& expr, std::string_view what, std::vector<Value>* scratch, EvalContext& ctx,
             uint64_t* out) {
  const Value v = Eval(expr, scratch->data(), ctx);
  if (ctx.failed()) return false;
  if (!v.is_int()) {
    ctx.Fail(RuntimeError("SyntaxError", "InvalidArgumentType",
                          Concat(what, " needs an INTEGER, found a ", TypeName(v.type()))));
    return false;
  }
  if (v.as_int() < 0) {
    ctx.Fail(RuntimeError("SyntaxError", "NegativeIntegerArgument",
                          Concat(what, " may not be negative")));
    return false;
  }
  *out = static_cast<uint64_t>(v.as_int());
  return true;
}

bool CountOfTop(const Step& step, int width, EvalContext& context, uint64_t* out) {
  std::vector<Value> scratch(static_cast<size_t>(width));
  uint64_t limit = 0, skip = 0;
  if (!CountOf(*step.top_limit, "LIMIT", &scratch, context, &limit)) return false;
  if (step.top_skip != nullptr && !CountOf(*step.top_skip, "SKIP", &scratch, context, &skip)) {
    return false;
  }
  *out = limit + skip;  // each is below 2^63
  return true;
}

namespace {

// A number that is smaller where the value is; the same does not mean equal, but for integers.
uint64_t CodeOf(const Value& v) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  switch (v.type()) {
    case Type::kNull:  // last
      return ~uint64_t{0};
    case Type::kInt:
      return static_cast<uint64_t>(v.as_int()) ^ kSign;
    case Type::kString: {
      uint64_t code = 0;
      const std::string& text = v.as_string();
      for (size_t i = 0; i < 8; ++i) {
        code = code << 8 | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
      }
      return code;
    }
    default: {
      const double d = v.as_float();
      if (d != d) return ~uint64_t{0} - 1;  // NaN, behind all numbers
      const auto bits = std::bit_cast<uint64_t>(d == 0 ? 0.0 : d);
      return (bits & kSign) != 0 ? ~bits : bits | kSign;
    }
  }
}

class SortOperator : public Operator {
 public:
  SortOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), eval_(&ctx_), operands_(step->order.size()) {
    for (Slot slot = 0; step->all_live && slot < runtime->width; ++slot) kept_.push_back(slot);
    if (!step->all_live) kept_ = step->live;
  }
  bool Push(Rows& in) override {
    const size_t keys = step().order.size();
    int64_t bytes = 0, room = ctx_.SpillRoom();
    const bool batch = in.size() >= ctx_.columns_from;
    for (size_t k = 0; batch && k < keys; ++k) {
      if (!eval_.Evaluate(*step().order[k].first, {.rows = &in}, eval_.All(in.size()),
                          &operands_[k])) {
        return false;
      }
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (!ctx_.Tick()) return false;
      Value* row = in.Row(i);
      for (size_t k = 0; k < keys; ++k) {
        keys_.push_back(batch ? operands_[k].Take(i) : Eval(*step().order[k].first, row, ctx_));
      }
      if (IsBehindAllKept(&keys_[count_ * keys])) {
        keys_.resize(count_ * keys);
        continue;
      }
      for (size_t k = 0; k < keys; ++k) bytes += Held(keys_[count_ * keys + k]);
      for (const Slot slot : kept_) {
        rows_.push_back(std::move(row[slot]));
        bytes += Held(rows_.back());
      }
      ++count_;
      if (bytes > room) {
        if (!Charge(std::exchange(bytes, 0)) || !MakeRoom(keys)) return false;
        room = ctx_.SpillRoom();
      }
    }
    if (!Charge(bytes)) return false;
    if (!limited_ && !Limit()) return false;
    if (count_ > keep_ && count_ - keep_ > keep_ + 4 * kBatchRows) Cut(keys);
    return true;
  }
  bool Finish() override {
    const size_t keys = step().order.size();
    if (!runs_.empty()) {
      GiveSpilled(keys);
      return FlushAndFinish();
    }
    const std::vector<Value> empty(static_cast<size_t>(runtime_->width));
    const std::vector<Entry> order = Sorted(keys);
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i + kAhead < order.size()) {
        __builtin_prefetch(rows_.data() + order[i + kAhead].row * kept_.size());
      }
      Value* row = NewRow(empty.data());
      if (row == nullptr) break;
      for (size_t k = 0; k < kept_.size(); ++k) {
        row[kept_[k]] = std::move(rows_[order[i].row * kept_.size() + k]);
      }
    }
    Clear();  // before others work at their end
    return FlushAndFinish();
  }
  void Reset() override {
    Clear();
    runs_.clear();
    file_.reset();
    limited_ = false;
  }

 private:
  // Whether LIMIT drops a row, since the rows that are kept come before it. Where all keys are the
  // same it does: rows stay in the order in which they came.
  bool IsBehindAllKept(const Value* row_keys) const {
    for (size_t k = 0; k < last_kept_.size(); ++k) {
      if (const int c = Order(row_keys[k], last_kept_[k]); c != 0) {
        return (c > 0) != step_->order[k].second;
      }
    }
    return !last_kept_.empty();
  }
  // What lists and maps hold counts where nobody else has them.
  static int64_t Held(const Value& value) {
    return static_cast<int64_t>(std::max(value.Bytes(), value.OwnedBytes()));
  }
  bool Charge(int64_t bytes) {
    charged_ += bytes;
    return ctx_.Charge(bytes);
  }
  void Clear() {
    Forget(&keys_);
    Forget(&rows_);
    last_kept_.clear();
    count_ = 0;
    ctx_.Charge(-charged_);
    charged_ = 0;
  }

  // Forgets or spills rows where too much is in memory.
  bool MakeRoom(size_t keys) {
    if (!ctx_.SpillDue(charged_)) return true;
    if (!limited_ && !Limit()) return false;
    if (count_ > keep_) Cut(keys);
    return !ctx_.SpillDue(charged_) || Spill(keys);
  }
  // The rows in memory as a run, with their keys before them.
  bool Spill(size_t keys) {
    if (file_ == nullptr) file_ = MakeSpillFile(ctx_);
    if (file_ == nullptr) return false;
    const size_t width = kept_.size();
    RowWriter writer(file_.get(), SpillBuffer(ctx_), &ctx_);
    std::vector<Value> row(keys + width);
    for (const Entry& entry : Sorted(keys)) {
      std::move(&keys_[entry.row * keys], &keys_[entry.row * keys] + keys, row.begin());
      for (size_t k = 0; k < width; ++k) row[keys + k] = std::move(rows_[entry.row * width + k]);
      if (!writer.Add(row)) return false;
    }
    Clear();
    return writer.Finish(&runs_);
  }
  bool GiveSpilled(size_t keys) {
    if (count_ > 0 && !Spill(keys)) return false;
    const std::vector<Value> empty(static_cast<size_t>(runtime_->width));
    const auto order = [&](const Value* a, const Value* b) {
      for (size_t k = 0; k < keys; ++k) {
        if (const int c = Order(a[k], b[k]); c != 0) return step_->order[k].second ? -c : c;
      }
      return 0;
    };
    MergeRuns(std::move(file_), std::exchange(runs_, {}), order, ctx_, [&](Value* from) {
      Value* row = NewRow(empty.data());
      if (row == nullptr) return false;
      const size_t bytes = BytesWhenRead({from + keys, kept_.size()});
      for (size_t k = 0; k < kept_.size(); ++k) row[kept_[k]] = std::move(from[keys + k]);
      return FlushIfLarge(bytes);
    });
    return Flush();
  }

  bool Limit() {
    limited_ = true;
    keep_ = ~size_t{0} / 2;
    if (step().top_limit == nullptr) return true;
    uint64_t wanted = 0;
    if (!CountOfTop(step(), runtime_->width, ctx_, &wanted)) return false;
    keep_ = std::min<size_t>(keep_, wanted);
    return true;
  }
  struct Entry {
    uint64_t codes[2] = {0, 0};
    size_t row = 0;
  };

  // Whether all values of a key have codes that can be compared, and whether equal codes then are
  // equal values.
  bool Coded(size_t keys, size_t k, bool* exact) const {
    Type type = Type::kNull;
    for (size_t i = 0; i < count_; ++i) {
      const Type t = keys_[i * keys + k].type();
      if (t == Type::kNull || t == type) continue;
      if (type != Type::kNull) return false;
      type = t;
    }
    // Null has the code of the largest integer.
    *exact = type == Type::kInt && count_ > 0 &&
             std::none_of(keys_.begin(), keys_.end(), [](const Value& v) { return v.is_null(); });
    return type == Type::kInt || type == Type::kFloat || type == Type::kString;
  }

  std::vector<Entry> Sorted(size_t keys) const {
    std::vector<Entry> order(count_);
    for (size_t i = 0; i < count_; ++i) order[i].row = i;
    const size_t coded = std::min<size_t>(keys, 2);
    bool exact[2] = {false, false};
    for (size_t k = 0; k < coded; ++k) {
      if (!Coded(keys, k, &exact[k])) continue;
      const bool descending = step().order[k].second;
      for (size_t i = 0; i < count_; ++i) {
        const uint64_t code = CodeOf(keys_[i * keys + k]);
        order[i].codes[k] = descending ? ~code : code;
      }
    }
    const auto before = [&](const Entry& a, const Entry& b) {
      for (size_t k = 0; k < keys; ++k) {
        if (k < coded) {
          if (a.codes[k] != b.codes[k]) return a.codes[k] < b.codes[k];
          if (exact[k]) continue;
        }
        const int c = Order(keys_[a.row * keys + k], keys_[b.row * keys + k]);
        if (c != 0) return step_->order[k].second ? c > 0 : c < 0;
      }
      return false;
    };
    SortByCodes(order, 0, coded, exact, before);
    return order;
  }
  // By a code, digit by digit, then those whose codes are the same: by the next code, where that
  // says that the values are, too, and else by what `before` says.
  template <typename Before>
  static void SortByCodes(std::span<Entry> entries, size_t k, size_t coded, const bool* exact,
                          const Before& before) {
    constexpr size_t kFew = 256;
    if (k == coded || entries.size() <= kFew) {
      return std::stable_sort(entries.begin(), entries.end(), before);
    }
    SortByDigits(entries, k);
    for (size_t begin = 0, end; begin < entries.size(); begin = end) {
      for (end = begin + 1; end < entries.size(); ++end) {
        if (entries[end].codes[k] != entries[begin].codes[k]) break;
      }
      const std::span<Entry> same = entries.subspan(begin, end - begin);
      if (same.size() > 1) SortByCodes(same, exact[k] ? k + 1 : coded, coded, exact, before);
    }
  }
  // Entries with the same code stay in their order.
  static void SortByDigits(std::span<Entry> entries, size_t k) {
    constexpr size_t kDigits = sizeof(uint64_t), kValues = 256;
    std::vector<std::array<size_t, kValues>> counts(kDigits);
    for (const Entry& entry : entries) {
      for (size_t d = 0; d < kDigits; ++d) ++counts[d][entry.codes[k] >> (8 * d) & 0xFF];
    }
    std::vector<Entry> buffer(entries.size());
    std::span<Entry> from = entries, to = buffer;
    for (size_t d = 0; d < kDigits; ++d) {
      std::array<size_t, kValues>& places = counts[d];
      if (places[from[0].codes[k] >> (8 * d) & 0xFF] == entries.size()) continue;
      size_t place = 0;
      for (size_t& at : places) place += std::exchange(at, place);
      for (const Entry& entry : from) to[places[entry.codes[k] >> (8 * d) & 0xFF]++] = entry;
      std::swap(from, to);
    }
    if (from.data() != entries.data()) std::copy(from.begin(), from.end(), entries.begin());
  }
  // Forgets the rows that LIMIT would drop.
  void Cut(size_t keys) {
    const size_t width = kept_.size();
    std::vector<Entry> order = Sorted(keys);
    order.resize(std::min(order.size(), keep_));
    std::vector<Value> kept_keys, kept_rows;
    int64_t bytes = 0;
    for (const Entry& entry : order) {
      const size_t i = entry.row;
      for (size_t k = 0; k < keys; ++k) kept_keys.push_back(std::move(keys_[i * keys + k]));
      for (size_t k = 0; k < width; ++k) {
        kept_rows.push_back(std::move(rows_[i * width + k]));
        bytes += Held(kept_rows.back());
      }
    }
    for (const Value& v : kept_keys) bytes += Held(v);
    if (keep_ > 0 && order.size() == keep_)
      last_kept_.assign(kept_keys.end() - keys, kept_keys.end());
    keys_ = std::move(kept_keys);
    rows_ = std::move(kept_rows);
    count_ = order.size();
    ctx_.Charge(bytes - charged_);
    charged_ = bytes;
  }

  BatchEval eval_;
  std::vector<Operand> operands_;
  std::vector<Slot> kept_;  // of each row
  std::vector<Value> keys_, rows_;
  // Keys of the last row that LIMIT keeps of those until the last Cut.
  std::vector<Value> last_kept_;
  size_t count_ = 0;
  size_t keep_ = 0;
  bool limited_ = false;
  int64_t charged_ = 0;
  std::unique_ptr<SpillFile> file_;
  std::vector<SpillRun> runs_;
};

}  // namespace

std::unique_ptr<Operator> MakeSortOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<SortOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
