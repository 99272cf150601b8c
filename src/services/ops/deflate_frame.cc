#include "services/ops/deflate_frame.h"

#include <isa-l/crc.h>

#include <array>

#include "base/check.h"
#include "services/ops/format.h"

namespace pulse::ops {
namespace {

constexpr int kDigits = 8;
constexpr int kMagic = 9;  // fixed blocks at the beginning

// `fixed` empty blocks with fixed codes, and an empty stored one.
std::string EmptyBlocks(int fixed) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  const auto put = [&](uint32_t value, int n) {
    bits |= value << count;
    for (count += n; count >= 8; count -= 8) {
      bytes.push_back(static_cast<char>(bits));
      bits >>= 8;
    }
  };
  for (int i = 0; i < fixed; ++i) put(0b0000000'01'0, 10);
  put(0b00'0, 3);
  if (count > 0) put(0, 8 - count);
  bytes.append("\x00\x00\xff\xff", 4);
  return bytes;
}

const std::array<std::string, kMagic + 1>& Codes() {
  static const std::array<std::string, kMagic + 1> codes = [] {
    std::array<std::string, kMagic + 1> all;
    for (int i = 0; i <= kMagic; ++i) all[static_cast<size_t>(i)] = EmptyBlocks(i);
    return all;
  }();
  return codes;
}

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

}  // namespace

std::string ChunkMark(uint64_t length) {
  PULSE_CHECK(length < kMarkLimit);
  std::string mark = Codes()[kMagic];
  for (int digit = kDigits - 1; digit >= 0; --digit) mark += Codes()[(length >> (3 * digit)) & 7];
  PULSE_CHECK(mark.size() <= kMarkRoom);
  return mark;
}

std::optional<Mark> ReadMark(absl::string_view bytes) {
  const size_t all = bytes.size();
  const auto skip = [&](const std::string& code) {
    if (bytes.substr(0, code.size()) != code) return false;
    bytes.remove_prefix(code.size());
    return true;
  };
  if (!skip(Codes()[kMagic])) return std::nullopt;
  uint64_t length = 0;
  for (int digit = 0; digit < kDigits; ++digit) {
    // No code begins with another one: their blocks can be read in one way only.
    uint64_t value = 0;
    while (value < 8 && !skip(Codes()[value])) ++value;
    if (value == 8) return std::nullopt;
    length = length << 3 | value;
  }
  return Mark{all - bytes.size(), length};
}

std::string WriteGzipHeader(const GzipHeader& header) {
  std::string bytes = Bytes({0x1f, 0x8b, 8, header.name.empty() ? 0 : 8});
  AppendLe(bytes, header.mtime, 4);
  // What the level was, roughly, and the operating system: Unix.
  bytes += Bytes({header.level == 9 ? 2 : header.level == 1 ? 4 : 0, 3});
  if (!header.name.empty()) bytes.append(header.name.c_str(), header.name.size() + 1);
  return bytes;
}

std::string WriteGzipTrailer(uint32_t crc, uint64_t size) {
  std::string bytes;
  AppendLe(bytes, crc, 4);
  AppendLe(bytes, size, 4);
  return bytes;
}

std::string WriteZlibHeader(int level) {
  return level == 1 ? Bytes({0x78, 0x01}) : level >= 7 ? Bytes({0x78, 0xDA}) : Bytes({0x78, 0x9C});
}

std::string WriteZlibTrailer(uint32_t adler) {
  std::string bytes;
  AppendLe(bytes, __builtin_bswap32(adler), 4);
  return bytes;
}

absl::StatusOr<size_t> GzipHeaderSize(absl::string_view bytes) {
  const absl::Status more = absl::OutOfRangeError("the gzip header goes on");
  if (bytes.size() < 10) return more;
  const auto flags = static_cast<uint8_t>(bytes[3]);
  if (bytes[2] != 8) return absl::DataLossError("a compression method that gzip does not have");
  if ((flags & 0xE0) != 0) return absl::DataLossError("reserved flags in the gzip header");
  size_t at = 10;
  if ((flags & 4) != 0) {
    if (bytes.size() < at + 2) return more;
    at += 2 + LoadLe16(&bytes[at]);
  }
  for (const int flag : {8, 16}) {
    if ((flags & flag) == 0) continue;
    const size_t end = at <= bytes.size() ? bytes.find('\0', at) : absl::string_view::npos;
    if (end == absl::string_view::npos) return more;
    at = end + 1;
  }
  if ((flags & 2) != 0) {
    if (bytes.size() < at + 2) return more;
    const uint32_t crc =
        crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes.data()), at) & 0xFFFF;
    if (crc != LoadLe16(&bytes[at])) return absl::DataLossError("the gzip header's checksum");
    at += 2;
  }
  if (bytes.size() < at) return more;
  return at;
}

std::string BgzfHeader(size_t block_size) {
  std::string bytes = Bytes({0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 6, 0, 'B', 'C', 2, 0});
  AppendLe(bytes, block_size - 1, 2);
  return bytes;
}

size_t BgzfBlockSize(absl::string_view bytes) {
  // Other parts of the extra field may follow; one before "BC" is not recognised, since nobody
  // writes it.
  const auto format = bytes.size() >= kBgzfHeader ? Recognise(bytes) : absl::NotFoundError("");
  if (!format.ok() || *format != Format::kBgzf) return 0;
  const size_t size = LoadLe16(&bytes[16]) + 1;
  return size >= 12 + LoadLe16(&bytes[10]) + kBgzfTrailer + 1 ? size : 0;
}

absl::string_view BgzfEnd() {
  static const std::string end = BgzfHeader(28) + Bytes({3, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  return end;
}

}  // namespace pulse::ops
