#include <isa-l/crc.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/format.h"
#include "services/ops/index/indexed_source.h"

namespace pulse::ops {
namespace {

absl::Status Damaged(const Chunk& chunk, size_t at, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("damaged at offset ", chunk.offset + at, ": ", what));
}

class LibdeflateDecoder : public Engine {
 public:
  LibdeflateDecoder(Piece piece, EngineTraits traits)
      : Engine(std::move(traits)),
        piece_(piece),
        lanes_(static_cast<size_t>(this->traits().lanes)) {
    for (Lane& lane : lanes_) {
      lane.decoder = libdeflate_alloc_decompressor();
      PULSE_CHECK(lane.decoder != nullptr);
    }
  }
  ~LibdeflateDecoder() override {
    for (Lane& lane : lanes_) libdeflate_free_decompressor(lane.decoder);
  }

  absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
    Lane& of = lanes_[static_cast<size_t>(lane)];
    return piece_ == Piece::kBgzf ? Bgzf(of, chunk, result) : Marked(of, chunk, result);
  }

 private:
  struct Lane {
    libdeflate_decompressor* decoder = nullptr;
    size_t content = size_t{1} << 20;  // of the largest chunk so far
  };

  absl::Status Marked(Lane& of, const Chunk& chunk, Result& result) const {
    while (true) {
      result.bytes.Resize(of.content);
      size_t used = 0;
      size_t length = 0;
      const libdeflate_result got = libdeflate_deflate_decompress_ex(
          of.decoder, chunk.data(), chunk.size(), result.bytes.data(), of.content, &used, &length);
      if (got == LIBDEFLATE_INSUFFICIENT_SPACE && of.content < kLargestPiece) {
        result.bytes.Clear();  // nothing of it has to be kept
        of.content *= 2;
        continue;
      }
      if (got == LIBDEFLATE_INSUFFICIENT_SPACE)
        return Damaged(chunk, 0, "a chunk of 64 MiB or more");
      if (got != LIBDEFLATE_SUCCESS || used != chunk.size()) {
        return Damaged(chunk, 0,
                       absl::StrCat("invalid DEFLATE data in the ",
                                    chunk.size() - kDeflateEnd.size(), " bytes from there"));
      }
      result.bytes.Resize(length);
      result.checksum = piece_ == Piece::kMarkedAdler
                            ? libdeflate_adler32(1, result.bytes.data(), length)
                            : crc32_gzip_refl(0, result.bytes.data(), length);
      return absl::OkStatus();
    }
  }

  static absl::Status Bgzf(Lane& of, const Chunk& chunk, Result& result) {
    absl::string_view rest = chunk.input.view();
    while (!rest.empty()) {
      const size_t at = chunk.size() - rest.size();
      const size_t size = BgzfBlockSize(rest);
      PULSE_CHECK(size != 0 && size <= rest.size());
      const size_t header = 12 + LoadLe16(&rest[10]);
      const size_t content = LoadLe32(&rest[size - 4]);
      if (content > 1 << 16) return Damaged(chunk, at, "a BGZF block of more than 64 KiB");
      const size_t begin = result.bytes.size();
      result.bytes.Resize(begin + content);
      uint8_t* to = result.bytes.data() + begin;
      const size_t length = size - header - kBgzfTrailer;
      size_t used = 0;
      const libdeflate_result got = libdeflate_deflate_decompress_ex(
          of.decoder, &rest[header], length, to, content, &used, nullptr);
      if (got != LIBDEFLATE_SUCCESS || used != length) {
        result.bytes.Resize(begin);
        return Damaged(chunk, at, "invalid DEFLATE data in a BGZF block");
      }
      if (crc32_gzip_refl(0, to, content) != LoadLe32(&rest[size - 8])) {
        return Damaged(chunk, at, "the checksum of a BGZF block");
      }
      rest.remove_prefix(size);
    }
    return absl::OkStatus();
  }

  const Piece piece_;
  std::vector<Lane> lanes_;
};

class ZstdDecoder : public Engine {
 public:
  explicit ZstdDecoder(EngineTraits traits) : Engine(std::move(traits)) {
    for (int i = 0; i < this->traits().lanes; ++i) {
      contexts_.push_back(ZSTD_createDCtx());
      PULSE_CHECK(contexts_.back() != nullptr);
    }
  }
  ~ZstdDecoder() override {
    for (ZSTD_DCtx* context : contexts_) ZSTD_freeDCtx(context);
  }

  absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
    result.bytes.Resize(chunk.tag);
    const size_t got =
        ZSTD_decompressDCtx(contexts_[static_cast<size_t>(lane)], result.bytes.data(), chunk.tag,
                            chunk.data(), chunk.size());
    if (ZSTD_isError(got) != 0) {
      // The library speaks of its caller's buffer, which has what the frame says.
      if (ZSTD_getErrorCode(got) == ZSTD_error_dstSize_tooSmall) {
        return Damaged(chunk, 0, "a zstd frame with more content than it says");
      }
      return Damaged(chunk, 0, absl::StrCat("zstd frame: ", ZSTD_getErrorName(got)));
    }
    if (got != chunk.tag) return Damaged(chunk, 0, "a zstd frame with less content than it says");
    return absl::OkStatus();
  }

 private:
  std::vector<ZSTD_DCtx*> contexts_;
};

class Lz4Decoder : public Engine {
 public:
  explicit Lz4Decoder(EngineTraits traits) : Engine(std::move(traits)) {}

  absl::Status Process(int, const Chunk& chunk, Result& result) override {
    const bool checksums = chunk.kind == 1;
    absl::string_view rest = chunk.input.view();
    while (!rest.empty()) {
      const size_t at = chunk.size() - rest.size();
      const uint32_t word = LoadLe32(rest.data());
      const size_t size = word & ~kLz4Stored;
      const char* data = rest.data() + 4;
      if (checksums && Xxh32(data, size) != LoadLe32(data + size)) {
        return Damaged(chunk, at, "the checksum of an LZ4 block");
      }
      if ((word & kLz4Stored) != 0) {
        result.bytes.Append(data, size);
      } else {
        const size_t begin = result.bytes.size();
        result.bytes.Resize(begin + chunk.tag);
        const int got =
            LZ4_decompress_safe(data, reinterpret_cast<char*>(result.bytes.data() + begin),
                                static_cast<int>(size), static_cast<int>(chunk.tag));
        if (got < 0) {
          result.bytes.Resize(begin);
          return Damaged(chunk, at, "invalid data in an LZ4 block");
        }
        result.bytes.Resize(begin + static_cast<size_t>(got));
      }
      rest.remove_prefix(4 + size + (checksums ? 4 : 0));
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Engine> MakeDecoder(Piece piece, EngineTraits traits) {
  switch (piece) {
    case Piece::kZstd:
      return std::make_unique<ZstdDecoder>(std::move(traits));
    case Piece::kLz4:
      return std::make_unique<Lz4Decoder>(std::move(traits));
    case Piece::kIndexed:
      return MakeIndexedDecoder(std::move(traits));
    default:
      return std::make_unique<LibdeflateDecoder>(piece, std::move(traits));
  }
}

absl::string_view DecoderName(Piece piece) {
  switch (piece) {
    case Piece::kZstd:
      return "zstd";
    case Piece::kLz4:
      return "lz4";
    case Piece::kIndexed:
      return "isal";
    default:
      return "libdeflate";
  }
}

}  // namespace pulse::ops
