#include "services/ops/remote/check.h"

#include <isa-l.h>
#include <isa-l/crc.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/errors.h"
#include "services/ops/codecs.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/filter/filter_engine.h"
#include "services/ops/format.h"
#include "services/ops/lz4_frame.h"
#include "services/ops/remote/wire.h"

namespace pulse::ops::remote {
namespace {

constexpr Piece kPieces[] = {Piece::kMarkedCrc, Piece::kMarkedAdler, Piece::kBgzf,
                             Piece::kZstd,      Piece::kLz4,         Piece::kIndexed};
constexpr uint64_t kLargestLz4Block = uint64_t{4} << 20;
constexpr size_t kMostBgzfContent = size_t{1} << 16;

absl::string_view PieceName(Piece piece) {
  switch (piece) {
    case Piece::kMarkedCrc:
      return "gzip";
    case Piece::kMarkedAdler:
      return "zlib";
    case Piece::kBgzf:
      return "bgzf";
    case Piece::kZstd:
      return "zstd";
    case Piece::kLz4:
      return "lz4";
    case Piece::kIndexed:
      return "gzip by an index";
  }
  return "";
}

absl::Status Wrong(absl::string_view what) { return absl::DataLossError(what); }

bool Has(const CodecTraits& codec, Format format) {
  return std::find(codec.formats.begin(), codec.formats.end(), format) != codec.formats.end();
}

// One block of BGZF.
struct BgzfBlock {
  absl::string_view whole;
  size_t header = 0;
  size_t content = 0;
  uint32_t crc = 0;
};

// The block that `rest` begins with, which is taken from it. False: there is none.
bool TakeBgzf(absl::string_view* rest, BgzfBlock* block) {
  const size_t size = BgzfBlockSize(*rest);
  if (size == 0 || size > rest->size()) return false;
  block->whole = rest->substr(0, size);
  block->header = 12 + LoadLe16(&block->whole[10]);
  block->content = LoadLe32(&block->whole[size - 4]);
  block->crc = LoadLe32(&block->whole[size - 8]);
  rest->remove_prefix(size);
  return block->content <= kMostBgzfContent;
}

absl::Status CheckPieces(Piece piece, const Chunk& chunk) {
  absl::string_view rest = chunk.input.view();
  uint64_t content = 0;
  switch (piece) {
    case Piece::kMarkedCrc:
    case Piece::kMarkedAdler:
      return absl::OkStatus();
    case Piece::kZstd:
      content = chunk.tag;
      break;
    case Piece::kIndexed:
      if (chunk.kind > 7) return absl::InvalidArgumentError("a byte of more than eight bits");
      content = chunk.tag;
      break;
    case Piece::kBgzf:
      while (!rest.empty()) {
        BgzfBlock block;
        if (!TakeBgzf(&rest, &block))
          return absl::InvalidArgumentError("a chunk of no BGZF blocks");
        content += block.content;
      }
      break;
    case Piece::kLz4:
      if (chunk.tag > kLargestLz4Block || chunk.kind > 1) {
        return absl::InvalidArgumentError("LZ4 blocks that are larger than any frame allows");
      }
      while (!rest.empty()) {
        if (rest.size() < 4) return absl::InvalidArgumentError("a chunk of no LZ4 blocks");
        const size_t size = LoadLe32(rest.data()) & ~kLz4Stored;
        const size_t whole = 4 + size + (chunk.kind == 1 ? 4 : 0);
        if (whole > rest.size()) return absl::InvalidArgumentError("a chunk of no LZ4 blocks");
        content += std::max<uint64_t>(chunk.tag, size);
        rest.remove_prefix(whole);
      }
      break;
  }
  if (content > kLargestPiece) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a chunk that becomes ", content, " bytes; the agent takes ", kLargestPiece));
  }
  return absl::OkStatus();
}

// --- results of compression

absl::Status CheckDeflate(const Chunk& chunk, absl::string_view bytes) {
  static constexpr absl::string_view kFlush("\0\0\xff\xff", 4);
  if (bytes.size() < kFlush.size() || bytes.substr(bytes.size() - kFlush.size()) != kFlush) {
    return Wrong("DEFLATE data that do not end with a flush");
  }
  if (chunk.prefix > 0) return absl::OkStatus();
  const auto mark = ReadMark(bytes.substr(0, kMarkRoom));
  if (!mark.has_value() || mark->length != bytes.size() - mark->size) {
    return Wrong("a chunk whose mark says another length");
  }
  return absl::OkStatus();
}

absl::Status CheckBgzf(const Chunk& chunk, absl::string_view bytes) {
  absl::string_view data(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  while (!bytes.empty()) {
    BgzfBlock block;
    if (!TakeBgzf(&bytes, &block) || block.content == 0 || block.content > data.size()) {
      return Wrong("no blocks of BGZF for this chunk");
    }
    if (Crc32(data.substr(0, block.content)) != block.crc) {
      return Wrong("a block of BGZF with another checksum than the data has");
    }
    data.remove_prefix(block.content);
  }
  return data.empty() ? absl::OkStatus() : Wrong("blocks of BGZF for a part of the chunk");
}

absl::Status CheckZstd(const Chunk& chunk, absl::string_view bytes) {
  if (ZSTD_getFrameContentSize(bytes.data(), bytes.size()) != chunk.size() ||
      ZSTD_findFrameCompressedSize(bytes.data(), bytes.size()) != bytes.size()) {
    return Wrong("no zstd frame of this chunk's size");
  }
  const auto hash = static_cast<uint32_t>(XXH64(chunk.data(), chunk.size(), 0));
  if ((bytes[4] & 4) == 0 || bytes.size() < 12 || LoadLe32(&bytes[bytes.size() - 4]) != hash) {
    return Wrong("a zstd frame with another checksum than the data has");
  }
  return absl::OkStatus();
}

absl::Status CheckLz4(const Chunk& chunk, absl::string_view bytes) {
  const size_t size = bytes.size() < 8 ? 0 : LoadLe32(bytes.data()) & ~kLz4Stored;
  if (size == 0 || size + 8 != bytes.size()) return Wrong("no LZ4 block");
  if (Xxh32(&bytes[4], size) != LoadLe32(&bytes[4 + size])) {
    return Wrong("an LZ4 block with another checksum");
  }
  const bool stored = (LoadLe32(bytes.data()) & kLz4Stored) != 0;
  if (stored && (size != chunk.size() || std::memcmp(&bytes[4], chunk.data(), size) != 0)) {
    return Wrong("a stored LZ4 block of other data");
  }
  return absl::OkStatus();
}

absl::Status Undecodable() { return Wrong("compressed data that cannot be decompressed"); }
absl::Status OfOtherData() { return Wrong("compressed data that are of other data"); }

// DEFLATE data that refer to the data before them, and do not end the stream.
absl::Status InflateAgain(const Chunk& chunk, absl::string_view bytes) {
  z_stream stream{};
  PULSE_CHECK(inflateInit2(&stream, -15) == Z_OK);
  // One byte more than there should be, so that it shows.
  Buffer data;
  data.Resize(chunk.size() + 1);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = data.data();
  stream.avail_out = static_cast<uInt>(data.size());
  int got = inflateSetDictionary(&stream, chunk.input.data(), static_cast<uInt>(chunk.prefix));
  if (got == Z_OK) got = inflate(&stream, Z_SYNC_FLUSH);
  const size_t size = data.size() - stream.avail_out;
  const bool whole = stream.avail_in == 0;
  inflateEnd(&stream);
  if ((got != Z_OK && got != Z_BUF_ERROR) || !whole) return Undecodable();
  data.Resize(size);
  return data.view() == chunk.input.view().substr(chunk.prefix) ? absl::OkStatus() : OfOtherData();
}

// What decompression makes of the result.
absl::Status DecodeAgain(Format format, const Chunk& chunk, absl::string_view bytes) {
  if (chunk.prefix > 0) return InflateAgain(chunk, bytes);
  Chunk piece;
  Piece kind = Piece::kBgzf;
  switch (format) {
    case Format::kGzip:
    case Format::kZlib:
      kind = Piece::kMarkedCrc;
      bytes.remove_prefix(ReadMark(bytes.substr(0, kMarkRoom))->size);
      break;
    case Format::kBgzf:
      break;
    case Format::kZstd:
      kind = Piece::kZstd;
      piece.tag = chunk.size();
      break;
    case Format::kLz4:
      kind = Piece::kLz4;
      piece.tag = chunk.size();
      piece.kind = 1;
      break;
  }
  piece.input.Append(bytes);
  if (kind == Piece::kMarkedCrc) piece.input.Append(kDeflateEnd);
  Result data;
  const absl::Status decoded =
      MakeDecoder(kind, {"check", Side::kHost, 1, {}})->Process(0, piece, data);
  if (!decoded.ok()) return Undecodable();
  return data.payload() == chunk.input.view() ? absl::OkStatus() : OfOtherData();
}

absl::Status CheckCompressed(const EngineOrder& order, const Chunk& chunk, bool decode,
                             Result& result) {
  const auto format = static_cast<Format>(order.format);
  const absl::string_view bytes = result.payload();
  if (bytes.size() > chunk.size() + chunk.size() / 8 + (64 << 10)) {
    return Wrong("more bytes than any codec makes of this chunk");
  }
  result.checksum = 0;
  switch (format) {
    case Format::kGzip:
      result.checksum = crc32_gzip_refl(0, chunk.data(), chunk.size());
      PULSE_RETURN_IF_ERROR(CheckDeflate(chunk, bytes));
      break;
    case Format::kZlib:
      result.checksum = libdeflate_adler32(1, chunk.data(), chunk.size());
      PULSE_RETURN_IF_ERROR(CheckDeflate(chunk, bytes));
      break;
    case Format::kBgzf:
      PULSE_RETURN_IF_ERROR(CheckBgzf(chunk, bytes));
      break;
    case Format::kZstd:
      PULSE_RETURN_IF_ERROR(CheckZstd(chunk, bytes));
      break;
    case Format::kLz4:
      PULSE_RETURN_IF_ERROR(CheckLz4(chunk, bytes));
      break;
  }
  return decode ? DecodeAgain(format, chunk, bytes) : absl::OkStatus();
}

// --- results of decompression

absl::Status CheckZstdContent(const Chunk& chunk, absl::string_view data) {
  absl::string_view rest = chunk.input.view();
  while (!rest.empty()) {
    const size_t size = ZSTD_findFrameCompressedSize(rest.data(), rest.size());
    if (ZSTD_isError(size) != 0 || size > rest.size() || size < 6) break;
    const auto content = ZSTD_getFrameContentSize(rest.data(), size);
    if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN) break;
    if (content > data.size()) return Wrong("less data than a zstd frame says");
    const auto hash = static_cast<uint32_t>(XXH64(data.data(), content, 0));
    const bool skipped = LoadLe32(rest.data()) != 0xFD2FB528u;
    if (!skipped && (rest[4] & 4) != 0 && LoadLe32(&rest[size - 4]) != hash) {
      return Wrong("other data than a zstd frame's checksum says");
    }
    data.remove_prefix(skipped ? 0 : content);
    rest.remove_prefix(size);
  }
  return absl::OkStatus();
}

absl::Status CheckLz4Content(const Chunk& chunk, absl::string_view data) {
  absl::string_view rest = chunk.input.view();
  uint64_t most = 0;
  bool all_stored = true;
  while (rest.size() >= 4) {
    const uint32_t word = LoadLe32(rest.data());
    const size_t size = word & ~kLz4Stored;
    const bool stored = (word & kLz4Stored) != 0;
    all_stored = all_stored && stored;
    if (all_stored &&
        (data.size() - most < size || data.substr(most, size) != rest.substr(4, size))) {
      return Wrong("other data than a stored LZ4 block has");
    }
    most += stored ? size : chunk.tag;
    rest.remove_prefix(4 + size + (chunk.kind == 1 ? 4 : 0));
  }
  return data.size() <= most ? absl::OkStatus() : Wrong("more data than LZ4 blocks can hold");
}

absl::Status CheckDecompressed(const EngineOrder& order, const Chunk& chunk, Result& result) {
  const absl::string_view data = result.payload();
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  switch (static_cast<Piece>(order.format)) {
    case Piece::kMarkedCrc:
      result.checksum = crc32_gzip_refl(0, bytes, data.size());
      break;
    case Piece::kMarkedAdler:
      result.checksum = libdeflate_adler32(1, bytes, data.size());
      break;
    case Piece::kBgzf: {
      absl::string_view blocks = chunk.input.view();
      absl::string_view left = data;
      BgzfBlock block;
      while (!blocks.empty() && TakeBgzf(&blocks, &block)) {
        if (block.content > left.size() || Crc32(left.substr(0, block.content)) != block.crc) {
          return Wrong("other data than a BGZF block's checksum says");
        }
        left.remove_prefix(block.content);
      }
      if (!left.empty()) return Wrong("more data than the BGZF blocks hold");
      break;
    }
    case Piece::kZstd:
      if (data.size() != chunk.tag) return Wrong("another size than the zstd frames say");
      return CheckZstdContent(chunk, data);
    case Piece::kLz4:
      return CheckLz4Content(chunk, data);
    case Piece::kIndexed:
      if (data.size() != chunk.tag || Crc32(data) != chunk.checksum) {
        return Wrong("other data than the index says");
      }
      break;
  }
  return absl::OkStatus();
}

// --- results of filters

// Records of a filter's kind; nothing: the last one is cut off. A chunk's last line may have no
// newline, a result's has one.
std::optional<uint64_t> CountRecords(absl::string_view bytes, bool lines, bool whole_lines) {
  uint64_t count = 0;
  if (lines) {
    const bool whole = bytes.empty() || bytes.back() == '\n';
    if (whole_lines && !whole) return std::nullopt;
    return static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n')) + (whole ? 0 : 1);
  }
  for (absl::string_view rest = bytes; !rest.empty(); ++count) {
    if (rest.size() < 4 || rest.size() - 4 < LoadLe32(rest.data())) return std::nullopt;
    rest.remove_prefix(size_t{4} + LoadLe32(rest.data()));
  }
  return count;
}

absl::Status CheckFiltered(const EngineOrder& order, const Chunk& chunk, const Result& result) {
  const auto select = static_cast<filter::Select>(order.text[3]);
  const bool lines = static_cast<filter::Records>(order.text[0]) == filter::Records::kLines;
  const absl::string_view bytes = result.payload();
  const absl::string_view data(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  // One that is cut off is the engine's to say.
  const std::optional<uint64_t> has = CountRecords(data, lines, false);
  if (result.count > has.value_or(data.size())) return Wrong("more records than the chunk has");
  if (select == filter::Select::kCount) {
    return bytes.empty() ? absl::OkStatus() : Wrong("records where only their number was asked");
  }
  if (select == filter::Select::kRecords && bytes.size() > chunk.size() + 1) {
    return Wrong("records that are longer than the chunk");
  }
  const std::optional<uint64_t> count = CountRecords(bytes, lines, true);
  if (!count.has_value()) return Wrong("a record that is cut off");
  if (*count != result.count) return Wrong("another number of records than it says");
  return absl::OkStatus();
}

}  // namespace

uint32_t Crc32(absl::string_view bytes) {
  return crc32_gzip_refl(0, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

uint32_t CodecVersions() {
  return Crc32(absl::StrCat("zlib ", zlibVersion(), ", libdeflate ", LIBDEFLATE_VERSION_STRING,
                            ", zstd ", ZSTD_versionString(), ", lz4 ", LZ4_versionString(),
                            ", isa-l ", ISAL_MAJOR_VERSION, ".", ISAL_MINOR_VERSION));
}

uint64_t EngineBits() {
  uint64_t bits = uint64_t{1} << kFilterBit;
  for (const CodecTraits& codec : AllCodecs()) bits |= uint64_t{1} << static_cast<int>(codec.codec);
  for (const Piece piece : kPieces) bits |= uint64_t{1} << (kDecoderBit + static_cast<int>(piece));
  return bits;
}

uint64_t EngineBit(const EngineOrder& order) {
  switch (order.kind) {
    case EngineOrder::Kind::kCompress:
      return uint64_t{1} << order.codec;
    case EngineOrder::Kind::kDecompress:
      return uint64_t{1} << (kDecoderBit + order.format);
    case EngineOrder::Kind::kFilter:
      return uint64_t{1} << kFilterBit;
  }
  return 0;
}

std::string EngineNames(uint64_t bits) {
  std::vector<std::string> parts;
  std::vector<absl::string_view> names;
  for (const CodecTraits& codec : AllCodecs()) {
    if ((bits >> static_cast<int>(codec.codec) & 1) != 0) names.push_back(codec.name);
  }
  if (!names.empty()) parts.push_back(absl::StrCat("compress by ", absl::StrJoin(names, ", ")));
  names.clear();
  for (const Piece piece : kPieces) {
    if ((bits >> (kDecoderBit + static_cast<int>(piece)) & 1) != 0) {
      names.push_back(PieceName(piece));
    }
  }
  if (!names.empty()) parts.push_back(absl::StrCat("decompress ", absl::StrJoin(names, ", ")));
  if ((bits >> kFilterBit & 1) != 0) parts.emplace_back("filter");
  return parts.empty() ? "nothing" : absl::StrJoin(parts, "; ");
}

absl::Status CheckOrder(const EngineOrder& order) {
  const absl::Status none = absl::InvalidArgumentError("an operator that this agent does not know");
  switch (order.kind) {
    case EngineOrder::Kind::kCompress: {
      if (order.codec > static_cast<uint8_t>(Codec::kLz4) ||
          order.format > static_cast<uint8_t>(Format::kLz4) || !order.text.empty()) {
        return none;
      }
      const CodecTraits& codec = TraitsOf(static_cast<Codec>(order.codec));
      if (!Has(codec, static_cast<Format>(order.format)) || order.level < codec.min_level ||
          order.level > codec.max_level) {
        return none;
      }
      return absl::OkStatus();
    }
    case EngineOrder::Kind::kDecompress:
      return order.format <= static_cast<uint8_t>(Piece::kIndexed) && order.text.empty()
                 ? absl::OkStatus()
                 : none;
    case EngineOrder::Kind::kFilter:
      return absl::OkStatus();  // its text says more
  }
  return none;
}

absl::Status CheckChunk(const EngineOrder& order, const Chunk& chunk) {
  if (chunk.prefix > chunk.input.size() || chunk.size() == 0) {
    return absl::InvalidArgumentError("a chunk without data");
  }
  if (order.kind == EngineOrder::Kind::kCompress) {
    const CodecTraits& codec = TraitsOf(static_cast<Codec>(order.codec));
    if (chunk.prefix > (codec.dictionary ? kDeflateWindow : 0) ||
        chunk.size() > codec.largest_chunk) {
      return absl::InvalidArgumentError("a chunk that this codec does not take");
    }
    return absl::OkStatus();
  }
  const bool indexed = order.kind == EngineOrder::Kind::kDecompress &&
                       static_cast<Piece>(order.format) == Piece::kIndexed;
  if (chunk.prefix > (indexed ? kDeflateWindow : 0)) {
    return absl::InvalidArgumentError("a dictionary where none is used");
  }
  if (order.kind == EngineOrder::Kind::kDecompress) {
    return CheckPieces(static_cast<Piece>(order.format), chunk);
  }
  return absl::OkStatus();
}

absl::Status CheckResult(const EngineOrder& order, const Chunk& chunk, bool decode,
                         Result& result) {
  switch (order.kind) {
    case EngineOrder::Kind::kCompress:
      return CheckCompressed(order, chunk, decode, result);
    case EngineOrder::Kind::kDecompress:
      return CheckDecompressed(order, chunk, result);
    case EngineOrder::Kind::kFilter:
      return CheckFiltered(order, chunk, result);
  }
  return absl::OkStatus();
}

}  // namespace pulse::ops::remote
