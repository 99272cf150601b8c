#include "services/graph/spill/spill_merge.h"

#include <algorithm>
#include <utility>

namespace pulse::cypher {
namespace {

// Work of a row, so that large ones do not keep the clock from being looked at.
uint64_t WorkOf(size_t bytes) { return 1 + bytes / 1024; }

class Merge {
 public:
  Merge(SpillFile* file, std::span<SpillRun> runs, const RowOrder& order, EvalContext* context)
      : order_(order), context_(*context) {
    heads_.reserve(runs.size());
    for (SpillRun& run : runs) heads_.emplace_back(RowReader(file, std::move(run), context));
  }
  Merge(const Merge&) = delete;
  Merge& operator=(const Merge&) = delete;

  bool Run(const std::function<bool(std::vector<Value>*)>& take) {
    for (size_t i = 0; i < heads_.size() && !context_.failed(); ++i) Advance(i);
    while (!heap_.empty() && !context_.failed()) {
      std::pop_heap(heap_.begin(), heap_.end(), Behind{this});
      const size_t first = heap_.back();
      heap_.pop_back();
      if (!take(&heads_[first].row)) return false;
      Advance(first);
    }
    return !context_.failed();
  }

 private:
  struct Head {
    explicit Head(RowReader r) : reader(std::move(r)) {}
    RowReader reader;
    std::vector<Value> row;
  };

  struct Behind {
    const Merge* merge;
    bool operator()(size_t a, size_t b) const {
      const int c = merge->order_(merge->heads_[a].row.data(), merge->heads_[b].row.data());
      return c != 0 ? c > 0 : a > b;
    }
  };
  // The next row of a run, if there is one, goes where its turn is.
  void Advance(size_t i) {
    Head& head = heads_[i];
    if (head.reader.done() || !head.reader.Next(&head.row)) return;
    heap_.push_back(i);
    std::push_heap(heap_.begin(), heap_.end(), Behind{this});
  }

  const RowOrder& order_;
  EvalContext& context_;
  std::vector<Head> heads_;
  std::vector<size_t> heap_;
};

// Runs that are merged at once, of one at least: their rows and buffers take a quarter of the
// memory at most.
size_t FanIn(const std::vector<SpillRun>& runs, const EvalContext& context) {
  size_t each = 0;
  for (const SpillRun& run : runs) each = std::max(each, RowReader::Charged(run, context));
  const auto room = static_cast<size_t>(std::max<int64_t>(context.MemoryRoom() / 2, 0));
  return std::clamp<size_t>(std::min(context.SpillShare() / 4, room) / each, 2, 128);
}

}  // namespace

size_t SpillBuffer(const EvalContext& context) {
  return std::clamp<size_t>(context.SpillShare() / 64, 4096, size_t{256} << 10);
}

size_t SmallSpillBuffer(const EvalContext& context) {
  return std::clamp<size_t>(context.SpillShare() / 256, 512, size_t{64} << 10);
}

std::unique_ptr<SpillFile> MakeSpillFile(EvalContext& context) {
  auto file = SpillFile::Make(context.spill);
  if (!context.Check(file.status())) return nullptr;
  return *std::move(file);
}

bool RowWriter::Add(std::span<const Value> values, const Value* before) {
  row_.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    if (before != nullptr && values[i].SharesWith(before[i])) {
      AppendSameAsBefore(&row_);
    } else {
      AppendRowValue(values[i], &row_);
    }
  }
  return AddBytes(row_, BytesWhenRead(values));
}

bool RowWriter::AddBytes(std::string_view row, size_t held) {
  return context_.Tick(WorkOf(row.size())) && context_.Check(writer_.Add(row, held));
}

bool RowWriter::Finish(std::vector<SpillRun>* runs) {
  if (writer_.empty()) return true;
  auto run = writer_.Finish();
  if (!context_.Check(run.status())) return false;
  runs->push_back(*std::move(run));
  return true;
}

size_t BytesWhenRead(std::span<const Value> row) {
  size_t bytes = 0;
  for (const Value& value : row) bytes += BytesWhenRead(value);
  return bytes;
}

// A buffer that grows for a row may have twice its bytes.
size_t RowReader::Charged(const SpillRun& run, const EvalContext& context) {
  return SpillBuffer(context) + 2 * run.largest + run.held;
}

RowReader::RowReader(SpillFile* file, SpillRun run, EvalContext* context)
    : context_(*context),
      charged_(static_cast<int64_t>(Charged(run, *context))),
      reader_(file, std::move(run), SpillBuffer(*context)) {
  context_.Charge(charged_);
}

RowReader::RowReader(RowReader&& other) noexcept
    : context_(other.context_),
      charged_(std::exchange(other.charged_, 0)),
      reader_(std::move(other.reader_)) {}

RowReader::~RowReader() { context_.Charge(-charged_); }

bool RowReader::Next(std::vector<Value>* values, std::string_view* bytes) {
  const auto read = reader_.Next();
  if (!context_.Check(read.status()) || !context_.Tick(WorkOf(read->size()))) return false;
  if (bytes != nullptr) *bytes = *read;
  std::string_view row = *read;
  size_t count = 0;
  for (; !row.empty(); ++count) {
    if (count == values->size()) values->emplace_back();
    if (TakeSameAsBefore(&row)) continue;
    // The old one goes before a new one is made.
    (*values)[count] = Value();
    if (!ReadRowValue(&row, &(*values)[count])) {
      return context_.Check(absl::InternalError("a spilled row is not what was written"));
    }
  }
  values->resize(count);
  return true;
}

bool MergeRuns(std::unique_ptr<SpillFile> file, std::vector<SpillRun> runs, const RowOrder& order,
               EvalContext& context, const TakeRow& take) {
  if (runs.empty()) return !context.failed();
  // Neighbours become one, so that equal rows stay in the order of their runs.
  for (size_t fan_in = FanIn(runs, context); runs.size() > fan_in;) {
    std::unique_ptr<SpillFile> to = MakeSpillFile(context);
    if (to == nullptr) return false;
    std::vector<SpillRun> merged;
    for (size_t i = 0; i < runs.size(); i += fan_in) {
      const size_t count = std::min(fan_in, runs.size() - i);
      RowWriter writer(to.get(), SpillBuffer(context), &context);
      Merge merge(file.get(), {runs.data() + i, count}, order, &context);
      if (!merge.Run([&](std::vector<Value>* row) { return writer.Add(*row); }) ||
          !writer.Finish(&merged)) {
        return false;
      }
    }
    file = std::move(to);
    runs = std::move(merged);
  }
  Merge merge(file.get(), runs, order, &context);
  return merge.Run([&](std::vector<Value>* row) { return take(row->data()); });
}

}  // namespace pulse::cypher
