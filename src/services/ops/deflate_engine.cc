#include "services/ops/deflate_engine.h"

#include <isa-l/crc.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/ops/deflate_frame.h"

namespace pulse::ops {

absl::Status DeflateEngine::Process(int lane, const Chunk& chunk, Result& result) {
  if (format_ == Format::kBgzf) return ProcessBgzf(lane, chunk, result);
  result.checksum = format_ == Format::kZlib ? libdeflate_adler32(1, chunk.data(), chunk.size())
                                             : crc32_gzip_refl(0, chunk.data(), chunk.size());
  result.bytes.Reserve(kMarkRoom + chunk.size() + chunk.size() / 256 + 1024);
  result.bytes.Resize(kMarkRoom);
  const absl::Status status = Deflate(lane, chunk, result.bytes);
  if (!status.ok()) return status;
  result.skip = kMarkRoom;
  const size_t length = result.bytes.size() - kMarkRoom;
  // A chunk that refers to what is before it cannot be decoded alone: no mark.
  if (chunk.prefix > 0) return absl::OkStatus();
  if (length >= kMarkLimit) {
    return absl::InternalError(absl::StrCat("chunk ", chunk.number, " has become ", length,
                                            " bytes; no mark can say that"));
  }
  const std::string mark = ChunkMark(length);
  result.skip -= mark.size();
  std::memcpy(result.bytes.data() + result.skip, mark.data(), mark.size());
  return absl::OkStatus();
}

absl::Status DeflateEngine::ProcessBgzf(int lane, const Chunk& chunk, Result& result) {
  constexpr size_t kMaxBlock = 1 << 16;
  Buffer& out = result.bytes;
  for (size_t at = 0; at < chunk.size(); at += kBgzfInput) {
    const size_t size = std::min(kBgzfInput, chunk.size() - at);
    const uint8_t* from = chunk.data() + at;
    const size_t begin = out.size();
    out.Resize(begin + kMaxBlock);
    uint8_t* data = out.data() + begin + kBgzfHeader;
    size_t length = DeflateWhole(lane, from, size, data, kMaxBlock - kBgzfHeader - kBgzfTrailer);
    if (length == 0) {
      // One stored block, which is final.
      std::string header("\x01", 1);
      AppendLe(header, size, 2);
      AppendLe(header, ~size, 2);
      std::memcpy(data, header.data(), header.size());
      std::memcpy(data + header.size(), from, size);
      length = header.size() + size;
    }
    const size_t block = kBgzfHeader + length + kBgzfTrailer;
    const std::string header = BgzfHeader(block);
    std::memcpy(out.data() + begin, header.data(), header.size());
    const std::string trailer = WriteGzipTrailer(crc32_gzip_refl(0, from, size), size);
    std::memcpy(data + length, trailer.data(), trailer.size());
    out.Resize(begin + block);
  }
  return absl::OkStatus();
}

}  // namespace pulse::ops
