// What surrounds DEFLATE data: headers and trailers of gzip and zlib, BGZF's blocks, and the marks
// by which a reader finds the chunks of a stream that this library wrote.
//
// Such a stream is one member, valid for every decoder: its chunks are DEFLATE blocks that refer to
// nothing before the chunk and end at a byte boundary (a full flush). In front of each chunk is a
// mark that says how long the chunk is. It is made of empty blocks, which decoders skip: a digit is
// up to seven empty blocks with fixed codes, then an empty stored block, which ends at a byte
// boundary. The mark begins with nine empty blocks with fixed codes and a stored one, and has eight
// octal digits, the most significant first. The stream ends with an empty final block, without
// mark. So chunks can be decoded at the same time, also from a pipe, in gzip as well as in zlib's
// format. The format has no place for an index otherwise: what gzip's header could say is not known
// when it is written.
//
// Thread-safe, never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse::ops {

inline constexpr size_t kMarkRoom = 128;  // the longest mark
// Chunks are shorter, compressed.
inline constexpr uint64_t kMarkLimit = uint64_t{1} << 24;
// An empty final block with fixed codes: the end of our streams.
inline constexpr absl::string_view kDeflateEnd("\x03\x00", 2);
inline constexpr size_t kDeflateWindow = 32 << 10;

// The mark for a chunk of `length` bytes, below kMarkLimit.
std::string ChunkMark(uint64_t length);

struct Mark {
  size_t size;      // of the mark itself
  uint64_t length;  // of the chunk behind it
};
// The mark that `bytes` begins with. None: it does not begin with a whole one.
std::optional<Mark> ReadMark(absl::string_view bytes);

struct GzipHeader {
  std::string name;  // without a directory; empty: none
  uint32_t mtime = 0;
  int level = 6;  // 1 to 9
};
std::string WriteGzipHeader(const GzipHeader& header);
inline constexpr size_t kGzipTrailer = 8;
std::string WriteGzipTrailer(uint32_t crc, uint64_t size);
std::string WriteZlibHeader(int level);
std::string WriteZlibTrailer(uint32_t adler);

// The size of the gzip header that `bytes` begins with. OutOfRange: it is longer than `bytes`.
// DataLoss: it is damaged (its own checksum), or has reserved flags or another method.
absl::StatusOr<size_t> GzipHeaderSize(absl::string_view bytes);

// BGZF: the header of a block, the size of the whole block that begins with `bytes` (0: it is
// none), the empty block at the end of a file.
inline constexpr size_t kBgzfHeader = 18;
inline constexpr size_t kBgzfTrailer = 8;
inline constexpr size_t kBgzfInput = 0xFF00;  // of one block, so that it fits even if stored
std::string BgzfHeader(size_t block_size);
size_t BgzfBlockSize(absl::string_view bytes);
absl::string_view BgzfEnd();

}  // namespace pulse::ops
