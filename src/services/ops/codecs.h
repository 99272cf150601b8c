// Codecs: the engines that compress chunks, each a library, and what each can do. An operation
// picks the fastest that can do what is asked (PickCodec), and makes an engine of it for each side.
//
// What an engine leaves in Result, by format:
//   gzip, zlib  the chunk's DEFLATE blocks, ended by a flush at a byte boundary, behind their mark
//               (deflate_frame.h) unless the chunk has a prefix; checksum: CRC-32 or Adler-32 of
//               the data
//   bgzf        whole blocks
//   zstd        one frame with its content's size and checksum
//   lz4         one block of a frame, with its size and checksum
// A prefix is a dictionary; only engines that say so take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/engine.h"
#include "services/ops/format.h"

namespace pulse::ops {

enum class Codec : uint8_t { kIsal, kZlib, kLibdeflate, kZstd, kLz4 };

inline constexpr int kMinLevel = 1;
inline constexpr int kMaxLevel = 9;

struct CodecTraits {
  Codec codec;
  absl::string_view name;
  std::vector<Format> formats;
  int min_level;  // of pulse's levels
  int max_level;
  bool dictionary;  // takes a prefix
  bool portable;    // the same bytes on every CPU
  size_t largest_chunk;
};

const std::vector<CodecTraits>& AllCodecs();
const CodecTraits& TraitsOf(Codec codec);
// InvalidArgument lists the names.
absl::StatusOr<Codec> ParseCodec(absl::string_view name);

// The codec for this format and level. `portable`: bytes must not depend on the CPU. `dictionary`:
// chunks will have prefixes.
Codec PickCodec(Format format, int level, bool portable, bool dictionary);

// The size of chunks that suits the format and level.
size_t ChunkBytes(Format format, int level);

// InvalidArgument: the codec does not have this format.
absl::StatusOr<std::unique_ptr<Engine>> MakeCompressor(Codec codec, Format format, int level,
                                                       EngineTraits traits);

// What the libraries' files provide.
std::unique_ptr<Engine> MakeIsalCompressor(Format format, int level, EngineTraits traits);
std::unique_ptr<Engine> MakeZlibCompressor(Format format, int level, EngineTraits traits);
std::unique_ptr<Engine> MakeLibdeflateCompressor(Format format, int level, EngineTraits traits);
std::unique_ptr<Engine> MakeZstdCompressor(int level, EngineTraits traits);
std::unique_ptr<Engine> MakeLz4Compressor(int level, EngineTraits traits);

}  // namespace pulse::ops
