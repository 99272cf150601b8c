#include "services/graph/cypher/spill_groups.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "services/graph/cypher/operators.h"

namespace pulse::cypher {

bool GroupSpill::CheckTable() {
  if (context_.failed()) return false;
  if (!context_.SpillDue(table_.Held())) return true;
  numbers_.resize(table_.Count());
  std::iota(numbers_.begin(), numbers_.end(), int64_t{0});
  next_number_ = static_cast<int64_t>(numbers_.size());
  return Begin();
}

bool GroupSpill::Begin() {
  parts_ = SpillPartitions::Make(level_, context_);
  return parts_ != nullptr && !context_.failed();
}

bool GroupSpill::Take(std::vector<Value>* row) {
  row->front() = Value::Int(next_number_++);
  return Route(row, {});
}

bool GroupSpill::Route(std::vector<Value>* row, std::string_view bytes) {
  Value* const keys = row->data() + 1;
  const uint64_t hash = TupleSet::HashOf({keys, keys_});
  const int64_t number = row->front().as_int();
  bool added = false;
  const size_t group = table_.Find(hash, keys, parts_ == nullptr ? &added : nullptr);
  if (context_.failed()) return false;
  if (group == GroupTable::kNone) {
    if (bytes.empty()) {
      bytes_.clear();
      for (const Value& value : *row) AppendRowValue(value, &bytes_);
      bytes = bytes_;
    }
    return parts_->Add(hash, bytes, BytesWhenRead(*row));
  }
  if (added) numbers_.push_back(number);
  if (!table_.Apply(group, added, {keys + keys_, row->size() - 1 - keys_})) return false;
  if (parts_ == nullptr) {
    const bool due = level_ < SpillPartitions::kLevels && context_.SpillDue(table_.Held());
    return !due || Begin();
  }
  // A group that is alone would be too large again.
  if (table_.Count() < 2) return table_.SpillValues();
  return !context_.SpillOverdue(table_.Held()) || Evict();
}

bool GroupSpill::Evict() {
  std::vector<Value> row;
  std::string bytes;
  const bool saved = table_.SaveAll([&](size_t group, std::span<const Value> piece) {
    bytes.clear();
    AppendRowValue(Value::Int(numbers_[group]), &bytes);
    const std::span<const Value> keys(table_.Keys(group), keys_);
    for (const Value& value : keys) AppendRowValue(value, &bytes);
    for (const Value& value : piece) AppendRowValue(value, &bytes);
    return parts_->Add(TupleSet::HashOf(keys), bytes,
                       sizeof(Value) + BytesWhenRead(keys) + BytesWhenRead(piece));
  });
  table_.Clear();
  numbers_.clear();
  return saved;
}

bool GroupSpill::Finish(const TakeRow& take) {
  table_.Clear();
  numbers_.clear();
  return results_.Collect(
      std::move(parts_),
      [this](const Part& part, std::vector<Part>* more) { return ReadPart(part, more); }, take);
}

bool GroupSpill::ReadPart(const Part& part, std::vector<Part>* more) {
  level_ = part.level;
  RowReader reader(part.file.get(), part.run, &context_);
  std::string_view bytes;
  while (!reader.done()) {
    if (!reader.Next(&row_, &bytes) || !Route(&row_, bytes)) return false;
  }
  if (!GivePart()) return false;
  table_.Clear();
  numbers_.clear();
  const std::unique_ptr<SpillPartitions> parts = std::move(parts_);
  return parts == nullptr || parts->Finish(more);
}

// Groups that were spilled once stand behind others that came later.
bool GroupSpill::GivePart() {
  if (!table_.TakeValues()) return false;
  std::vector<size_t> order(table_.Count());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [this](size_t a, size_t b) { return numbers_[a] < numbers_[b]; });
  for (const size_t group : order) {
    row_.clear();
    row_.push_back(Value::Int(numbers_[group]));
    row_.insert(row_.end(), table_.Keys(group), table_.Keys(group) + keys_);
    table_.AppendResults(group, &row_);
    if (!results_.writer()->Add(row_)) return false;
  }
  return results_.EndPart();
}

void GroupSpill::Reset() {
  parts_.reset();
  numbers_.clear();
  next_number_ = 0;
  level_ = 0;
}

}  // namespace pulse::cypher
