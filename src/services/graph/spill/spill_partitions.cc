#include "services/graph/spill/spill_partitions.h"

#include <utility>

namespace pulse::cypher {

std::unique_ptr<SpillPartitions> SpillPartitions::Make(int level, EvalContext& context) {
  std::unique_ptr<SpillFile> file = MakeSpillFile(context);
  if (file == nullptr) return nullptr;
  return std::unique_ptr<SpillPartitions>(new SpillPartitions(level, std::move(file), &context));
}

SpillPartitions::SpillPartitions(int level, std::shared_ptr<SpillFile> file, EvalContext* context)
    : level_(level), file_(std::move(file)), context_(*context) {
  const size_t buffer = SmallSpillBuffer(context_);
  for (size_t i = 0; i < kParts; ++i) writers_.emplace_back(file_.get(), buffer, context);
  charged_ = static_cast<int64_t>(kParts * buffer);
  context_.Charge(charged_);
}

SpillPartitions::~SpillPartitions() { context_.Charge(-charged_); }

bool SpillPartitions::Add(uint64_t hash, std::string_view row, size_t held) {
  // Hash tables take the lowest bits.
  const int shift = 64 - kBits * (level_ + 1);
  return writers_[hash >> shift & (kParts - 1)].AddBytes(row, held);
}

bool SpillPartitions::Finish(std::vector<Part>* parts) {
  std::vector<SpillRun> runs;
  for (RowWriter& writer : writers_) {
    if (!writer.Finish(&runs)) return false;
  }
  for (SpillRun& run : runs) parts->push_back({file_, std::move(run), level_ + 1});
  return true;
}

bool SpillResults::Collect(std::unique_ptr<SpillPartitions> spilled, const ReadPart& read,
                           const TakeRow& take) {
  std::vector<SpillPartitions::Part> parts;
  if (context_.failed() || !spilled->Finish(&parts)) return false;
  file_ = MakeSpillFile(context_);
  if (file_ == nullptr) return false;
  writer_.emplace(file_.get(), SpillBuffer(context_), &context_);
  spilled.reset();
  while (!parts.empty()) {
    const SpillPartitions::Part part = std::move(parts.back());
    parts.pop_back();
    if (!read(part, &parts)) return false;
  }
  writer_.reset();
  const auto order = [](const Value* a, const Value* b) {
    return a->as_int() < b->as_int() ? -1 : 1;
  };
  return MergeRuns(std::move(file_), std::exchange(runs_, {}), order, context_, take);
}

}  // namespace pulse::cypher
