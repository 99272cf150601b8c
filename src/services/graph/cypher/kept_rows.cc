#include "services/graph/cypher/kept_rows.h"

#include <algorithm>
#include <span>
#include <utility>

namespace pulse::cypher {

namespace {

// What a row takes that the one before, or null, does not have.
size_t BytesBeside(const Value* row, const Value* before, int width) {
  size_t bytes = 0;
  for (int slot = 0; slot < width; ++slot) {
    const bool shared = before != nullptr && row[slot].SharesWith(before[slot]);
    bytes += shared ? sizeof(Value) : BytesWhenRead(row[slot]);
  }
  return bytes;
}

}  // namespace

const Value* KeptRows::Last() {
  if (batches_.empty()) return nullptr;
  Rows& rows = batches_.back().rows;
  return rows.Row(rows.size() - 1);
}

bool KeptRows::Add(const Value* row) {
  const Value* const last = Last();
  int64_t bytes = 0;
  for (int slot = 0; slot < width_; ++slot) {
    const bool shared = last != nullptr && row[slot].SharesWith(last[slot]);
    // What a list holds stays as long as it does.
    bytes += static_cast<int64_t>(shared ? sizeof(Value)
                                         : std::max(row[slot].Bytes(), row[slot].DeepBytes()));
  }
  if (batches_.empty() || batches_.back().rows.full()) batches_.emplace_back(width_);
  batches_.back().rows.Add(row);
  batches_.back().bytes += bytes;
  charged_ += bytes;
  return context_.Charge(bytes) && (!context_.SpillDue(charged_) || Spill());
}

bool KeptRows::Add(Rows& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!Add(rows.Row(i))) return false;
  }
  return true;
}

bool KeptRows::Spill() {
  if (file_ == nullptr) {
    file_ = MakeSpillFile(context_);
    if (file_ == nullptr) return false;
    writer_.emplace(file_.get(), SpillBuffer(context_), &context_);
  }
  const Value* before = written_.empty() ? nullptr : written_.data();
  for (Batch& batch : batches_) {
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      const Value* const row = batch.rows.Row(i);
      if (!writer_->Add({row, static_cast<size_t>(width_)}, before)) return false;
      before = row;
    }
  }
  written_.assign(before, before + width_);
  batches_.clear();
  context_.Charge(-std::exchange(charged_, 0));
  return true;
}

bool KeptRows::Drain(const std::function<bool(Rows&)>& take) {
  bool more = !context_.failed() && (file_ == nullptr || DrainSpilled(take));
  for (Batch& batch : batches_) {
    if (!more) break;
    // Whoever takes them may keep them in turn.
    charged_ -= batch.bytes;
    context_.Charge(-batch.bytes);
    more = take(batch.rows) && !context_.failed();
    batch.rows = Rows(width_);
  }
  Clear();
  return more;
}

bool KeptRows::DrainSpilled(const std::function<bool(Rows&)>& take) {
  std::vector<SpillRun> runs;
  if (!writer_->Finish(&runs)) return false;
  RowReader reader(file_.get(), std::move(runs.front()), &context_);
  Rows rows(width_);
  written_.clear();
  std::vector<Value> row;
  // Of large rows fewer are read at once.
  size_t bytes = 0;
  while (!reader.done()) {
    if (!reader.Next(&row)) return false;
    bytes += BytesBeside(row.data(), rows.empty() ? nullptr : rows.Row(rows.size() - 1), width_);
    rows.Add(row.data());
    if (!rows.full() && bytes < context_.SpillShare() / 16 && !reader.done()) continue;
    if (!take(rows) || context_.failed()) return false;
    rows.clear();
    bytes = 0;
  }
  return true;
}

void KeptRows::Clear() {
  batches_.clear();
  context_.Charge(-std::exchange(charged_, 0));
  written_.clear();
  writer_.reset();
  file_.reset();
}

}  // namespace pulse::cypher
