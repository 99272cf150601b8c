#include "services/ops/lz4_frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "services/ops/format.h"

namespace pulse::ops {
namespace {

constexpr uint32_t kMagic = 0x184D2204u;

}  // namespace

uint32_t Xxh32(const void* data, size_t size) { return XXH32(data, size, 0); }

Xxh32Stream::Xxh32Stream() : state_(XXH32_createState()) {
  XXH32_reset(static_cast<XXH32_state_t*>(state_), 0);
}
Xxh32Stream::~Xxh32Stream() { XXH32_freeState(static_cast<XXH32_state_t*>(state_)); }
void Xxh32Stream::Add(const void* data, size_t size) {
  XXH32_update(static_cast<XXH32_state_t*>(state_), data, size);
}
uint32_t Xxh32Stream::Digest() const {
  return XXH32_digest(static_cast<const XXH32_state_t*>(state_));
}

std::string WriteLz4Header(size_t max_block) {
  std::string bytes;
  AppendLe(bytes, kMagic, 4);
  // Version 1, independent blocks, block checksums; one of the content, too, since a block's does
  // not cover its length and whether it is compressed.
  bytes.push_back(static_cast<char>(0x40 | 0x20 | 0x10 | 0x04));
  int code = 4;
  while (code < 7 && size_t{64} << 10 << (2 * (code - 4)) < max_block) ++code;
  bytes.push_back(static_cast<char>(code << 4));
  bytes.push_back(static_cast<char>(Xxh32(&bytes[4], 2) >> 8));
  return bytes;
}

absl::StatusOr<Lz4Header> ReadLz4Header(absl::string_view bytes) {
  const absl::Status more = absl::OutOfRangeError("the LZ4 frame's header goes on");
  if (bytes.size() < 7) return more;
  if (LoadLe32(bytes.data()) != kMagic) return absl::DataLossError("no LZ4 frame begins here");
  const auto flags = static_cast<uint8_t>(bytes[4]);
  const auto block = static_cast<uint8_t>(bytes[5]);
  if (flags >> 6 != 1 || (flags & 2) != 0 || (block & 0x8F) != 0 || block >> 4 < 4) {
    return absl::DataLossError("the LZ4 frame's header has unknown settings");
  }
  Lz4Header header;
  header.independent = (flags & 0x20) != 0;
  header.block_checksums = (flags & 0x10) != 0;
  header.content_checksum = (flags & 4) != 0;
  header.dictionary = (flags & 1) != 0;
  header.max_block = size_t{64} << 10 << (2 * ((block >> 4) - 4));
  size_t at = 6;
  if ((flags & 8) != 0) at += 8;
  if ((flags & 1) != 0) at += 4;
  if (bytes.size() < at + 1) return more;
  if ((flags & 8) != 0) {
    header.content_size = LoadLe32(&bytes[6]) | uint64_t{LoadLe32(&bytes[10])} << 32;
  }
  if (static_cast<uint8_t>(bytes[at]) != (Xxh32(&bytes[4], at - 4) >> 8 & 0xFF)) {
    return absl::DataLossError("the LZ4 frame's header does not fit its checksum");
  }
  header.size = at + 1;
  return header;
}

}  // namespace pulse::ops
