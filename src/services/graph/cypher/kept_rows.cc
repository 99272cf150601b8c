#include "services/graph/cypher/kept_rows.h"

#include <algorithm>
#include <string>
#include <utility>

namespace pulse::cypher {

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
    bytes += static_cast<int64_t>(shared ? sizeof(Value) : row[slot].Bytes());
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
  std::string bytes;
  const Value* before = written_.empty() ? nullptr : written_.data();
  for (Batch& batch : batches_) {
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      const Value* const row = batch.rows.Row(i);
      bytes.clear();
      for (int slot = 0; slot < width_; ++slot) {
        if (before != nullptr && row[slot].SharesWith(before[slot])) {
          AppendSameAsBefore(&bytes);
        } else {
          AppendRowValue(row[slot], &bytes);
        }
      }
      if (!writer_->AddBytes(bytes)) return false;
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

// `row` is the one before.
bool KeptRows::ReadSpilled(std::string_view bytes, std::vector<Value>* row) {
  for (Value& value : *row) {
    if (TakeSameAsBefore(&bytes) || ReadRowValue(&bytes, &value)) continue;
    return context_.Check(absl::InternalError("a spilled row is not what was written"));
  }
  return true;
}

bool KeptRows::DrainSpilled(const std::function<bool(Rows&)>& take) {
  std::vector<SpillRun> runs;
  if (!writer_->Finish(&runs)) return false;
  SpillReader reader(file_.get(), std::move(runs.front()), SpillBuffer(context_));
  Rows rows(width_);
  written_.clear();
  std::vector<Value> row(static_cast<size_t>(width_));
  // Of large rows fewer are read at once.
  size_t bytes = 0;
  while (!reader.done()) {
    const auto read = reader.Next();
    if (!context_.Check(read.status()) || !context_.Tick() || !ReadSpilled(*read, &row)) {
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
  written_.clear();
  writer_.reset();
  file_.reset();
}

}  // namespace pulse::cypher
