// Formats of compressed data: their names, the suffixes of their files, and how they are
// recognised. Thread-safe, never blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse::ops {

enum class Format : uint8_t { kGzip, kZlib, kBgzf, kZstd, kLz4 };

inline constexpr Format kAllFormats[] = {Format::kGzip, Format::kZlib, Format::kBgzf, Format::kZstd,
                                         Format::kLz4};

// So many bytes tell the formats apart.
inline constexpr size_t kRecogniseBytes = 18;

absl::string_view FormatName(Format format);
// InvalidArgument lists the names.
absl::StatusOr<Format> ParseFormat(absl::string_view name);
// ".gz" ...
absl::string_view FormatSuffix(Format format);

// The format of data that begins with `bytes`, at least kRecogniseBytes unless the data is shorter.
// NotFound: none of these.
absl::StatusOr<Format> Recognise(absl::string_view bytes);

// "a.gz" -> "a", "a.tgz" -> "a.tar". InvalidArgument: no suffix of a format.
absl::StatusOr<std::string> NameWithoutSuffix(absl::string_view name);

// Little-endian numbers in the formats.
inline uint32_t LoadLe16(const void* from) {
  const auto* b = static_cast<const uint8_t*>(from);
  return static_cast<uint32_t>(b[0]) | static_cast<uint32_t>(b[1]) << 8;
}
inline uint32_t LoadLe32(const void* from) {
  const auto* b = static_cast<const uint8_t*>(from);
  return LoadLe16(b) | LoadLe16(b + 2) << 16;
}
inline uint32_t LoadBe32(const void* from) { return __builtin_bswap32(LoadLe32(from)); }
inline void AppendLe(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace pulse::ops
