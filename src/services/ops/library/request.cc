#include "services/ops/library/request.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/c_struct.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/shortage.h"
#include "base/unique_fd.h"
#include "services/ops/codecs.h"
#include "services/ops/compress.h"
#include "services/ops/decoders.h"
#include "services/ops/decompress.h"
#include "services/ops/filter/filter.h"
#include "services/ops/filter/filter_order.h"
#include "services/ops/format.h"

namespace pulse::ops {
namespace {

constexpr char kInput[] = "the input";
constexpr char kOutput[] = "the output";
constexpr size_t kFiltersKept = 4;
constexpr uint32_t kCompressFlags = PULSE_OPS_DETERMINISTIC | PULSE_OPS_PRIMED;
constexpr uint32_t kFilterFlags =
    PULSE_OPS_INVERT | PULSE_OPS_COUNT | PULSE_OPS_EXTRACT | PULSE_OPS_PLAIN;

// A pipe without reader is an error of writing, in a program that did not ignore the signal, too.
class SigpipeBlock {
 public:
  SigpipeBlock() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlock() {
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

class FunctionSource : public ByteSource {
 public:
  FunctionSource(pulse_ops_read_fn read, void* arg) : read_(read), arg_(arg) {}
  absl::StatusOr<size_t> Read(void* to, size_t size) override {
    const int64_t got = read_(arg_, to, size);
    if (got < 0 || static_cast<uint64_t>(got) > size) {
      return absl::AbortedError(absl::StrCat("the program's read function returned ", got));
    }
    return static_cast<size_t>(got);
  }

 private:
  const pulse_ops_read_fn read_;
  void* const arg_;
};

class FunctionSink : public ByteSink {
 public:
  FunctionSink(pulse_ops_write_fn write, void* arg) : write_(write), arg_(arg) {}
  absl::Status Write(absl::string_view bytes) override {
    if (bytes.empty()) return absl::OkStatus();
    const int said = write_(arg_, bytes.data(), bytes.size());
    if (said == 0) return absl::OkStatus();
    return absl::AbortedError(absl::StrCat("the program's write function returned ", said));
  }

 private:
  const pulse_ops_write_fn write_;
  void* const arg_;
};

// Counts, and takes no more than the limit.
class CountingSink : public ByteSink {
 public:
  CountingSink(ByteSink& to, uint64_t limit) : to_(to), limit_(limit) {}
  absl::Status Write(absl::string_view bytes) override {
    if (limit_ != 0 && bytes.size() > limit_ - written_) {
      return absl::OutOfRangeError(
          absl::StrCat("the output would be larger than the limit of ", limit_, " bytes"));
    }
    PULSE_RETURN_IF_ERROR(to_.Write(bytes));
    written_ += bytes.size();
    return absl::OkStatus();
  }
  uint64_t written() const { return written_; }

 private:
  ByteSink& to_;
  const uint64_t limit_;
  uint64_t written_ = 0;
};

Format FormatOf(int32_t format) {
  switch (format) {
    case PULSE_OPS_ZLIB:
      return Format::kZlib;
    case PULSE_OPS_BGZF:
      return Format::kBgzf;
    case PULSE_OPS_ZSTD:
      return Format::kZstd;
    case PULSE_OPS_LZ4:
      return Format::kLz4;
    default:
      return Format::kGzip;
  }
}

filter::Selection SelectionOf(const pulse_ops_request& request) {
  filter::Selection selection;
  selection.invert = (request.flags & PULSE_OPS_INVERT) != 0;
  if ((request.flags & PULSE_OPS_COUNT) != 0) selection.select = filter::Select::kCount;
  if ((request.flags & PULSE_OPS_EXTRACT) != 0) selection.select = filter::Select::kCaptures;
  return selection;
}

CompressOptions CompressOptionsOf(const pulse_ops_request& request, const Processors& processors) {
  CompressOptions options;
  options.format = FormatOf(request.format);
  options.level = request.level == 0 ? 6 : request.level;
  options.deterministic = (request.flags & PULSE_OPS_DETERMINISTIC) != 0;
  options.primed = (request.flags & PULSE_OPS_PRIMED) != 0;
  options.chunk_bytes = request.chunk_bytes;
  options.processors = processors;
  return options;
}

// From a source to a descriptor, or from one to a sink, by a thread of its own: a filter reads and
// writes descriptors.
class Bridge {
 public:
  // Its thread runs on these CPUs; none: where the caller runs.
  explicit Bridge(std::vector<int> cpus) : cpus_(std::move(cpus)) {}
  ~Bridge() {
    if (thread_.joinable()) thread_.join();
  }
  // The filter's end.
  absl::StatusOr<UniqueFd> From(ByteSource& source) {
    PULSE_RETURN_IF_ERROR(Open());
    PULSE_RETURN_IF_ERROR(Start([this, &source] {
      // The caller was told before which of these CPUs do not exist.
      SetThreadAffinity(cpus_).IgnoreError();
      status_ = CatchNoMemory([&] {
        std::string buffer(size_t{256} << 10, '\0');
        while (true) {
          const auto got = source.Read(buffer.data(), buffer.size());
          if (!got.ok() || *got == 0) return got.status();
          // The filter has ended, and says why.
          if (!WriteAll(write_.get(), {buffer.data(), *got}, "passing on", kInput).ok()) {
            return absl::OkStatus();
          }
        }
      });
      write_.reset();
    }));
    return std::move(read_);
  }
  absl::StatusOr<UniqueFd> To(ByteSink& sink) {
    PULSE_RETURN_IF_ERROR(Open());
    PULSE_RETURN_IF_ERROR(Start([this, &sink] {
      SetThreadAffinity(cpus_).IgnoreError();
      status_ = CatchNoMemory([&] {
        FdSource from(read_.get(), kOutput);
        std::string buffer(size_t{256} << 10, '\0');
        while (true) {
          const auto got = from.Read(buffer.data(), buffer.size());
          if (!got.ok() || *got == 0) return got.status();
          if (auto taken = sink.Write({buffer.data(), *got}); !taken.ok()) return taken;
        }
      });
      read_.reset();
    }));
    return std::move(write_);
  }
  // The filter's end is closed before.
  absl::Status Join() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  absl::Status Start(std::function<void()> work) {
    return StartThread("a filter", std::move(work), &thread_);
  }
  absl::Status Open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoError(errno, "making a pipe for", "a filter");
    read_.reset(fds[0]);
    write_.reset(fds[1]);
    EnlargePipe(fds[0]);
    return absl::OkStatus();
  }

  const std::vector<int> cpus_;
  UniqueFd read_;
  UniqueFd write_;
  std::thread thread_;
  absl::Status status_;
};

filter::SourceOptions SourceOptionsOf(const Request& request) {
  filter::SourceOptions options;
  options.records = request.rules->records();
  options.name = kInput;
  if (request.raw.max_record != 0) options.max_record = request.raw.max_record;
  options.max_record_option = "max_record";
  return options;
}

absl::Status RunFilterOn(const Request& request, const Processors& processors, ByteSource* source,
                         CountingSink& sink, pulse_ops_result* result) {
  const pulse_ops_request& raw = request.raw;
  filter::FilterOptions options;
  options.selection = SelectionOf(raw);
  options.source = SourceOptionsOf(request);
  options.plain = (raw.flags & PULSE_OPS_PLAIN) != 0;
  options.max_decompressed = raw.max_decompressed;
  options.out_name = kOutput;
  options.processors = processors;
  if (raw.format != 0) options.compress = FormatOf(raw.format);
  if (raw.level != 0) options.level = raw.level;
  const SerialCpus cpus = SerialCpusFor(processors);
  Bridge feeder(cpus.files);
  Bridge drainer(cpus.files);
  UniqueFd in;
  if (source != nullptr) {
    PULSE_ASSIGN_OR_RETURN(in, feeder.From(*source));
  }
  PULSE_ASSIGN_OR_RETURN(UniqueFd out, drainer.To(sink));
  const auto outcome = filter::RunFilter(*request.rules, options,
                                         source != nullptr ? in.get() : raw.in_fd, out.get());
  in.reset();
  out.reset();
  const absl::Status fed = feeder.Join();
  const absl::Status drained = drainer.Join();
  if (!drained.ok()) return drained;
  if (!fed.ok()) return fed;
  if (!outcome.ok()) return outcome.status();
  result->selected = outcome->selected;
  result->in_bytes = outcome->stats.input_bytes;
  result->trailing_garbage = outcome->garbage_offset.has_value() ? 1 : 0;
  return absl::OkStatus();
}

absl::StatusOr<Engine*> EngineFor(const Request& request, LaneCache* lane) {
  auto& kept = lane->filters;
  const uint32_t flags = request.raw.flags;
  auto it = std::find_if(kept.begin(), kept.end(), [&](const LaneCache::Filter& one) {
    return one.rules == request.rules && one.flags == flags;
  });
  if (it != kept.end()) {
    kept.splice(kept.begin(), kept, it);
    return kept.front().engine.get();
  }
  const filter::Selection selection = SelectionOf(request.raw);
  const EngineTraits traits{"filter", Side::kHost, 1, {}};
  // The rules live as long as the engine, wherever that is.
  const auto make = [rules = request.rules,
                     selection](EngineTraits of) -> absl::StatusOr<std::unique_ptr<Engine>> {
    return filter::FilterEngine::Make(rules.get(), selection, std::move(of));
  };
  std::unique_ptr<Engine> engine;
  if (lane->agent != nullptr) {
    PULSE_ASSIGN_OR_RETURN(
        engine, lane->agent->Make(filter::FilterOrder(*request.rules, selection,
                                                      filter::SourceOptions().chunk_bytes),
                                  traits, make));
  } else {
    PULSE_ASSIGN_OR_RETURN(engine, make(traits));
  }
  if (kept.size() >= kFiltersKept) kept.pop_back();
  kept.push_front({request.rules, flags, std::move(engine)});
  return kept.front().engine.get();
}

// Records in memory, by nothing else than this thread.
absl::Status FilterMemory(const Request& request, const Processors& processors, LaneCache* lane,
                          CountingSink& sink, pulse_ops_result* result) {
  const pulse_ops_request& raw = request.raw;
  Chunk chunk;
  chunk.input.Append(raw.in, raw.in_size);
  result->in_bytes = chunk.input.size();
  Result selected;
  if (chunk.input.size() > 0) {
    PULSE_ASSIGN_OR_RETURN(Engine * engine, EngineFor(request, lane));
    PULSE_RETURN_IF_ERROR(engine->Process(0, chunk, selected));
  }
  result->selected = selected.count;
  if (raw.format == 0 || (raw.flags & PULSE_OPS_COUNT) != 0) return sink.Write(selected.payload());
  MemorySource records(selected.payload());
  CompressOptions options;
  options.format = FormatOf(raw.format);
  options.level = raw.level == 0 ? 1 : raw.level;
  options.processors = processors;
  return Compress(options, records, sink, kOutput).status();
}

absl::Status Do(const Request& request, const Processors& processors, ByteSource* source,
                LaneCache* lane, CountingSink& sink, pulse_ops_result* result) {
  const pulse_ops_request& raw = request.raw;
  if (raw.operation == PULSE_OPS_FILTER) {
    const absl::string_view memory(static_cast<const char*>(raw.in), raw.in_size);
    const bool compressed = (raw.flags & PULSE_OPS_PLAIN) == 0 &&
                            filter::IsCompressedInput(memory.substr(0, kRecogniseBytes));
    // What becomes larger than it is goes through pipes, so that memory is bounded, and so does
    // what may have a record that is too long.
    const filter::SourceOptions source_options = SourceOptionsOf(request);
    const uint64_t most = std::max(source_options.max_record, source_options.chunk_bytes);
    if (lane != nullptr && !compressed && raw.in_size <= most) {
      return FilterMemory(request, processors, lane, sink, result);
    }
    Processors all = processors;
    all.in_calling_thread = false;
    return RunFilterOn(request, all, source, sink, result);
  }
  if (raw.operation == PULSE_OPS_COMPRESS) {
    const CompressOptions options = CompressOptionsOf(raw, processors);
    PULSE_ASSIGN_OR_RETURN(const QueueStats stats,
                           source != nullptr ? Compress(options, *source, sink, kOutput)
                                             : Compress(options, raw.in_fd, kInput, sink, kOutput));
    result->in_bytes = stats.input_bytes;
    return absl::OkStatus();
  }
  DecompressOptions options;
  options.max_output = raw.max_output;
  options.processors = processors;
  FdSource file(raw.in_fd, kInput);
  PULSE_ASSIGN_OR_RETURN(
      const DecompressReport report,
      Decompress(options, source != nullptr ? *source : file, kInput, sink, kOutput));
  result->in_bytes = report.input_bytes;
  result->trailing_garbage = report.trailing_garbage ? 1 : 0;
  return absl::OkStatus();
}

int CodeOf(const absl::Status& status) {
  if (status.ok()) return PULSE_OPS_OK;
  if (ErrnoOf(status) != 0) return PULSE_OPS_IO;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return PULSE_OPS_INVALID;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
      return PULSE_OPS_IO;
    case absl::StatusCode::kDataLoss:
      return PULSE_OPS_DAMAGED;
    case absl::StatusCode::kNotFound:
      return PULSE_OPS_NOT_COMPRESSED;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kOutOfRange:
      return PULSE_OPS_TOO_LARGE;
    case absl::StatusCode::kCancelled:
      return PULSE_OPS_CANCELLED;
    default:
      return PULSE_OPS_FAILED;
  }
}

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status CheckCompress(const pulse_ops_request& raw) {
  if (raw.level < 0 || raw.level > 9) return Wrong("level is 1 to 9, or 0");
  if (raw.format < 0 || raw.format > PULSE_OPS_LZ4) return Wrong("format is none that is known");
  return absl::OkStatus();
}

absl::Status CheckOperation(const pulse_ops_request& raw) {
  switch (raw.operation) {
    case PULSE_OPS_COMPRESS:
      PULSE_RETURN_IF_ERROR(CheckCompress(raw));
      if ((raw.flags & ~kCompressFlags) != 0) return Wrong("flags that compress does not have");
      break;
    case PULSE_OPS_DECOMPRESS:
      if (raw.format != 0 || raw.level != 0 || raw.flags != 0) {
        return Wrong("decompress has neither format nor level nor flags: the input says it");
      }
      break;
    case PULSE_OPS_FILTER:
      PULSE_RETURN_IF_ERROR(CheckCompress(raw));
      if ((raw.flags & ~kFilterFlags) != 0) return Wrong("flags that filter does not have");
      if ((raw.flags & PULSE_OPS_EXTRACT) != 0 &&
          (raw.flags & ~uint32_t{PULSE_OPS_PLAIN}) != PULSE_OPS_EXTRACT) {
        return Wrong("PULSE_OPS_EXTRACT goes together with no other flag than PULSE_OPS_PLAIN");
      }
      if (raw.rules == nullptr) return Wrong("filter needs rules");
      if (raw.max_record > filter::kMostRecordBytes) return Wrong("max_record is at most 1 GiB");
      break;
    default:
      return Wrong("operation is none that is known");
  }
  if (raw.operation != PULSE_OPS_FILTER &&
      (raw.rules != nullptr || raw.max_record != 0 || raw.max_decompressed != 0)) {
    return Wrong("rules, max_record and max_decompressed are for filter");
  }
  if (raw.operation != PULSE_OPS_COMPRESS && raw.chunk_bytes != 0) {
    return Wrong("chunk_bytes is for compress");
  }
  return absl::OkStatus();
}

}  // namespace

// Of the first release.
constexpr size_t LeastSize(const pulse_ops_options*) { return offsetof(pulse_ops_options, agent); }
constexpr size_t LeastSize(const pulse_ops_request*) {
  return offsetof(pulse_ops_request, max_decompressed);
}

template <typename T>
absl::Status CopyStruct(const T* from, T* to) {
  return pulse::CopyStruct(from, LeastSize(from), to);
}
template absl::Status CopyStruct(const pulse_ops_options* from, pulse_ops_options* to);
template absl::Status CopyStruct(const pulse_ops_request* from, pulse_ops_request* to);

absl::StatusOr<Request> CheckRequest(const pulse_ops_request* request, Way way) {
  if (request == nullptr) return Wrong("no request");
  Request checked;
  PULSE_RETURN_IF_ERROR(CopyStruct(request, &checked.raw));
  const pulse_ops_request& raw = checked.raw;
  PULSE_RETURN_IF_ERROR(CheckOperation(raw));
  const bool memory = raw.in != nullptr || raw.in_size != 0;
  if (raw.in == nullptr && raw.in_size != 0) return Wrong("in is NULL, and in_size is not 0");
  const int inputs = (memory ? 1 : 0) + (raw.in_fd >= 0 ? 1 : 0) + (raw.read != nullptr ? 1 : 0);
  if (inputs > 1) return Wrong("more than one input");
  if (way == Way::kStream && inputs > 0) return Wrong("the input of a stream is what is written");
  if (way == Way::kSubmit && (raw.in_fd >= 0 || raw.read != nullptr)) {
    return Wrong("a request that is submitted has its input in memory");
  }
  if (way == Way::kSubmit && raw.progress != nullptr) {
    return Wrong("a request that is submitted has no progress");
  }
  if (way != Way::kSubmit && raw.done != nullptr) {
    return Wrong("done is for requests that are submitted");
  }
  if (raw.out_fd >= 0 && raw.write != nullptr) return Wrong("more than one output");
  if (raw.rules != nullptr) checked.rules = raw.rules->set;
  return checked;
}

pulse_ops_result ResultOf(const absl::Status& status, uint64_t tag) {
  pulse_ops_result result;
  pulse_ops_result_init(&result);
  result.tag = tag;
  result.code = CodeOf(status);
  result.error_offset = DamageOffset(status).value_or(PULSE_OPS_NO_OFFSET);
  if (!status.ok()) {
    const absl::string_view text = status.message().substr(0, sizeof(result.message) - 1);
    std::memcpy(result.message, text.data(), text.size());
  }
  return result;
}

size_t TaskOf(const pulse_ops_request& raw) {
  EngineOrder order;
  if (raw.operation == PULSE_OPS_FILTER) {
    order.kind = EngineOrder::Kind::kFilter;
  } else if (raw.operation == PULSE_OPS_COMPRESS) {
    const CompressOptions options = CompressOptionsOf(raw, {});
    order.kind = EngineOrder::Kind::kCompress;
    order.codec = static_cast<uint8_t>(
        PickCodec(options.format, options.level, options.deterministic, options.primed));
  } else {
    const absl::string_view memory(static_cast<const char*>(raw.in), raw.in_size);
    const auto format = Recognise(memory.substr(0, kRecogniseBytes));
    const bool zstd = format.ok() && *format == Format::kZstd;
    const bool lz4 = format.ok() && *format == Format::kLz4;
    order.kind = EngineOrder::Kind::kDecompress;
    order.format = static_cast<uint8_t>(zstd  ? Piece::kZstd
                                        : lz4 ? Piece::kLz4
                                              : Piece::kMarkedCrc);
  }
  return TaskOf(order);
}

pulse_ops_result Execute(const Request& request, const Processors& processors, ByteSource* stream,
                         LaneCache* lane) {
  const SigpipeBlock no_signal;
  const pulse_ops_request& raw = request.raw;
  Processors mine = processors;
  mine.in_calling_thread = lane != nullptr;
  mine.engines = lane != nullptr ? &lane->engines : nullptr;
  mine.lane_agent = lane != nullptr ? lane->agent : nullptr;
  if (raw.progress != nullptr) {
    mine.progress = [&raw](uint64_t in, uint64_t out) {
      return raw.progress(raw.progress_arg, in, out) == 0;
    };
  }
  MemorySource memory({static_cast<const char*>(raw.in), raw.in_size});
  FunctionSource function(raw.read, raw.read_arg);
  ByteSource* source = stream;
  if (source == nullptr && raw.read != nullptr) source = &function;
  // Neither of all: the input of no bytes.
  if (source == nullptr && raw.in_fd < 0) source = &memory;
  auto bytes = std::make_unique<Buffer>();
  BufferSink buffer(bytes.get());
  FdSink file(raw.out_fd, kOutput);
  FunctionSink program(raw.write, raw.write_arg);
  ByteSink* sink = raw.out_fd >= 0        ? static_cast<ByteSink*>(&file)
                   : raw.write != nullptr ? static_cast<ByteSink*>(&program)
                                          : &buffer;
  CountingSink counting(*sink, raw.operation == PULSE_OPS_DECOMPRESS ? 0 : raw.max_output);
  pulse_ops_result found{};
  const absl::Status status =
      CatchNoMemory([&] { return Do(request, mine, source, lane, counting, &found); });
  pulse_ops_result result = ResultOf(status, raw.tag);
  result.in_bytes = found.in_bytes;
  result.selected = found.selected;
  result.trailing_garbage = found.trailing_garbage;
  result.out_bytes = counting.written();
  if (sink == &buffer && bytes->size() > 0) {
    result.data = bytes->data();
    result.size = bytes->size();
    result.reserved = bytes.release();
  }
  return result;
}

bool IsResult(const pulse_ops_result* result) {
  return result != nullptr && result->struct_size >= sizeof(pulse_ops_result) &&
         result->struct_size <= (size_t{1} << 16);
}

int StoreResult(pulse_ops_result* from, pulse_ops_result* to) {
  const size_t size = to->struct_size;
  // What a newer header has behind it says nothing.
  std::memset(to, 0, size);
  std::memcpy(to, from, sizeof(*from));
  to->struct_size = size;
  pulse_ops_result_init(from);
  return to->code;
}

}  // namespace pulse::ops
