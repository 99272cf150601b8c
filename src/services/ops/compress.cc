#include "services/ops/compress.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/file_io.h"
#include "services/ops/lz4_frame.h"
#include "services/ops/queue.h"

namespace pulse::ops {
namespace {

// A regular file: the lanes read their chunks themselves.
class FileChunks : public Source {
 public:
  FileChunks(int fd, std::string name, off_t begin, off_t end, size_t chunk, size_t prefix)
      : fd_(fd), name_(std::move(name)), begin_(begin), end_(end), chunk_(chunk), prefix_(prefix) {
    posix_fadvise(fd_, begin, 0, POSIX_FADV_SEQUENTIAL);
  }

  absl::StatusOr<bool> Next(Chunk& chunk) override {
    if (at_ >= end_ - begin_) {
      // It may have grown.
      struct stat now;
      if (fstat(fd_, &now) != 0) return ErrnoError(errno, "reading", name_);
      end_ = std::max(end_, now.st_size);
      if (at_ >= end_ - begin_) return false;
    }
    const auto left = static_cast<uint64_t>(end_ - begin_ - at_);
    const size_t size = std::min<uint64_t>(chunk_, left);
    chunk.offset = static_cast<uint64_t>(at_);
    chunk.prefix = std::min<uint64_t>(prefix_, chunk.offset);
    chunk.input.Clear();
    chunk.input.Resize(chunk.prefix + size);
    at_ += static_cast<off_t>(size);
    return true;
  }

  absl::Status Load(Chunk& chunk) override {
    const auto at = static_cast<uint64_t>(begin_) + chunk.offset - chunk.prefix;
    PULSE_ASSIGN_OR_RETURN(
        const size_t n, ReadAt(fd_, chunk.input.data(), chunk.input.size(), at, "reading", name_));
    if (n == chunk.input.size()) return absl::OkStatus();
    struct stat now;
    if (fstat(fd_, &now) != 0) return ErrnoError(errno, "reading", name_);
    return absl::DataLossError(absl::StrCat(name_, " became shorter while it was read: it ends at ",
                                            now.st_size, ", and had bytes up to ",
                                            at + chunk.input.size()));
  }

 private:
  const int fd_;
  const std::string name_;
  const off_t begin_;
  off_t end_;
  const size_t chunk_;
  const size_t prefix_;
  off_t at_ = 0;  // from begin_
};

// Anything else.
class StreamChunks : public Source {
 public:
  StreamChunks(ByteSource& in, size_t chunk, size_t prefix)
      : in_(in), chunk_(chunk), prefix_(prefix) {}

  absl::StatusOr<bool> Next(Chunk& chunk) override {
    chunk.offset = offset_;
    chunk.prefix = before_.size();
    chunk.input.Clear();
    chunk.input.Append(before_.data(), before_.size());
    chunk.input.Resize(chunk.prefix + chunk_);
    PULSE_ASSIGN_OR_RETURN(const size_t got,
                           ReadFully(in_, chunk.input.data() + chunk.prefix, chunk_));
    chunk.input.Resize(chunk.prefix + got);
    offset_ += got;
    if (prefix_ > 0) {
      const size_t keep = std::min(prefix_, chunk.input.size());
      before_.Clear();
      before_.Append(chunk.input.data() + chunk.input.size() - keep, keep);
    }
    return got > 0;
  }
  void Stop() override { in_.Stop(); }

 private:
  ByteSource& in_;
  const size_t chunk_;
  const size_t prefix_;
  uint64_t offset_ = 0;
  Buffer before_;
};

// Joins results to one stream.
class Joiner : public Sink {
 public:
  Joiner(const CompressOptions& options, size_t chunk_bytes, const std::string& in_name,
         OutputWriter& out)
      : options_(options), in_name_(in_name), out_(out), adler_(1), chunk_bytes_(chunk_bytes) {}

  absl::Status Begin() {
    switch (options_.format) {
      case Format::kGzip: {
        GzipHeader header;
        header.level = options_.level;
        if (!options_.deterministic) {
          header.name = options_.name;
          header.mtime = options_.mtime;
        }
        return out_.Write(WriteGzipHeader(header));
      }
      case Format::kZlib:
        return out_.Write(WriteZlibHeader(options_.level));
      case Format::kLz4:
        return out_.Write(WriteLz4Header(chunk_bytes_));
      case Format::kBgzf:
      case Format::kZstd:
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status Take(const Chunk& chunk, Result& result) override {
    const absl::string_view bytes = result.payload();
    const absl::string_view input = chunk.input.view();
    // Each chunk of a file is read with what is before it, which was compressed as it was then.
    if (input.substr(0, chunk.prefix) != before_.view()) {
      return absl::DataLossError(
          absl::StrCat(in_name_, " was changed while it was read, before byte ", chunk.offset));
    }
    if (options_.primed) KeepLast(before_, input.substr(chunk.prefix), kDeflateWindow);
    if (options_.format == Format::kGzip) {
      crc_ = static_cast<uint32_t>(
          crc32_combine64(crc_, result.checksum, static_cast<off64_t>(chunk.size())));
    } else if (options_.format == Format::kZlib) {
      adler_ = static_cast<uint32_t>(
          adler32_combine64(adler_, result.checksum, static_cast<off64_t>(chunk.size())));
    } else if (options_.format == Format::kZstd) {
      AppendLe(seek_table_, bytes.size(), 4);
      AppendLe(seek_table_, chunk.size(), 4);
      ++frames_;
    } else if (options_.format == Format::kLz4) {
      xxh32_.Add(chunk.data(), chunk.size());
    }
    size_ += chunk.size();
    // The first chunk of a primed stream has a mark, too.
    if (!options_.primed && chunk.number > 0 &&
        (options_.format == Format::kGzip || options_.format == Format::kZlib)) {
      if (const std::optional<Mark> mark = ReadMark(bytes)) mark_bytes_ += mark->size;
    }
    return out_.Write(bytes);
  }
  // Of what was written, the marks that a primed stream does not have.
  uint64_t mark_bytes() const { return mark_bytes_; }

  absl::Status End() {
    std::string end;
    switch (options_.format) {
      case Format::kGzip:
        end = absl::StrCat(kDeflateEnd, WriteGzipTrailer(crc_, size_));
        break;
      case Format::kZlib:
        end = absl::StrCat(kDeflateEnd, WriteZlibTrailer(adler_));
        break;
      case Format::kBgzf:
        end = std::string(BgzfEnd());
        break;
      case Format::kZstd:
        end = SeekTable();
        break;
      case Format::kLz4:
        AppendLe(end, 0, 4);
        AppendLe(end, xxh32_.Digest(), 4);
        break;
    }
    return out_.Write(end);
  }

 private:
  // As the "seekable format" has it: a skippable frame at the end.
  std::string SeekTable() {
    std::string end;
    // Nothing was compressed: an empty frame, so that there is one.
    if (frames_ == 0) {
      AppendLe(end, 0xFD2FB528u, 4);
      end.append("\x20\x00\x01\x00\x00", 5);
      AppendLe(seek_table_, end.size(), 4);
      AppendLe(seek_table_, 0, 4);
      ++frames_;
    }
    AppendLe(end, 0x184D2A5Eu, 4);
    AppendLe(end, seek_table_.size() + 9, 4);
    end += seek_table_;
    AppendLe(end, frames_, 4);
    end.push_back('\0');
    AppendLe(end, 0x8F92EAB1u, 4);
    return end;
  }

  const CompressOptions& options_;
  const std::string& in_name_;
  OutputWriter& out_;
  Buffer before_;  // of a primed stream: what the next chunk refers to
  uint32_t crc_ = 0;
  uint32_t adler_;
  Xxh32Stream xxh32_;
  const size_t chunk_bytes_;
  uint64_t size_ = 0;
  uint64_t mark_bytes_ = 0;
  std::string seek_table_;
  uint64_t frames_ = 0;
};

absl::Status CheckOptions(const CompressOptions& options, const CodecTraits& codec,
                          size_t chunk_bytes) {
  if (options.level < codec.min_level || options.level > codec.max_level) {
    return absl::InvalidArgumentError(absl::StrCat("codec ", codec.name, " has levels ",
                                                   codec.min_level, " to ", codec.max_level,
                                                   ", not ", options.level));
  }
  if (options.primed && options.format != Format::kGzip && options.format != Format::kZlib) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunks of format ", FormatName(options.format), " are never primed"));
  }
  if (options.primed && !codec.dictionary) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec ", codec.name, " cannot prime chunks; isal and zlib can"));
  }
  if (options.deterministic && !codec.portable) {
    return absl::InvalidArgumentError(
        absl::StrCat("the bytes of codec ", codec.name,
                     " depend on the CPU; leave --deterministic or --codec out"));
  }
  if (chunk_bytes < 4096 || chunk_bytes > codec.largest_chunk) {
    return absl::InvalidArgumentError(absl::StrCat("chunks of ", chunk_bytes, " bytes: codec ",
                                                   codec.name, " takes 4096 to ",
                                                   codec.largest_chunk));
  }
  return absl::OkStatus();
}

size_t ChunkBytesOf(const CompressOptions& options) {
  return options.chunk_bytes != 0 ? options.chunk_bytes : ChunkBytes(options.format, options.level);
}

size_t PrefixOf(const CompressOptions& options) { return options.primed ? kDeflateWindow : 0; }

absl::StatusOr<QueueStats> CompressChunks(const CompressOptions& options, Source& source,
                                          const std::string& in_name, std::optional<uint64_t> total,
                                          ByteSink& out, const std::string& out_name) {
  const Codec codec = options.codec.value_or(
      PickCodec(options.format, options.level, options.deterministic, options.primed));
  const size_t chunk_bytes = ChunkBytesOf(options);
  PULSE_RETURN_IF_ERROR(CheckOptions(options, TraitsOf(codec), chunk_bytes));
  EngineOrder order;
  order.kind = EngineOrder::Kind::kCompress;
  order.codec = static_cast<uint8_t>(codec);
  order.format = static_cast<uint8_t>(options.format);
  order.level = static_cast<uint8_t>(options.level);
  order.portable = options.deterministic;
  order.chunk_bytes = chunk_bytes + PrefixOf(options);
  const std::string codec_name(TraitsOf(codec).name);
  std::vector<std::unique_ptr<Engine>> owned;
  PULSE_ASSIGN_OR_RETURN(
      std::vector<Engine*> engines,
      MakeEngines(
          options.processors, codec_name,
          absl::StrCat("compress/", FormatName(options.format), "/", codec_name, options.level,
                       order.portable ? "/portable" : ""),
          // Kept by engines that outlive this call.
          [codec, format = options.format, level = options.level](EngineTraits of) {
            return MakeCompressor(codec, format, level, std::move(of));
          },
          order, owned));

  QueueOptions queue_options = OptionsFor(options.processors, order);
  queue_options.operation = absl::StrCat("compress/", FormatName(options.format));
  queue_options.level = options.level;
  queue_options.chunk_bytes = chunk_bytes;
  queue_options.total_bytes = total;

  OutputWriter writer(out, out_name);
  Joiner joiner(options, chunk_bytes, in_name, writer);
  Queue* running = nullptr;
  if (options.processors.progress) {
    queue_options.tick = [&] {
      if (!options.processors.progress(running->input_bytes(), writer.written())) running->Cancel();
    };
  }
  Queue queue(std::move(queue_options), std::move(engines));
  running = &queue;
  PULSE_RETURN_IF_ERROR(joiner.Begin());
  PULSE_RETURN_IF_ERROR(queue.Run(source, joiner));
  PULSE_RETURN_IF_ERROR(joiner.End());
  QueueStats stats = queue.stats();
  stats.output_bytes = writer.written();
  stats.mark_bytes = joiner.mark_bytes();
  return stats;
}

}  // namespace

absl::StatusOr<QueueStats> Compress(const CompressOptions& options, int in,
                                    const std::string& in_name, int out,
                                    const std::string& out_name) {
  FdSink sink(out, out_name);
  return Compress(options, in, in_name, sink, out_name);
}

absl::StatusOr<QueueStats> Compress(const CompressOptions& options, int in,
                                    const std::string& in_name, ByteSink& out,
                                    const std::string& out_name) {
  struct stat info;
  if (fstat(in, &info) != 0) return ErrnoError(errno, "reading", in_name);
  const off_t begin = HasTrueSize(info) ? lseek(in, 0, SEEK_CUR) : -1;
  if (begin < 0) {
    FdSource source(in, in_name);
    return Compress(options, source, out, out_name);
  }
  FileChunks chunks(in, in_name, begin, info.st_size, ChunkBytesOf(options), PrefixOf(options));
  const auto total = static_cast<uint64_t>(std::max<off_t>(0, info.st_size - begin));
  auto stats = CompressChunks(options, chunks, in_name, total, out, out_name);
  // As if it had been read in order: whoever has the descriptor, too, goes on behind it.
  if (stats.ok()) lseek(in, begin + static_cast<off_t>(stats->input_bytes), SEEK_SET);
  return stats;
}

absl::StatusOr<QueueStats> Compress(const CompressOptions& options, ByteSource& in, ByteSink& out,
                                    const std::string& out_name) {
  StreamChunks chunks(in, ChunkBytesOf(options), PrefixOf(options));
  return CompressChunks(options, chunks, "the input", in.Left(), out, out_name);
}

}  // namespace pulse::ops
