#include "services/graph/cypher/kept_rows.h"

#include <algorithm>
#include <span>
#include <utility>

namespace pulse::cypher {

bool KeptRows::Add(const Value* row) {
  if (batches_.empty() || batches_.back().rows.full()) batches_.emplace_back(width_);
  batches_.back().rows.Add(row);
  int64_t bytes = 0;
  for (int slot = 0; slot < width_; ++slot) bytes += static_cast<int64_t>(row[slot].Bytes());
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
  for (Batch& batch : batches_) {
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      if (!writer_->Add({batch.rows.Row(i), static_cast<size_t>(width_)})) return false;
    }
  }
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
  SpillReader reader(file_.get(), std::move(runs.front()), SpillBuffer(context_));
  Rows rows(width_);
  std::vector<Value> row;
  // Of large rows fewer are read at once.
  size_t bytes = 0;
  while (!reader.done()) {
    const auto read = reader.Next();
    if (!context_.Check(read.status()) || !context_.Tick() || !ReadRow(*read, &row, context_)) {
      return false;
    }
    bytes += read->size();
    rows.Add(row.data());
    if (!rows.full() && bytes < context_.limits.memory_bytes / 16 && !reader.done()) continue;
    if (!take(rows) || context_.failed()) return false;
    rows.clear();
    bytes = 0;
  }
  return true;
}

void KeptRows::Clear() {
  batches_.clear();
  context_.Charge(-std::exchange(charged_, 0));
  writer_.reset();
  file_.reset();
}

}  // namespace pulse::cypher
