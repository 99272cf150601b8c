// Decoders of one part of a stream: in one piece by one thread, with reading and writing on others
// (serial), or chunk by chunk on all engines (parallel). decompress.h puts them together.
//
// A serial decoder leaves the reader behind what it decoded, and everything it decoded submitted to
// the writer, also when it fails. DataLoss says what is damaged; its callers know where.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/engine.h"
#include "services/ops/file_io.h"
#include "services/ops/lz4_frame.h"
#include "services/ops/queue.h"

namespace pulse::ops {

class AheadDecoder;

// More than this in one piece is decoded in series, or refused.
inline constexpr size_t kLargestPiece = size_t{64} << 20;

// DEFLATE blocks up to the final one, which may refer to `window`. What `ahead` (may be null)
// decoded of them before is taken from there.
absl::Status InflateInOrder(InputReader& in, OutputWriter& out, absl::string_view window,
                            AheadDecoder* ahead);
// One zstd frame, one LZ4 frame.
absl::Status ZstdSerial(InputReader& in, OutputWriter& out);
absl::Status Lz4Serial(InputReader& in, OutputWriter& out);

// Sources of chunks that can be decoded alone. Each begins where the reader is and ends where its
// kind of piece ends.
class PieceSource : public Source {
 public:
  // Whether several small pieces make a chunk.
  enum class Together { kSmall, kOne };
  explicit PieceSource(InputReader& in, Together together = Together::kSmall)
      : in_(in), gather_(together == Together::kOne ? 1 : kGather) {}
  // What is whole before damage comes before the error.
  absl::StatusOr<bool> Next(Chunk& chunk) override;
  void Stop() override { in_.Stop(); }

 protected:
  // As Next; whole_ is the size of what may be decoded so far.
  virtual absl::StatusOr<bool> Gather(Chunk& chunk) = 0;
  // Appends exactly `n` bytes to the chunk. DataLoss at the end of the input.
  absl::Status Read(Chunk& chunk, size_t n, absl::string_view what);
  void Begin(Chunk& chunk) const;

  // Small pieces are put together to chunks of about this size, compressed.
  static constexpr size_t kGather = 256 << 10;

  InputReader& in_;
  const size_t gather_;
  size_t whole_ = 0;

 private:
  absl::Status failed_;
};

// Chunks behind marks (deflate_frame.h), up to the first byte that is no mark; each gets an empty
// final block, so that it is a whole stream.
class MarkedSource : public PieceSource {
 public:
  using PieceSource::PieceSource;

 protected:
  absl::StatusOr<bool> Gather(Chunk& chunk) override;
};

// BGZF blocks, several to a chunk.
class BgzfSource : public PieceSource {
 public:
  using PieceSource::PieceSource;

 protected:
  absl::StatusOr<bool> Gather(Chunk& chunk) override;
};

// zstd frames that say how large their content is, several small ones to a chunk; skippable ones
// are skipped. chunk.tag is the size of the content.
class ZstdSource : public PieceSource {
 public:
  using PieceSource::PieceSource;
  // Whether a frame for this source begins at the reader's place.
  static absl::StatusOr<bool> Fits(InputReader& in);

 protected:
  absl::StatusOr<bool> Gather(Chunk& chunk) override;
};

// Blocks of an LZ4 frame behind its header, several small ones to a chunk, up to and without the
// end mark. chunk.kind is 1 if blocks have checksums, chunk.tag the largest content of a block.
class Lz4Source : public PieceSource {
 public:
  Lz4Source(InputReader& in, const Lz4Header& header, Together together = Together::kSmall)
      : PieceSource(in, together), header_(header) {}

 protected:
  absl::StatusOr<bool> Gather(Chunk& chunk) override;

 private:
  const Lz4Header header_;
};

// The engines that decode these chunks: chunk.input to result.bytes, and for kMarked* the checksum.
// kIndexed: segments of other gzip files (index/indexed_source.h).
enum class Piece : uint8_t { kMarkedCrc, kMarkedAdler, kBgzf, kZstd, kLz4, kIndexed };
std::unique_ptr<Engine> MakeDecoder(Piece piece, EngineTraits traits);
// "libdeflate", "zstd", "lz4", "isal": of the library.
absl::string_view DecoderName(Piece piece);

}  // namespace pulse::ops
