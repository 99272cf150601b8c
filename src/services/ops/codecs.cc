#include "services/ops/codecs.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace pulse::ops {

const std::vector<CodecTraits>& AllCodecs() {
  static const std::vector<Format> kDeflate = {Format::kGzip, Format::kZlib, Format::kBgzf};
  static const std::vector<CodecTraits> codecs = {
      {Codec::kIsal, "isal", kDeflate, 1, 6, true, false, size_t{8} << 20},
      {Codec::kZlib, "zlib", kDeflate, 1, 9, true, true, size_t{8} << 20},
      {Codec::kLibdeflate, "libdeflate", kDeflate, 1, 9, false, true, size_t{8} << 20},
      {Codec::kZstd, "zstd", {Format::kZstd}, 1, 9, false, true, size_t{64} << 20},
      {Codec::kLz4, "lz4", {Format::kLz4}, 1, 9, false, true, size_t{4} << 20},
  };
  return codecs;
}

const CodecTraits& TraitsOf(Codec codec) {
  for (const CodecTraits& traits : AllCodecs()) {
    if (traits.codec == codec) return traits;
  }
  PULSE_CHECK(false, "every codec is in the table");
  return AllCodecs().front();
}

absl::StatusOr<Codec> ParseCodec(absl::string_view name) {
  for (const CodecTraits& traits : AllCodecs()) {
    if (traits.name == name) return traits.codec;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("codec ", name, " is none of isal, zlib, libdeflate, zstd and lz4"));
}

Codec PickCodec(Format format, int level, bool portable, bool dictionary) {
  if (format == Format::kZstd) return Codec::kZstd;
  if (format == Format::kLz4) return Codec::kLz4;
  if (!portable && level <= TraitsOf(Codec::kIsal).max_level) return Codec::kIsal;
  return dictionary ? Codec::kZlib : Codec::kLibdeflate;
}

size_t ChunkBytes(Format format, int level) {
  switch (format) {
    case Format::kGzip:
    case Format::kZlib:
      return size_t{1} << 20;
    case Format::kBgzf:
      return size_t{0xFF00} * 8;
    // A frame begins without history: the farther a level looks back, the larger frames must be.
    case Format::kZstd:
      return level <= 2 ? size_t{2} << 20 : size_t{4} << 20;
    case Format::kLz4:
      return size_t{1} << 20;
  }
  return 0;
}

absl::StatusOr<std::unique_ptr<Engine>> MakeCompressor(Codec codec, Format format, int level,
                                                       EngineTraits traits) {
  const CodecTraits& can = TraitsOf(codec);
  bool has = false;
  for (const Format of : can.formats) has |= of == format;
  if (!has) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec ", can.name, " does not write format ", FormatName(format)));
  }
  switch (codec) {
    case Codec::kIsal:
      return MakeIsalCompressor(format, level, std::move(traits));
    case Codec::kZlib:
      return MakeZlibCompressor(format, level, std::move(traits));
    case Codec::kLibdeflate:
      return MakeLibdeflateCompressor(format, level, std::move(traits));
    case Codec::kZstd:
      return MakeZstdCompressor(level, std::move(traits));
    case Codec::kLz4:
      return MakeLz4Compressor(level, std::move(traits));
  }
  return absl::InternalError("no such codec");
}

}  // namespace pulse::ops
