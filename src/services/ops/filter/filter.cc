#include "services/ops/filter/filter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/shortage.h"
#include "services/ops/compress.h"
#include "services/ops/decompress.h"
#include "services/ops/filter/filter_order.h"

namespace pulse::filter {
namespace {

class FdSink : public ops::Sink {
 public:
  FdSink(int fd, std::string name, FilterOutcome* outcome)
      : fd_(fd), name_(std::move(name)), outcome_(outcome) {}

  absl::Status Take(const ops::Chunk& chunk, ops::Result& result) override {
    outcome_->selected += result.count;
    if (result.bytes.size() == 0) return absl::OkStatus();
    return WriteAll(fd_, result.bytes.view(), "writing", name_);
  }

 private:
  const int fd_;
  const std::string name_;
  FilterOutcome* const outcome_;
};

// A thread that reads one descriptor and writes another: a stage before or behind the filter.
class Stage {
 public:
  // It runs on these CPUs; none: where the caller runs.
  explicit Stage(std::vector<int> cpus) : cpus_(std::move(cpus)) {}
  // `work` gets its end of a new pipe; `other` becomes the filter's end.
  absl::Status Start(bool writes, std::function<absl::Status(int)> work, UniqueFd* other) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoError(errno, "making a pipe for", "a filter");
    UniqueFd mine(fds[writes ? 1 : 0]);
    other->reset(fds[writes ? 0 : 1]);
    ops::EnlargePipe(mine.get());
    auto run = [this, work = std::move(work), fd = std::move(mine)]() mutable {
      // The caller was told before which of these CPUs do not exist.
      SetThreadAffinity(cpus_).IgnoreError();
      status_ = CatchNoMemory([&] { return work(fd.get()); });
      fd.reset();  // the other end sees that nothing follows, or that nobody reads
    };
    return StartThread("a filter", std::move(run), &thread_);
  }
  ~Stage() {
    if (thread_.joinable()) thread_.join();
  }
  // The filter's end is to be closed before.
  absl::Status Join() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  const std::vector<int> cpus_;
  std::thread thread_;
  absl::Status status_;
};

// Whether what begins with `bytes` may be compressed; with fewer than kRecogniseBytes, whether it
// still may turn out to be.
bool LooksCompressed(absl::string_view bytes) {
  static constexpr absl::string_view kMagics[] = {"\x1f\x8b", "\x28\xb5\x2f\xfd",
                                                  "\x04\x22\x4d\x18", "\x2a\x4d\x18"};
  for (const absl::string_view magic : kMagics) {
    // A frame to be skipped begins with 0x50 to 0x5f.
    const bool skip = magic.front() == '\x2a';
    if (skip && (bytes.empty() || (static_cast<unsigned char>(bytes.front()) & 0xf0) != 0x50))
      continue;
    const absl::string_view rest = bytes.substr(skip ? 1 : 0);
    const size_t n = std::min(rest.size(), magic.size());
    if (rest.substr(0, n) == magic.substr(0, n)) return true;
  }
  return false;
}

// The first bytes of the input: as many as it takes to tell whether it is compressed. Those of a
// stream are read; `*before` has them then.
absl::StatusOr<bool> IsCompressed(int fd, const std::string& name, std::string* before) {
  std::string bytes;
  if (const off_t at = lseek(fd, 0, SEEK_CUR); at >= 0) {
    bytes.resize(ops::kRecogniseBytes);
    PULSE_ASSIGN_OR_RETURN(const size_t n, ReadAt(fd, bytes.data(), bytes.size(),
                                                  static_cast<uint64_t>(at), "reading", name));
    bytes.resize(n);
    return IsCompressedInput(bytes);
  }
  ops::FdSource source(fd, name);
  while (bytes.size() < ops::kRecogniseBytes && (bytes.empty() || LooksCompressed(bytes))) {
    char more[ops::kRecogniseBytes];
    PULSE_ASSIGN_OR_RETURN(const size_t n, source.Read(more, ops::kRecogniseBytes - bytes.size()));
    if (n == 0) break;
    bytes.append(more, n);
  }
  *before = bytes;
  return IsCompressedInput(bytes);
}

// Passes decompressed data on up to the limit, and says that the input is beyond it.
class LimitedSink : public ops::ByteSink {
 public:
  LimitedSink(int fd, const std::string& name, uint64_t limit, std::string option)
      : to_(fd, name), name_(name), limit_(limit), option_(std::move(option)) {}
  absl::Status Write(absl::string_view bytes) override {
    if (limit_ != 0 && bytes.size() > limit_ - written_) {
      return absl::ResourceExhaustedError(absl::StrCat(name_, " is compressed, to more than ",
                                                       limit_, " bytes of data; ", option_,
                                                       " sets this limit"));
    }
    written_ += bytes.size();
    return to_.Write(bytes);
  }

 private:
  ops::FdSink to_;
  const std::string name_;
  const uint64_t limit_;
  const std::string option_;
  uint64_t written_ = 0;
};

// What was read of a descriptor before, and then what follows.
class WholeSource : public ops::ByteSource {
 public:
  WholeSource(std::string before, int fd, const std::string& name)
      : before_(std::move(before)), rest_(fd, name) {}
  absl::StatusOr<size_t> Read(void* to, size_t size) override {
    if (at_ == before_.size()) return rest_.Read(to, size);
    const size_t n = before_.copy(static_cast<char*>(to), size, at_);
    at_ += n;
    return n;
  }
  std::optional<uint64_t> Left() const override {
    return before_.empty() ? rest_.Left() : std::nullopt;
  }
  void Stop() override { rest_.Stop(); }

 private:
  const std::string before_;
  size_t at_ = 0;
  ops::FdSource rest_;
};

// From records to records, without compression.
absl::StatusOr<FilterOutcome> FilterRecords(const RuleSet& rules, const FilterOptions& options,
                                            SourceOptions source_options, int in, int out) {
  PULSE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source,
                         RecordSource::Make(in, std::move(source_options)));
  ops::EngineOrder order;
  order.kind = ops::EngineOrder::Kind::kFilter;
  if (options.processors.agent != nullptr) {
    order = FilterOrder(rules, options.selection, options.source.chunk_bytes);
  }
  // Cached engines were made for other rules.
  ops::Processors processors = options.processors;
  processors.engines = nullptr;
  std::vector<std::unique_ptr<ops::Engine>> engines;
  PULSE_ASSIGN_OR_RETURN(
      std::vector<ops::Engine*> pointers,
      ops::MakeEngines(
          processors, "filter", "filter",
          [&](ops::EngineTraits of) -> absl::StatusOr<std::unique_ptr<ops::Engine>> {
            return FilterEngine::Make(&rules, options.selection, std::move(of));
          },
          order, engines));
  ops::QueueOptions queue_options = ops::OptionsFor(options.processors, order);
  queue_options.operation = "filter";
  queue_options.chunk_bytes = options.source.chunk_bytes;
  queue_options.total_bytes = source->TotalBytes();
  ops::Queue* running = nullptr;
  if (options.processors.progress) {
    queue_options.tick = [&] {
      if (!options.processors.progress(running->input_bytes(), running->output_bytes())) {
        running->Cancel();
      }
    };
  }
  FilterOutcome outcome;
  FdSink sink(out, options.out_name, &outcome);
  ops::Queue queue(std::move(queue_options), std::move(pointers));
  running = &queue;
  const absl::Status status = queue.Run(*source, sink);
  outcome.stats = queue.stats();
  if (!status.ok() && ErrnoOf(status) != EPIPE) return status;
  if (status.ok()) source->MoveDescriptor();
  outcome.reader_gone = !status.ok();
  return outcome;
}

}  // namespace

bool IsCompressedInput(absl::string_view head) {
  const auto format = ops::Recognise(head);
  return LooksCompressed(head) && format.ok() && *format != ops::Format::kZlib;
}

absl::StatusOr<FilterOutcome> RunFilter(const RuleSet& rules, const FilterOptions& options, int in,
                                        int out) {
  const std::string& name = options.source.name;
  SourceOptions source = options.source;
  // Of the stages, once they have ended.
  std::optional<ops::DecompressReport> decompressed;
  std::optional<ops::QueueStats> compressed_to;
  const ops::SerialCpus cpus = ops::SerialCpusFor(options.processors);
  std::optional<WholeSource> whole;  // what is compressed, for the stage before
  Stage before(cpus.decoder);
  Stage behind(cpus.files);
  UniqueFd from;  // the filter's ends of the pipes, closed before the stages are waited for
  UniqueFd to;
  bool compressed = options.input_format.has_value();
  if (!compressed && !options.plain) {
    PULSE_ASSIGN_OR_RETURN(compressed, IsCompressed(in, name, &source.before));
  }
  const bool compresses =
      options.compress.has_value() && options.selection.select != Select::kCount;
  if (compresses) {
    ops::CompressOptions compress;
    compress.format = *options.compress;
    compress.level = options.level;
    compress.processors = options.processors;
    compress.processors.progress = nullptr;
    compress.processors.engines = nullptr;
    PULSE_RETURN_IF_ERROR(behind.Start(
        false,
        [=, &options, &compressed_to](int fd) -> absl::Status {
          const auto stats = ops::Compress(compress, fd, "the records", out, options.out_name);
          if (!stats.ok()) return stats.status();
          compressed_to = *stats;
          compressed_to->mark_bytes = 0;  // a filter has no --primed that could save them
          return absl::OkStatus();
        },
        &to));
  }
  if (compressed) {
    whole.emplace(std::exchange(source.before, std::string()), in, name);
    ops::DecompressOptions decompress;
    decompress.format = options.input_format;
    decompress.processors = options.processors;
    decompress.processors.progress = nullptr;
    decompress.processors.engines = nullptr;  // which are for one thread
    const absl::Status started = before.Start(
        true,
        [decompress, &name, &options, &whole, &decompressed](int fd) {
          LimitedSink plain(fd, name, options.max_decompressed, options.max_decompressed_option);
          const auto report = ops::Decompress(decompress, *whole, name, plain, name);
          if (report.ok()) decompressed = *report;
          return report.status();
        },
        &from);
    PULSE_RETURN_IF_ERROR(started);
    source.name = absl::StrCat(name, ", decompressed");
  }
  auto outcome = FilterRecords(rules, options, std::move(source), compressed ? from.get() : in,
                               compresses ? to.get() : out);
  from.reset();
  to.reset();
  // Where the filter has seen the end of what it decompresses to, this changes nothing.
  if (whole.has_value()) whole->Stop();
  const absl::Status first = before.Join();
  const absl::Status last = behind.Join();
  // A stage before the filter that lost its reader has done nothing wrong. One that failed explains
  // why the filter's input was cut off.
  if (!first.ok() && ErrnoOf(first) != EPIPE && !absl::IsCancelled(first)) return first;
  if (!outcome.ok()) return outcome;
  if (!last.ok() && ErrnoOf(last) != EPIPE) return last;
  outcome->reader_gone = outcome->reader_gone || !last.ok();
  if (decompressed.has_value() && decompressed->trailing_garbage) {
    outcome->garbage_offset = decompressed->garbage_offset;
  }
  outcome->decompressed = std::move(decompressed);
  outcome->compressed = std::move(compressed_to);
  return outcome;
}

std::string FilterOutcome::Explain() const {
  std::string text;
  if (decompressed.has_value()) {
    absl::StrAppend(&text, "decompress: ", decompressed->Explain(), "\n");
  }
  absl::StrAppend(&text, "filter: ", stats.Explain(), "\n");
  if (compressed.has_value()) absl::StrAppend(&text, "compress: ", compressed->Explain(), "\n");
  return text;
}

absl::StatusOr<std::vector<Rule>> ReadRules(absl::string_view text, const std::string& name) {
  std::vector<Rule> rules;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (rules.size() == kMostRules) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": more than ", kMostRules, " rules; split the file"));
    }
    rules.push_back({std::string(line), absl::StrCat(name, ", line ", number)});
  }
  return rules;
}

}  // namespace pulse::filter
