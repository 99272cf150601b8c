#include "bench/macro/ops/work.h"

#include <libdeflate.h>
#include <lz4.h>
#include <re2/re2.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "bench/macro/pair_stats.h"
#include "services/ops/codecs.h"
#include "services/ops/filter/filter_engine.h"

namespace pulse::bench {
namespace {

using ops::Chunk;
using ops::Result;

absl::Status Failed(const char* library) {
  return absl::InternalError(absl::StrCat(library, " failed on a chunk"));
}

// zlib's own calls, one stream for each lane.
class ZlibLanes {
 public:
  ZlibLanes(int lanes, int level, bool inflates)
      : inflates_(inflates), streams_(static_cast<size_t>(lanes)) {
    for (z_stream& stream : streams_) {
      stream = z_stream{};
      good_ &=
          (inflates ? inflateInit2(&stream, -15)
                    : deflateInit2(&stream, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY)) == Z_OK;
    }
  }
  ~ZlibLanes() {
    for (z_stream& stream : streams_) inflates_ ? inflateEnd(&stream) : deflateEnd(&stream);
  }
  ZlibLanes(const ZlibLanes&) = delete;
  ZlibLanes& operator=(const ZlibLanes&) = delete;

  absl::Status Do(int lane, const Chunk& chunk, Result& result) {
    z_stream& stream = streams_[static_cast<size_t>(lane)];
    if (!good_) return Failed("zlib");
    const size_t room = inflates_ ? chunk.tag : deflateBound(&stream, chunk.size());
    result.bytes.Resize(room);
    stream.next_in = const_cast<Bytef*>(chunk.data());
    stream.avail_in = static_cast<uInt>(chunk.size());
    stream.next_out = result.bytes.data();
    stream.avail_out = static_cast<uInt>(room);
    const int got = inflates_ ? inflate(&stream, Z_FINISH) : deflate(&stream, Z_FINISH);
    result.bytes.Resize(room - stream.avail_out);
    inflates_ ? inflateReset(&stream) : deflateReset(&stream);
    return got == Z_STREAM_END ? absl::OkStatus() : Failed("zlib");
  }

 private:
  const bool inflates_;
  bool good_ = true;
  std::vector<z_stream> streams_;
};

struct FreeCompressor {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
};
struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

LibraryEngine::Process1 Libdeflate(int lanes, int level) {
  auto compressors =
      std::make_shared<std::vector<std::unique_ptr<libdeflate_compressor, FreeCompressor>>>();
  for (int i = 0; i < lanes; ++i) compressors->emplace_back(libdeflate_alloc_compressor(level));
  return [compressors](int lane, const Chunk& chunk, Result& result) {
    libdeflate_compressor* c = (*compressors)[static_cast<size_t>(lane)].get();
    result.bytes.Resize(libdeflate_deflate_compress_bound(c, chunk.size()));
    const size_t size = libdeflate_deflate_compress(c, chunk.data(), chunk.size(),
                                                    result.bytes.data(), result.bytes.size());
    result.bytes.Resize(size);
    return size > 0 ? absl::OkStatus() : Failed("libdeflate");
  };
}

LibraryEngine::Process1 LibdeflateInflate(int lanes) {
  auto decompressors =
      std::make_shared<std::vector<std::unique_ptr<libdeflate_decompressor, FreeDecompressor>>>();
  for (int i = 0; i < lanes; ++i) decompressors->emplace_back(libdeflate_alloc_decompressor());
  return [decompressors](int lane, const Chunk& chunk, Result& result) {
    result.bytes.Resize(chunk.tag);
    const auto got = libdeflate_deflate_decompress(
        (*decompressors)[static_cast<size_t>(lane)].get(), chunk.data(), chunk.size(),
        result.bytes.data(), chunk.tag, nullptr);
    return got == LIBDEFLATE_SUCCESS ? absl::OkStatus() : Failed("libdeflate");
  };
}

absl::Status Lz4Decode(int, const Chunk& chunk, Result& result) {
  result.bytes.Resize(chunk.tag);
  const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(chunk.data()),
                                      reinterpret_cast<char*>(result.bytes.data()),
                                      static_cast<int>(chunk.size()), static_cast<int>(chunk.tag));
  return got == static_cast<int>(chunk.tag) ? absl::OkStatus() : Failed("lz4");
}

// RE2 alone, line by line: the paper's re2.
LibraryEngine::Process1 Re2Lines(std::shared_ptr<const filter::RuleSet> rules) {
  return [rules](int, const Chunk& chunk, Result& result) {
    absl::string_view block(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    while (!block.empty()) {
      const size_t end = std::min(block.find('\n'), block.size());
      const absl::string_view line = block.substr(0, end);
      for (size_t rule = 0; rule < rules->rules().size(); ++rule) {
        if (!rules->Re2Accepts(rule, line)) continue;
        result.bytes.Append(line);
        result.bytes.Append("\n");
        ++result.count;
        break;
      }
      block.remove_prefix(std::min(block.size(), end + 1));
    }
    return absl::OkStatus();
  };
}

// Pieces in their order.
class PieceSource : public ops::Source {
 public:
  PieceSource(const OpsWork& work, size_t first, size_t count)
      : work_(work), at_(first), end_(first + count) {}

  absl::StatusOr<bool> Next(Chunk& chunk) override {
    if (at_ == end_) return false;
    chunk.prefix = 0;
    chunk.offset = at_++;
    return true;
  }
  absl::Status Load(Chunk& chunk) override {
    const OpsPiece& piece = work_.pieces[chunk.offset];
    chunk.tag = piece.plain;
    chunk.input.Clear();
    chunk.input.Append(piece.input);
    return absl::OkStatus();
  }
  uint64_t SizeOf(const Chunk& chunk) const override {
    return work_.pieces[chunk.offset].input.size();
  }

 private:
  const OpsWork& work_;
  size_t at_;
  const size_t end_;
};

// Looks at sizes; contents are compared by tests.
class PieceSink : public ops::Sink {
 public:
  explicit PieceSink(const OpsWork& work) : work_(work) {}
  absl::Status Take(const Chunk& chunk, Result& result) override {
    const OpsPiece& piece = work_.pieces[chunk.offset];
    const bool exact = work_.kind != OpsKind::kDeflate;
    if (exact && (result.payload().size() != piece.output.size() || result.count != piece.count)) {
      return absl::DataLossError(absl::StrCat("piece ", chunk.offset, " became ",
                                              result.payload().size(), " bytes, and was ",
                                              piece.output.size(), " before"));
    }
    plain_ += piece.plain;
    return absl::OkStatus();
  }
  uint64_t plain() const { return plain_; }

 private:
  const OpsWork& work_;
  uint64_t plain_ = 0;
};

// The end of a slice that begins at `at`: behind a line's end, of records.
size_t EndOfSlice(const std::string& data, size_t at, uint64_t slice, bool lines) {
  size_t end = std::min<size_t>(data.size(), at + slice);
  if (!lines || end == data.size()) return end;
  const size_t newline = data.rfind('\n', end - 1);
  if (newline != std::string::npos && newline >= at) return newline + 1;
  const size_t next = data.find('\n', end);
  return next == std::string::npos ? data.size() : next + 1;
}

absl::StatusOr<OpsPiece> MakePiece(OpsWork& work, std::string plain, LibraryEngine* compressor,
                                   LibraryEngine* matcher) {
  OpsPiece piece;
  piece.plain = plain.size();
  Chunk chunk;
  chunk.input.Append(plain);
  Result result;
  if (work.kind == OpsKind::kRegex) {
    PULSE_RETURN_IF_ERROR(matcher->Process(0, chunk, result));
    piece.count = result.count;
  } else if (work.kind == OpsKind::kLz4Decode) {
    result.bytes.Resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(plain.size()))));
    const int size =
        LZ4_compress_default(plain.data(), reinterpret_cast<char*>(result.bytes.data()),
                             static_cast<int>(plain.size()), static_cast<int>(result.bytes.size()));
    if (size <= 0) return Failed("lz4");
    result.bytes.Resize(static_cast<size_t>(size));
  } else {
    PULSE_RETURN_IF_ERROR(compressor->Process(0, chunk, result));
  }
  std::string made(result.payload());
  const bool compresses = work.kind == OpsKind::kDeflate || work.kind == OpsKind::kRegex;
  piece.input = std::move(compresses ? plain : made);
  piece.output = std::move(compresses ? made : plain);
  return piece;
}

}  // namespace

std::string OperationOf(OpsKind kind) {
  switch (kind) {
    case OpsKind::kDeflate:
      return "compress-deflate";
    case OpsKind::kInflate:
      return "decompress-deflate";
    case OpsKind::kLz4Decode:
      return "decompress-lz4";
    case OpsKind::kRegex:
      return "regex";
  }
  return "";
}

std::string PlacementNameOf(OpsKind kind, PlacedOn on) {
  if (on == PlacedOn::kHostAlone) return "fCPU";
  const bool card = on == PlacedOn::kCardAlone;
  switch (kind) {
    case OpsKind::kDeflate:
      return card ? "cDPU" : "cCOMP";
    case OpsKind::kInflate:
    case OpsKind::kLz4Decode:
      return card ? "dDPU" : "cDECOMP";
    case OpsKind::kRegex:
      return card ? "rDPU" : "cREG";
  }
  return "";
}

absl::StatusOr<OpsWork> MakeWork(OpsKind kind, const std::vector<CorpusFile>& files, uint64_t slice,
                                 std::shared_ptr<const filter::RuleSet> rules) {
  OpsWork work;
  work.kind = kind;
  work.rules = std::move(rules);
  LibraryEngine compressor({"libdeflate", ops::Side::kHost, 1, {}}, Libdeflate(1, 1));
  std::unique_ptr<LibraryEngine> matcher;
  if (kind == OpsKind::kRegex) {
    PULSE_ASSIGN_OR_RETURN(matcher,
                           MakeLibraryEngine(work, {"pulse"}, {"pulse", ops::Side::kHost, 1, {}}));
  }
  for (const CorpusFile& file : files) {
    for (size_t at = 0; at < file.data.size();) {
      const size_t end = EndOfSlice(file.data, at, slice, kind == OpsKind::kRegex);
      PULSE_ASSIGN_OR_RETURN(OpsPiece piece, MakePiece(work, file.data.substr(at, end - at),
                                                       &compressor, matcher.get()));
      at = end;
      work.plain += piece.plain;
      work.largest_input = std::max<uint64_t>(work.largest_input, piece.input.size());
      work.pieces.push_back(std::move(piece));
    }
  }
  return work;
}

absl::Status LibraryEngine::Process(int lane, const Chunk& chunk, Result& result) {
  if (!counts_) return process_(lane, chunk, result);
  const int64_t before = ThreadCpuNanos();
  absl::Status status = process_(lane, chunk, result);
  cpu_nanos_ += ThreadCpuNanos() - before;
  return status;
}

absl::StatusOr<std::unique_ptr<LibraryEngine>> MakeLibraryEngine(const OpsWork& work,
                                                                 const Library& library,
                                                                 ops::EngineTraits traits) {
  const int lanes = traits.lanes;
  const auto make = [&](LibraryEngine::Process1 process) {
    return std::make_unique<LibraryEngine>(std::move(traits), std::move(process));
  };
  if (work.kind == OpsKind::kDeflate || work.kind == OpsKind::kInflate) {
    const bool inflates = work.kind == OpsKind::kInflate;
    if (library.name == "zlib") {
      auto streams = std::make_shared<ZlibLanes>(lanes, library.level, inflates);
      return make([streams](int lane, const Chunk& chunk, Result& result) {
        return streams->Do(lane, chunk, result);
      });
    }
    if (library.name == "libdeflate") {
      return make(inflates ? LibdeflateInflate(lanes) : Libdeflate(lanes, library.level));
    }
    const auto codec = ops::ParseCodec(library.name);
    if (codec.ok() && !inflates) {
      const ops::Format format = ops::TraitsOf(*codec).formats.front();
      PULSE_ASSIGN_OR_RETURN(std::shared_ptr<ops::Engine> engine,
                             ops::MakeCompressor(*codec, format, library.level, traits));
      return make([engine](int lane, const Chunk& chunk, Result& result) {
        return engine->Process(lane, chunk, result);
      });
    }
  }
  if (work.kind == OpsKind::kLz4Decode && library.name == "lz4") return make(Lz4Decode);
  if (work.kind == OpsKind::kRegex && library.name == "re2") return make(Re2Lines(work.rules));
  if (work.kind == OpsKind::kRegex && library.name == "pulse") {
    PULSE_ASSIGN_OR_RETURN(std::shared_ptr<filter::FilterEngine> engine,
                           filter::FilterEngine::Make(work.rules.get(), {}, traits));
    return make([engine](int lane, const Chunk& chunk, Result& result) {
      return engine->Process(lane, chunk, result);
    });
  }
  return absl::InvalidArgumentError(
      absl::StrCat(library.name, " does not do ", OperationOf(work.kind)));
}

std::unique_ptr<ops::VirtualEngine> MakeVirtualEngine(const OpsWork& work,
                                                      const ops::VirtualEngine::Price& price,
                                                      ops::EngineTraits traits) {
  return std::make_unique<ops::VirtualEngine>(std::move(traits), price,
                                              [&work](const Chunk& chunk, Result& result) {
                                                const OpsPiece& piece = work.pieces[chunk.offset];
                                                result.bytes.Append(piece.output);
                                                result.count = piece.count;
                                                return absl::OkStatus();
                                              });
}

ops::VirtualEngine::Price PriceOf(const vdpu::AcceleratorProfile& engine,
                                  ops::VirtualEngine::Setting setting, bool with_setup) {
  ops::VirtualEngine::Price price;
  price.bytes_per_second = engine.rate_gb_s * 1e9;
  price.latency_nanos = static_cast<int64_t>(engine.latency_us * 1e3);
  price.setup_nanos = with_setup ? static_cast<int64_t>(engine.setup_ms * 1e6) : 0;
  price.reconfigure_nanos = static_cast<int64_t>(engine.reconfigure_ms * 1e6);
  price.largest_buffer = static_cast<uint64_t>(engine.largest_buffer_mib * 1048576);
  price.setting = setting;
  return price;
}

absl::StatusOr<OpsRun> RunWork(const OpsWork& work, size_t first, size_t count,
                               const std::vector<ops::Engine*>& engines, ops::Placement placement,
                               ops::RateTable* rates, size_t window) {
  ops::QueueOptions options;
  options.window = window;
  options.placement = placement;
  options.operation = OperationOf(work.kind);
  options.chunk_bytes = std::max<uint64_t>(1, work.largest_input);
  uint64_t total = 0;
  for (size_t i = first; i < first + count; ++i) total += work.pieces[i].input.size();
  options.total_bytes = total;
  options.rates = rates;
  const auto host_cpu = [&] {
    int64_t nanos = 0;
    for (ops::Engine* engine : engines) {
      const auto* library = dynamic_cast<LibraryEngine*>(engine);
      if (library != nullptr && engine->traits().side == ops::Side::kHost) {
        nanos += library->cpu_nanos();
      }
    }
    return nanos;
  };
  const int64_t cpu = host_cpu();
  PieceSource source(work, first, count);
  PieceSink sink(work);
  ops::Queue queue(std::move(options), engines);
  PULSE_RETURN_IF_ERROR(queue.Run(source, sink));
  OpsRun run;
  run.seconds = queue.stats().seconds;
  run.run_seconds = queue.stats().run_seconds;
  run.plain_per_second = static_cast<double>(sink.plain()) / run.seconds;
  run.host_cpu_seconds = static_cast<double>(host_cpu() - cpu) * 1e-9;
  run.stats = queue.stats();
  return run;
}

absl::StatusOr<DirectRun> RunDirect(const OpsWork& work, ops::Engine& engine, int rounds) {
  std::vector<double> rates;
  uint64_t out = 0;
  uint64_t in = 0;
  Chunk chunk;
  Result result;
  for (int round = 0; round < rounds; ++round) {
    int64_t nanos = 0;
    out = in = 0;
    for (size_t i = 0; i < work.pieces.size(); ++i) {
      const OpsPiece& piece = work.pieces[i];
      chunk.number = chunk.offset = i;
      chunk.tag = piece.plain;
      chunk.input.Clear();
      chunk.input.Append(piece.input);
      result.Clear();
      const int64_t begin = NowNanos();
      PULSE_RETURN_IF_ERROR(engine.Process(0, chunk, result));
      nanos += NowNanos() - begin;
      in += piece.input.size();
      out += result.payload().size();
    }
    rates.push_back(static_cast<double>(work.plain) / static_cast<double>(nanos) * 1e9);
  }
  return DirectRun{Summarize(std::move(rates)).median,
                   static_cast<double>(out) / static_cast<double>(in)};
}

}  // namespace pulse::bench
