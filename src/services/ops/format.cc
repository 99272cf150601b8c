#include "services/ops/format.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pulse::ops {

absl::string_view FormatName(Format format) {
  switch (format) {
    case Format::kGzip:
      return "gzip";
    case Format::kZlib:
      return "zlib";
    case Format::kBgzf:
      return "bgzf";
    case Format::kZstd:
      return "zstd";
    case Format::kLz4:
      return "lz4";
  }
  return "";
}

absl::StatusOr<Format> ParseFormat(absl::string_view name) {
  for (const Format format : kAllFormats) {
    if (FormatName(format) == name) return format;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("format ", name, " is none of gzip, zlib, bgzf, zstd and lz4"));
}

absl::string_view FormatSuffix(Format format) {
  switch (format) {
    case Format::kGzip:
      return ".gz";
    case Format::kZlib:
      return ".zz";
    case Format::kBgzf:
      return ".bgz";
    case Format::kZstd:
      return ".zst";
    case Format::kLz4:
      return ".lz4";
  }
  return "";
}

absl::StatusOr<Format> Recognise(absl::string_view bytes) {
  if (bytes.size() >= 3 && bytes.substr(0, 3) == absl::string_view("\x1f\x8b\x08", 3)) {
    // BGZF: an extra field whose first part is "BC" with two bytes.
    const bool bgzf = bytes.size() >= 18 && bytes[3] == 4 && LoadLe16(&bytes[10]) >= 6 &&
                      bytes.substr(12, 4) == absl::string_view("BC\x02\x00", 4);
    return bgzf ? Format::kBgzf : Format::kGzip;
  }
  if (bytes.size() >= 4) {
    const uint32_t magic = LoadLe32(bytes.data());
    if (magic == 0xFD2FB528u || (magic & 0xFFFFFFF0u) == 0x184D2A50u) return Format::kZstd;
    if (magic == 0x184D2204u) return Format::kLz4;
  }
  if (bytes.size() >= 2) {
    const auto first = static_cast<uint8_t>(bytes[0]);
    const auto second = static_cast<uint8_t>(bytes[1]);
    // Deflate with a window of at most 32 KiB, a valid check and no dictionary.
    if ((first & 0x0F) == 8 && first >> 4 <= 7 && (first * 256 + second) % 31 == 0 &&
        (second & 0x20) == 0) {
      return Format::kZlib;
    }
  }
  return absl::NotFoundError("not compressed in a known format (gzip, zlib, bgzf, zstd, lz4)");
}

absl::StatusOr<std::string> NameWithoutSuffix(absl::string_view name) {
  static constexpr std::pair<absl::string_view, absl::string_view> kSuffixes[] = {
      {".gz", ""},       {".zz", ""},      {".bgz", ""},  {".bgzf", ""},
      {".zst", ""},      {".lz4", ""},     {".zlib", ""}, {".tgz", ".tar"},
      {".tzst", ".tar"}, {".taz", ".tar"}, {".z", ""},
  };
  for (const auto& [suffix, instead] : kSuffixes) {
    if (name.size() > suffix.size() && absl::EndsWith(name, suffix) &&
        name[name.size() - suffix.size() - 1] != '/') {
      return absl::StrCat(name.substr(0, name.size() - suffix.size()), instead);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " has no suffix of compressed files; name the output with -o, or use -c"));
}

}  // namespace pulse::ops
