#include <zstd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/format.h"

namespace pulse::ops {
namespace {

// Of small pieces that are put together, at most.
constexpr uint64_t kGatherContent = 2 << 20;

bool IsSkippable(uint32_t magic) { return (magic & 0xFFFFFFF0u) == 0x184D2A50u; }

struct ZstdFrame {
  size_t header = 0;
  uint64_t content = 0;
  bool checksum = false;
};

// The header of a frame that says how large its content is and needs no dictionary. No frame:
// header is 0.
ZstdFrame ReadZstdHeader(absl::string_view bytes) {
  ZstdFrame frame;
  if (bytes.size() < 6 || LoadLe32(bytes.data()) != 0xFD2FB528u) return frame;
  const auto descriptor = static_cast<uint8_t>(bytes[4]);
  const bool single = (descriptor & 0x20) != 0;
  const int content_code = descriptor >> 6;
  if ((descriptor & 0x0B) != 0) return frame;  // a dictionary, or the reserved bit
  if (content_code == 0 && !single) return frame;
  const size_t content_bytes = content_code == 0 ? 1 : size_t{1} << content_code;
  const size_t size = 5 + (single ? 0 : 1) + content_bytes;
  if (bytes.size() < size) return frame;
  frame.content = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  frame.checksum = (descriptor & 4) != 0;
  if (frame.content <= kLargestPiece) frame.header = size;
  return frame;
}

}  // namespace

void PieceSource::Begin(Chunk& chunk) const {
  chunk.prefix = 0;
  chunk.offset = in_.offset();
  chunk.tag = 0;
  chunk.kind = 0;
  chunk.input.Clear();
}

absl::Status PieceSource::Read(Chunk& chunk, size_t n, absl::string_view what) {
  PULSE_ASSIGN_OR_RETURN(const size_t got, in_.ReadInto(chunk.input, n));
  if (got == n) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(in_.name(), " ends at offset ", in_.offset(), ", in the middle of ", what));
}

absl::StatusOr<bool> PieceSource::Next(Chunk& chunk) {
  PULSE_RETURN_IF_ERROR(failed_);
  whole_ = 0;
  absl::StatusOr<bool> more = Gather(chunk);
  if (more.ok() || whole_ == 0) return more;
  failed_ = more.status();
  chunk.input.Resize(whole_);
  return true;
}

absl::StatusOr<bool> MarkedSource::Gather(Chunk& chunk) {
  PULSE_ASSIGN_OR_RETURN(const absl::string_view head, in_.Peek(kMarkRoom));
  const std::optional<Mark> mark = ReadMark(head);
  if (!mark.has_value()) return false;
  in_.Consume(mark->size);
  Begin(chunk);
  PULSE_RETURN_IF_ERROR(Read(chunk, mark->length, "a chunk"));
  chunk.input.Append(kDeflateEnd);
  return true;
}

absl::StatusOr<bool> BgzfSource::Gather(Chunk& chunk) {
  Begin(chunk);
  uint64_t content = 0;  // as the blocks say; the decoder compares
  while (chunk.input.size() < gather_ && content < kGatherContent) {
    PULSE_ASSIGN_OR_RETURN(const absl::string_view head, in_.Peek(kBgzfHeader));
    const size_t size = BgzfBlockSize(head);
    if (size == 0) break;
    PULSE_RETURN_IF_ERROR(Read(chunk, size, "a BGZF block"));
    whole_ = chunk.input.size();
    content += LoadLe32(chunk.input.data() + whole_ - 4);
  }
  return chunk.input.size() > 0;
}

absl::StatusOr<bool> ZstdSource::Fits(InputReader& in) {
  PULSE_ASSIGN_OR_RETURN(const absl::string_view head, in.Peek(kRecogniseBytes));
  return ReadZstdHeader(head).header != 0 ||
         (head.size() >= 4 && IsSkippable(LoadLe32(head.data())));
}

absl::StatusOr<bool> ZstdSource::Gather(Chunk& chunk) {
  Begin(chunk);
  while (chunk.input.size() < gather_ && chunk.tag < kGatherContent) {
    PULSE_ASSIGN_OR_RETURN(absl::string_view head, in_.Peek(kRecogniseBytes));
    if (head.size() >= 4 && IsSkippable(LoadLe32(head.data()))) {
      if (head.size() < 8)
        return absl::DataLossError(absl::StrCat(
            in_.name(), " ends at offset ", in_.offset() + head.size(), ", in a frame's header"));
      uint64_t skip = 8 + uint64_t{LoadLe32(&head[4])};
      while (skip > 0) {
        PULSE_ASSIGN_OR_RETURN(const absl::string_view piece, in_.Piece());
        if (piece.empty()) {
          return absl::DataLossError(
              absl::StrCat(in_.name(), " ends at offset ", in_.offset(), ", in a skippable frame"));
        }
        const size_t n = std::min<uint64_t>(skip, piece.size());
        in_.Consume(n);
        skip -= n;
      }
      continue;
    }
    const ZstdFrame frame = ReadZstdHeader(head);
    if (frame.header == 0) break;
    // Those of a chunk follow each other, so that one offset says where they are; and memory is
    // bounded.
    if (chunk.input.size() == 0) chunk.offset = in_.offset();
    if (chunk.tag > 0 && chunk.tag + frame.content > kLargestPiece) break;
    const uint64_t begin = in_.offset();
    PULSE_RETURN_IF_ERROR(Read(chunk, frame.header, "a zstd frame's header"));
    for (bool last = false; !last;) {
      PULSE_ASSIGN_OR_RETURN(head, in_.Peek(3));
      if (head.size() < 3) {
        return absl::DataLossError(absl::StrCat(in_.name(), " ends at offset ", in_.offset(),
                                                ", in the middle of a zstd frame"));
      }
      const uint32_t block = LoadLe16(head.data()) | static_cast<uint8_t>(head[2]) << 16;
      last = (block & 1) != 0;
      const uint32_t type = block >> 1 & 3;
      const size_t size = type == 1 ? 1 : block >> 3;
      // Many empty blocks would take memory without end. Small ones, of a writer that was flushed
      // often, have three bytes more each.
      if (type == 3 || size > 128 << 10 ||
          in_.offset() - begin > frame.content + ZSTD_compressBound(frame.content) + (1 << 20)) {
        return absl::DataLossError(absl::StrCat(in_.name(), " is damaged at offset ", in_.offset(),
                                                ": a zstd block's header"));
      }
      PULSE_RETURN_IF_ERROR(Read(chunk, 3 + size, "a zstd block"));
    }
    if (frame.checksum) PULSE_RETURN_IF_ERROR(Read(chunk, 4, "a zstd checksum"));
    chunk.tag += frame.content;
    whole_ = chunk.input.size();
  }
  return chunk.input.size() > 0;
}

absl::StatusOr<bool> Lz4Source::Gather(Chunk& chunk) {
  Begin(chunk);
  chunk.kind = header_.block_checksums ? 1 : 0;
  chunk.tag = header_.max_block;
  uint64_t blocks = 0;
  while (chunk.input.size() < gather_ && (blocks + 1) * header_.max_block <= size_t{8} << 20) {
    PULSE_ASSIGN_OR_RETURN(const absl::string_view head, in_.Peek(4));
    if (head.size() < 4) {
      return absl::DataLossError(absl::StrCat(in_.name(), " ends at offset ", in_.offset(),
                                              ", in the middle of an LZ4 frame"));
    }
    const uint32_t word = LoadLe32(head.data());
    if (word == 0) break;
    const size_t size = word & ~kLz4Stored;
    if (size > header_.max_block) {
      return absl::DataLossError(absl::StrCat(in_.name(), " is damaged at offset ", in_.offset(),
                                              ": an LZ4 block larger than its frame allows"));
    }
    PULSE_RETURN_IF_ERROR(
        Read(chunk, 4 + size + (header_.block_checksums ? 4 : 0), "an LZ4 block"));
    ++blocks;
    whole_ = chunk.input.size();
  }
  return chunk.input.size() > 0;
}

}  // namespace pulse::ops
