#include "services/ops/decompress.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "services/ops/ahead/ahead_decoder.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/file_io.h"
#include "services/ops/format.h"
#include "services/ops/index/index_builder.h"
#include "services/ops/index/indexed_source.h"
#include "services/ops/lz4_frame.h"
#include "services/ops/queue.h"

namespace pulse::ops {
namespace {

// What a piece is taken for before it is seen.
constexpr uint64_t kUsualPiece = uint64_t{1} << 20;
constexpr size_t kGzipFixedHeader = 10;

// Writes what engines decoded, and keeps what the checks at the end of a member need.
class PieceSink : public Sink {
 public:
  PieceSink(Piece piece, bool content_checksum, OutputWriter& out)
      : piece_(piece), content_checksum_(content_checksum), out_(out) {
    checksum_ = piece == Piece::kMarkedAdler ? 1 : 0;
  }

  absl::Status Take(const Chunk& chunk, Result& result) override {
    const absl::string_view bytes = result.payload();
    if (piece_ == Piece::kMarkedCrc) {
      checksum_ = static_cast<uint32_t>(
          crc32_combine64(checksum_, result.checksum, static_cast<off64_t>(bytes.size())));
    } else if (piece_ == Piece::kMarkedAdler) {
      checksum_ = static_cast<uint32_t>(
          adler32_combine64(checksum_, result.checksum, static_cast<off64_t>(bytes.size())));
    }
    if (content_checksum_) xxh32_.Add(bytes.data(), bytes.size());
    size_ += bytes.size();
    if (piece_ == Piece::kMarkedCrc || piece_ == Piece::kMarkedAdler) {
      KeepLast(window_, bytes, kDeflateWindow);
    }
    return out_.Write(bytes);
  }

  uint32_t checksum() const { return checksum_; }
  uint32_t content_checksum() const { return xxh32_.Digest(); }
  uint64_t size() const { return size_; }
  // The last 32 KiB.
  absl::string_view window() const { return window_.view(); }

 private:
  const Piece piece_;
  const bool content_checksum_;
  OutputWriter& out_;
  uint32_t checksum_;
  Xxh32Stream xxh32_;
  uint64_t size_ = 0;
  Buffer window_;
};

class Decompressor {
 public:
  // `builder`: makes an index of the input; may be null.
  Decompressor(const DecompressOptions& options, InputReader& in, OutputWriter& out,
               IndexBuilder* builder)
      : options_(options), in_(in), out_(out), builder_(builder) {}

  // An agent's answer to the last report is waited for: once, and not at each member's end.
  ~Decompressor() {
    PlacementReport last;
    last.placement = options_.processors.placement.kind;
    last.ended = true;
    for (const auto& [piece, made] : made_) {
      if (options_.processors.in_calling_thread || !made.ran) continue;
      for (Engine* engine : made.engines) engine->Explain(last);
      const QueueOptions of = OptionsFor(options_.processors, OrderOf(piece));
      if (of.report) of.report(last);
    }
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // By a good index of the file `fd`.
  absl::Status RunIndexed(const GzipIndex& index, int fd) {
    const DataRange range = options_.range.value_or(DataRange());
    if (options_.range.has_value() && range.begin > index.data_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(in_.name(), " has ", index.data_bytes,
                                                     " bytes of data; the range begins at ",
                                                     range.begin));
    }
    IndexedSource source(index, range, fd, in_.name());
    IndexedSink sink(index, range, source, fd, in_.name(), out_);
    PULSE_RETURN_IF_ERROR(RunQueue(Piece::kIndexed, source, sink, source.TotalBytes()));
    report.by_index = true;
    report.members = index.members();
    report.parallel_members = report.members;
    report.trailing_garbage = sink.garbage();
    report.garbage_offset = index.end;
    return absl::OkStatus();
  }

  absl::Status Run() {
    Format last = Format::kGzip;
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view head, in_.Peek(kRecogniseBytes));
      if (head.empty()) break;
      const absl::StatusOr<Format> format = Recognise(head);
      if (report.members == 0) PULSE_RETURN_IF_ERROR(CheckFirst(format));
      // zlib's header is too short to tell it from garbage behind something else, or from text.
      const bool garbage = !format.ok() || (*format == Format::kZlib &&
                                            (report.members > 0 || options_.pass_unknown));
      if (garbage && report.members == 0 && !options_.pass_unknown) {
        return absl::NotFoundError(absl::StrCat(in_.name(), ": ", format.status().message()));
      }
      if (garbage) {
        PULSE_RETURN_IF_ERROR(CheckGarbage(head, last));
        if (options_.pass_unknown && (report.members == 0 || head.front() != '\0')) return PassOn();
        PULSE_RETURN_IF_ERROR(SkipGarbage());
        break;
      }
      const uint64_t begin = in_.offset();
      if (builder_ != nullptr && *format != Format::kGzip) {
        builder_->GiveUp(absl::StrCat("it has ", FormatName(*format), " data"));
      }
      PULSE_RETURN_IF_ERROR(Member(*format, begin));
      ++report.members;
      last = *format;
      end_of_members_ = in_.offset();
    }
    if (report.members == 0 && !options_.pass_unknown) {
      return absl::DataLossError(
          absl::StrCat(in_.name(), " is empty: unexpected end of the input"));
    }
    return absl::OkStatus();
  }
  // Data that were decoded ahead of their place.
  uint64_t ahead_bytes() const { return ahead_ == nullptr ? 0 : ahead_->taken(); }
  // Where the last member ended.
  uint64_t end_of_members() const { return end_of_members_; }

  DecompressReport report;

 private:
  // Whether the input begins as it was said to.
  absl::Status CheckFirst(const absl::StatusOr<Format>& format) const {
    if (!options_.format.has_value()) return absl::OkStatus();
    const Format wanted = *options_.format;
    const bool right =
        format.ok() && (*format == wanted || (wanted == Format::kGzip && *format == Format::kBgzf));
    if (right) return absl::OkStatus();
    const std::string begins = format.ok()
                                   ? absl::StrCat(", but as ", FormatName(*format), " does; name ",
                                                  FormatName(*format), " as the input's format")
                                   : "; name another format of the input";
    return absl::NotFoundError(absl::StrCat(in_.name(), " does not begin as ", FormatName(wanted),
                                            " does", begins, ", or leave --input-format out"));
  }

  absl::Status Member(Format format, uint64_t begin) {
    switch (format) {
      case Format::kGzip:
        return Gzip();
      case Format::kZlib:
        return Zlib();
      case Format::kBgzf:
        return Bgzf(begin);
      case Format::kZstd:
        return Zstd();
      case Format::kLz4:
        return Lz4();
    }
    return absl::OkStatus();
  }

  // What a serial decoder or a check says, with its place.
  absl::Status At(const absl::Status& status, uint64_t offset) const {
    if (!absl::IsDataLoss(status)) return status;
    return absl::DataLossError(
        absl::StrCat(in_.name(), " is damaged at offset ", offset, ": ", status.message()));
  }
  absl::Status Damage(uint64_t offset, absl::string_view what) const {
    return At(absl::DataLossError(what), offset);
  }

  absl::Status Gzip() {
    size_t want = kRecogniseBytes;
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view head, in_.Peek(want));
      const absl::StatusOr<size_t> size = GzipHeaderSize(head);
      if (size.ok()) {
        in_.Consume(*size);
        break;
      }
      if (!absl::IsOutOfRange(size.status())) return At(size.status(), in_.offset());
      if (head.size() < want) return Damage(in_.offset() + head.size(), "it ends in a header");
      if (want == InputReader::kPiece) return Damage(in_.offset(), "a header of 256 KiB");
      want = std::min(want * 4, InputReader::kPiece);
    }
    uint64_t size = 0;
    PULSE_ASSIGN_OR_RETURN(const uint32_t crc, Deflate(Piece::kMarkedCrc, size));
    const uint64_t at = in_.offset();
    PULSE_ASSIGN_OR_RETURN(const absl::string_view trailer, in_.Peek(8));
    if (trailer.size() < 8) return Damage(at + trailer.size(), "it ends in a trailer");
    if (LoadLe32(trailer.data()) != crc) return Damage(at, "the CRC-32 of the data is another one");
    if (LoadLe32(trailer.data() + 4) != static_cast<uint32_t>(size)) {
      return Damage(at + 4, "the size of the data is another one");
    }
    in_.Consume(8);
    return absl::OkStatus();
  }

  absl::Status Zlib() {
    in_.Consume(2);
    uint64_t size = 0;
    PULSE_ASSIGN_OR_RETURN(const uint32_t adler, Deflate(Piece::kMarkedAdler, size));
    const uint64_t at = in_.offset();
    PULSE_ASSIGN_OR_RETURN(const absl::string_view trailer, in_.Peek(4));
    if (trailer.size() < 4) return Damage(at + trailer.size(), "it ends in a trailer");
    if (LoadBe32(trailer.data()) != adler) {
      return Damage(at, "the Adler-32 of the data is another one");
    }
    in_.Consume(4);
    return absl::OkStatus();
  }

  // One thread decodes, others read and write. What it says about damage gets its place.
  absl::Status Serially(OutputWriter::Check check, uint32_t checksum,
                        const std::function<absl::Status()>& decode) {
    if (!options_.processors.in_calling_thread) {
      in_.StartAhead(SerialCpusFor(options_.processors).files);
    }
    out_.StartCheck(check, checksum);
    if (options_.processors.progress) {
      in_.SetHook([this]() -> absl::Status {
        if (options_.processors.progress(in_.offset(), out_.written())) return absl::OkStatus();
        return absl::CancelledError("cancelled");
      });
    }
    const absl::Status status = decode();
    in_.SetHook(nullptr);
    const absl::Status flushed = out_.Flush();
    if (!status.ok()) return At(status, in_.offset());
    return flushed;
  }

  // DEFLATE data up to its end. Returns its checksum.
  absl::StatusOr<uint32_t> Deflate(Piece piece, uint64_t& size) {
    PULSE_ASSIGN_OR_RETURN(const absl::string_view head, in_.Peek(kMarkRoom));
    uint32_t checksum = piece == Piece::kMarkedAdler ? 1 : 0;
    Buffer window;
    const bool marked = ReadMark(head).has_value();
    if (marked) {
      if (builder_ != nullptr) builder_->GiveUp("its chunks are decoded in parallel as they are");
      MarkedSource source(in_);
      PieceSink sink(piece, false, out_);
      PULSE_RETURN_IF_ERROR(RunQueue(piece, source, sink, in_.Left()));
      checksum = sink.checksum();
      size = sink.size();
      PULSE_ASSIGN_OR_RETURN(const absl::string_view end, in_.Peek(kDeflateEnd.size()));
      if (absl::StartsWith(end, kDeflateEnd)) {
        in_.Consume(kDeflateEnd.size());
        ++report.parallel_members;
        return checksum;
      }
      // The rest has no marks: somebody else went on with the stream.
      window.Append(sink.window());
    }
    const uint64_t before = out_.written();
    PULSE_RETURN_IF_ERROR(Serially(
        piece == Piece::kMarkedAdler ? OutputWriter::Check::kAdler32 : OutputWriter::Check::kCrc32,
        checksum, [&] {
          return builder_ != nullptr && !marked ? InflateIndexing(in_, out_, *builder_)
                                                : InflateInOrder(in_, out_, window.view(), Ahead());
        }));
    size += out_.written() - before;
    return out_.checksum();
  }

  // Threads for the CPUs beside that of the one that decodes in order, if there are any.
  AheadDecoder* Ahead() {
    if (options_.processors.in_calling_thread) return nullptr;
    if (ahead_ != nullptr) return ahead_.get();
    const std::vector<int> cpus = SerialCpusFor(options_.processors).decoder;
    const int all = cpus.empty() ? AllowedCpus() : static_cast<int>(cpus.size());
    if (all < 2) return nullptr;
    AheadDecoder::Options ahead;
    ahead.workers = static_cast<size_t>(all - 1);
    ahead.cpus = cpus;
    ahead.stretch = AheadDecoder::StretchFor(ahead.workers);
    ahead_ = std::make_unique<AheadDecoder>(std::move(ahead));
    return ahead_.get();
  }

  absl::Status Bgzf(uint64_t begin) {
    BgzfSource source(in_, Together());
    PieceSink sink(Piece::kBgzf, false, out_);
    PULSE_RETURN_IF_ERROR(RunQueue(Piece::kBgzf, source, sink, in_.Left()));
    // A block whose size makes no sense: what is in it decides.
    if (in_.offset() == begin) return Gzip();
    ++report.parallel_members;
    return absl::OkStatus();
  }

  absl::Status Zstd() {
    PULSE_ASSIGN_OR_RETURN(const bool fits, ZstdSource::Fits(in_));
    if (fits) {
      ZstdSource source(in_, Together());
      PieceSink sink(Piece::kZstd, false, out_);
      PULSE_RETURN_IF_ERROR(RunQueue(Piece::kZstd, source, sink, in_.Left()));
      ++report.parallel_members;
      return absl::OkStatus();
    }
    return Serially(OutputWriter::Check::kNone, 0, [&] { return ZstdSerial(in_, out_); });
  }

  absl::Status Lz4() {
    PULSE_ASSIGN_OR_RETURN(const absl::string_view head, in_.Peek(32));
    const absl::StatusOr<Lz4Header> header = ReadLz4Header(head);
    if (absl::IsOutOfRange(header.status())) {
      return Damage(in_.offset() + head.size(), "it ends in a header");
    }
    if (!header.ok()) return At(header.status(), in_.offset());
    if (!header->independent || header->dictionary) {
      return Serially(OutputWriter::Check::kNone, 0, [&] { return Lz4Serial(in_, out_); });
    }
    in_.Consume(header->size);
    Lz4Source source(in_, *header, Together());
    PieceSink sink(Piece::kLz4, header->content_checksum, out_);
    PULSE_RETURN_IF_ERROR(RunQueue(Piece::kLz4, source, sink, in_.Left()));
    ++report.parallel_members;
    const size_t end = 4 + (header->content_checksum ? 4 : 0);
    PULSE_ASSIGN_OR_RETURN(const absl::string_view trailer, in_.Peek(end));
    if (trailer.size() < end) return Damage(in_.offset() + trailer.size(), "it ends in a trailer");
    if (header->content_size.has_value() && *header->content_size != sink.size()) {
      return Damage(in_.offset(), absl::StrCat("the frame has ", sink.size(),
                                               " bytes, and is to have ", *header->content_size));
    }
    if (header->content_checksum && LoadLe32(&trailer[4]) != sink.content_checksum()) {
      return Damage(in_.offset() + 4, "the XXH32 of the content is another one");
    }
    in_.Consume(end);
    return absl::OkStatus();
  }

  // A decoder that finds damage gives nothing of its chunk back.
  PieceSource::Together Together() const {
    return options_.salvage ? PieceSource::Together::kOne : PieceSource::Together::kSmall;
  }

  static EngineOrder OrderOf(Piece piece) {
    EngineOrder order;
    order.kind = EngineOrder::Kind::kDecompress;
    order.format = static_cast<uint8_t>(piece);
    order.chunk_bytes = kUsualPiece;
    return order;
  }

  // `total`: of the input, compressed, where that is known. There may be less of this piece: then
  // the last chunks are shared as if some more followed.
  absl::Status RunQueue(Piece piece, Source& source, Sink& sink, std::optional<uint64_t> total) {
    Made& made = made_[piece];
    const EngineOrder order = OrderOf(piece);
    if (made.engines.empty()) {
      PULSE_ASSIGN_OR_RETURN(
          made.engines, MakeEngines(
                            options_.processors, DecoderName(piece),
                            absl::StrCat("decompress/", static_cast<int>(piece)),
                            [piece](EngineTraits of) -> absl::StatusOr<std::unique_ptr<Engine>> {
                              return MakeDecoder(piece, std::move(of));
                            },
                            order, made.owned));
    }
    QueueOptions queue_options = OptionsFor(options_.processors, order);
    queue_options.operation = absl::StrCat("decompress/", DecoderName(piece));
    queue_options.chunk_bytes = 256 << 10;
    queue_options.total_bytes = total;
    queue_options.continues = true;
    made.ran = true;
    Queue* running = nullptr;
    const uint64_t before = in_.offset();
    if (options_.processors.progress) {
      queue_options.tick = [&] {
        if (!options_.processors.progress(before + running->input_bytes(), out_.written())) {
          running->Cancel();
        }
      };
    }
    Queue queue(std::move(queue_options), made.engines);
    running = &queue;
    const absl::Status status = queue.Run(source, sink);
    report.queues[std::string(DecoderName(piece))].Add(queue.stats());
    // The engines do not know the file's name.
    if (absl::IsDataLoss(status) && !absl::StrContains(status.message(), in_.name())) {
      return absl::DataLossError(absl::StrCat(in_.name(), " is ", status.message()));
    }
    return status;
  }

  // Behind members of gzip anything may follow but the beginning of another one. Behind frames of
  // zstd and LZ4 something else is a frame that was damaged: their own programs say so, too.
  absl::Status CheckGarbage(absl::string_view head, Format last) const {
    if (last == Format::kZstd || last == Format::kLz4) {
      return Damage(in_.offset(),
                    absl::StrCat("no frame follows the last one of ", FormatName(last)));
    }
    if (head[0] != '\x1f' || (head.size() > 1 && head[1] != '\x8b')) return absl::OkStatus();
    if (head.size() < kGzipFixedHeader) {
      return Damage(in_.offset() + head.size(), "it ends in a header");
    }
    return Damage(in_.offset(), "a gzip header with an unknown method");
  }

  // All that is left of the input, as it is.
  absl::Status PassOn() {
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view piece, in_.Piece());
      if (piece.empty()) return absl::OkStatus();
      PULSE_RETURN_IF_ERROR(out_.Write(piece));
      in_.Consume(piece.size());
    }
  }

  absl::Status SkipGarbage() {
    report.garbage_offset = in_.offset();
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view piece, in_.Piece());
      if (piece.empty()) return absl::OkStatus();
      for (const char c : piece) report.trailing_garbage |= c != '\0';
      if (report.trailing_garbage) return absl::OkStatus();
      in_.Consume(piece.size());
    }
  }

  // The engines for one kind of piece, made for the first member that has it.
  struct Made {
    std::vector<std::unique_ptr<Engine>> owned;
    std::vector<Engine*> engines;
    bool ran = false;
  };

  const DecompressOptions& options_;
  InputReader& in_;
  OutputWriter& out_;
  IndexBuilder* const builder_;
  uint64_t end_of_members_ = 0;
  std::map<Piece, Made> made_;
  std::unique_ptr<AheadDecoder> ahead_;  // made for the first member that may need it
};

DecompressReport ReportOf(Decompressor& decompressor, uint64_t input_bytes,
                          const OutputWriter& writer) {
  DecompressReport report = std::move(decompressor.report);
  report.input_bytes = input_bytes;
  report.output_bytes = writer.written();
  report.ahead_bytes = decompressor.ahead_bytes();
  return report;
}

absl::StatusOr<DecompressReport> DecompressByIndex(const DecompressOptions& options, int in,
                                                   ByteSource& source, const std::string& in_name,
                                                   ByteSink& sink, const std::string& out_name,
                                                   bool write_index) {
  struct stat info;
  if (fstat(in, &info) != 0) return ErrnoError(errno, "reading", in_name);
  if (!S_ISREG(info.st_mode) || lseek(in, 0, SEEK_CUR) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(in_name, ": an index is of a whole file, which this is not"));
  }
  if (options.index.empty()) {
    return absl::InvalidArgumentError("a range needs an index");
  }
  InputReader reader(source, in_name);
  const SerialCpus cpus = SerialCpusFor(options.processors);
  const ScopedThreadAffinity placed(cpus.decoder);
  OutputWriter writer(sink, out_name, options.max_output, !options.processors.in_calling_thread,
                      cpus.files);
  std::vector<std::string> remarks;
  const auto index = LoadIndex(options.index, in, in_name);
  if (index.ok()) {
    Decompressor decompressor(options, reader, writer, nullptr);
    const absl::Status run = decompressor.RunIndexed(*index, in);
    if (options.written != nullptr) *options.written = writer.written();
    if (!run.ok()) return run;
    return ReportOf(decompressor, index->file_bytes, writer);
  }
  const bool stale = absl::IsDataLoss(index.status()) || absl::IsFailedPrecondition(index.status());
  if (!stale && !absl::IsNotFound(index.status())) return index.status();
  if (options.range.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        index.status().message(),
        "; decompress the whole file with --index once, which writes it, and then the range"));
  }
  if (stale) remarks.push_back(absl::StrCat(index.status().message(), "; it is not used"));

  GzipIndex described;
  PULSE_RETURN_IF_ERROR(Describe(in, in_name, &described));
  IndexBuilder builder;
  Decompressor decompressor(options, reader, writer, write_index ? &builder : nullptr);
  const absl::Status run = decompressor.Run();
  if (options.written != nullptr) *options.written = writer.written();
  if (!run.ok()) return run;
  auto built = builder.Take();
  bool index_failed = false;
  if (!write_index) {
    // Nothing is written.
  } else if (built.ok()) {
    GzipIndex now;
    PULSE_RETURN_IF_ERROR(Describe(in, in_name, &now));
    built->file_bytes = now.file_bytes;
    built->changed_nanos = now.changed_nanos;
    built->sample_crc = now.sample_crc;
    built->end = decompressor.end_of_members();
    built->garbage = decompressor.report.trailing_garbage;
    const bool same =
        now.file_bytes == described.file_bytes && now.changed_nanos == described.changed_nanos;
    const absl::Status saved =
        same ? SaveIndex(options.index, *built, in)
             : absl::AbortedError(absl::StrCat(in_name, " was changed while it was read"));
    index_failed = !saved.ok();
    if (!saved.ok()) remarks.push_back(absl::StrCat("no index: ", saved.message()));
  } else {
    remarks.push_back(absl::StrCat("no index of ", in_name, ": ", built.status().message()));
  }
  DecompressReport report = ReportOf(decompressor, reader.offset(), writer);
  report.remarks = std::move(remarks);
  report.index_failed = index_failed;
  return report;
}

}  // namespace

absl::StatusOr<DecompressReport> Decompress(const DecompressOptions& options, int in,
                                            const std::string& in_name, int out,
                                            const std::string& out_name) {
  FdSource source(in, in_name);
  FdSink sink(out, out_name);
  if (options.index.empty() && !options.range.has_value()) {
    return Decompress(options, source, in_name, sink, out_name);
  }
  return DecompressByIndex(options, in, source, in_name, sink, out_name, out >= 0);
}

absl::StatusOr<DecompressReport> Decompress(const DecompressOptions& options, ByteSource& in,
                                            const std::string& in_name, ByteSink& out,
                                            const std::string& out_name) {
  InputReader reader(in, in_name);
  const SerialCpus cpus = SerialCpusFor(options.processors);
  const ScopedThreadAffinity placed(cpus.decoder);
  OutputWriter writer(out, out_name, options.max_output, !options.processors.in_calling_thread,
                      cpus.files);
  Decompressor decompressor(options, reader, writer, nullptr);
  const absl::Status status = decompressor.Run();
  if (options.written != nullptr) *options.written = writer.written();
  if (!status.ok()) return status;
  return ReportOf(decompressor, reader.offset(), writer);
}

std::string DecompressReport::Explain() const {
  std::string text =
      absl::StrCat(members, members == 1 ? " member, " : " members, ", parallel_members,
                   " of them in parallel, ", output_bytes, " bytes");
  if (ahead_bytes > 0) absl::StrAppend(&text, ", ", ahead_bytes, " of them decoded ahead");
  for (const auto& [decoder, queue] : queues) {
    absl::StrAppend(&text, "; ", decoder, ": ", queue.Explain());
  }
  return text;
}

std::optional<uint64_t> DamageOffset(const absl::Status& status) {
  // Names of files, which could hold these words, stand before them.
  static constexpr absl::string_view kWords = " at offset ";
  if (!absl::IsDataLoss(status)) return std::nullopt;
  const absl::string_view text = status.message();
  const size_t at = text.rfind(kWords);
  if (at == absl::string_view::npos) return std::nullopt;
  uint64_t offset = 0;
  const char* begin = text.data() + at + kWords.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), offset);
  if (error != std::errc() || end == begin) return std::nullopt;
  return offset;
}

}  // namespace pulse::ops
