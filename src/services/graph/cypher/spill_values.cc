#include "services/graph/cypher/spill_values.h"

#include <algorithm>
#include <utility>

#include "services/graph/cypher/operators.h"
#include "services/graph/functions/aggregate_state.h"

namespace pulse::cypher {

bool DistinctSpill::Begin() {
  parts_ = SpillPartitions::Make(0, context_);
  return parts_ != nullptr && !context_.failed();
}

std::string* DistinctSpill::Row() {
  bytes_.clear();
  AppendRowValue(Value::Int(next_number_++), &bytes_);
  return &bytes_;
}

bool DistinctSpill::Add(uint64_t hash, size_t held) {
  return parts_->Add(hash, bytes_, sizeof(Value) + held);
}

bool DistinctSpill::Finish(const TakeRow& take) {
  return results_.Collect(
      std::move(parts_),
      [this](const Part& part, std::vector<Part>* more) { return ReadPart(part, more); }, take);
}

bool DistinctSpill::ReadPart(const Part& part, std::vector<Part>* more) {
  RowReader reader(part.file.get(), part.run, &context_);
  TupleSet seen(keys_);
  std::unique_ptr<SpillPartitions> parts;
  std::string_view bytes;
  while (!reader.done()) {
    if (!reader.Next(&row_, &bytes)) return false;
    const size_t held = BytesWhenRead(row_);
    Value* const tuple = row_.data() + 1;
    const uint64_t hash = TupleSet::HashOf({tuple, keys_});
    if (parts != nullptr) {
      if (!seen.Find(hash, tuple) && !parts->Add(hash, bytes, held)) return false;
      continue;
    }
    if (seen.Insert(hash, tuple, context_).second && !results_.writer()->AddBytes(bytes, held)) {
      return false;
    }
    if (part.level < SpillPartitions::kLevels && context_.SpillDue(seen.charged())) {
      parts = SpillPartitions::Make(part.level, context_);
      if (parts == nullptr) return false;
    }
    if (context_.failed()) return false;
  }
  seen.Clear(context_);
  return results_.EndPart() && (parts == nullptr || parts->Finish(more));
}

void DistinctSpill::Reset() {
  parts_.reset();
  next_number_ = 0;
}

bool SortedNumbers::Spill(ValueList* numbers, EvalContext& context) {
  if (file_ == nullptr) file_ = MakeSpillFile(context);
  if (file_ == nullptr) return false;
  std::sort(numbers->begin(), numbers->end(),
            [](const Value& a, const Value& b) { return OrderNumbers(a, b) < 0; });
  RowWriter writer(file_.get(), SpillBuffer(context), &context);
  for (const Value& number : *numbers) {
    if (!writer.Add({&number, 1})) return false;
  }
  Forget(numbers);
  return writer.Finish(&runs_);
}

Value SortedNumbers::Percentile(double percentile, bool discrete, EvalContext& context) {
  uint64_t count = 0;
  for (const SpillRun& run : runs_) count += run.rows;
  if (count == 0) return Clear(), Value();
  const PercentilePlace place = PlaceOf(percentile, count, discrete);
  uint64_t at = 0;
  Value low, high;
  MergeRuns(
      std::move(file_), std::exchange(runs_, {}),
      [](const Value* a, const Value* b) { return OrderNumbers(*a, *b); }, context,
      [&](Value* number) {
        if (at == place.low) low = *number;
        if (at == place.high) high = *number;
        return at++ < place.high;
      });
  return context.failed() ? Value() : PercentileAt(place, discrete, low, high);
}

void SortedNumbers::Clear() {
  file_.reset();
  runs_.clear();
}

}  // namespace pulse::cypher
