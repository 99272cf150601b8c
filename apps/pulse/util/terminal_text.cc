#include "apps/pulse/util/terminal_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "base/json.h"

namespace pulse {
namespace {

struct CodeRange {
  uint32_t first, last;
};

// Combining characters of the more frequent alphabets, and selectors of a form.
constexpr CodeRange kWithoutColumns[] = {
    {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},    {0x5bf, 0x5bf},   {0x5c1, 0x5c2},
    {0x5c4, 0x5c5},   {0x610, 0x61a},   {0x64b, 0x65f},    {0x670, 0x670},   {0x93c, 0x93c},
    {0x941, 0x948},   {0x94d, 0x94d},   {0xe31, 0xe31},    {0xe34, 0xe3a},   {0xe47, 0xe4e},
    {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x20d0, 0x20f0},  {0x302a, 0x302d}, {0x3099, 0x309a},
    {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef}};

// Of East_Asian_Width W and F, without the smallest blocks.
constexpr CodeRange kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},
    {0x23f0, 0x23f0},   {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267f, 0x267f},   {0x2693, 0x2693},   {0x26a1, 0x26a1},
    {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},   {0x26ce, 0x26ce},
    {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
    {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},
    {0x2728, 0x2728},   {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},
    {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27b0, 0x27b0},   {0x2b1b, 0x2b1c},
    {0x2b50, 0x2b50},   {0x2b55, 0x2b55},   {0x2e80, 0x303e},   {0x3041, 0x3247},
    {0x3250, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},
    {0xffe0, 0xffe6},   {0x16fe0, 0x18d08}, {0x1aff0, 0x1b2fb}, {0x1f18e, 0x1f18e},
    {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c},
    {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0},
    {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc},
    {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e}, {0x1f550, 0x1f567}, {0x1f5fb, 0x1f64f},
    {0x1f680, 0x1f6c5}, {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d7}, {0x1f6dc, 0x1f6df},
    {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f93a},
    {0x1f93c, 0x1f945}, {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x2fffd},
    {0x30000, 0x3fffd}};

template <size_t kCount>
bool IsIn(const CodeRange (&ranges)[kCount], uint32_t code) {
  const auto* const at =
      std::lower_bound(std::begin(ranges), std::end(ranges), code,
                       [](const CodeRange& range, uint32_t c) { return range.last < c; });
  return at != std::end(ranges) && at->first <= code;
}

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The bytes of the character that `text` begins with.
size_t BytesOfFirst(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && Continues(text[bytes])) ++bytes;
  return bytes;
}

size_t ColumnsOfOne(std::string_view character) {
  if (character.size() == 1 || character.size() > 4) return Continues(character[0]) ? 0 : 1;
  uint32_t code = static_cast<unsigned char>(character[0]) & (0x7fU >> character.size());
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<uint32_t>(c) & 0x3f);
  if (IsIn(kWithoutColumns, code)) return 0;
  return IsIn(kWide, code) ? 2 : 1;
}

}  // namespace

size_t Columns(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const size_t bytes = BytesOfFirst(text);
    columns += ColumnsOfOne(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return columns;
}

std::string_view FirstColumns(std::string_view text, size_t columns) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t bytes = BytesOfFirst(text.substr(at));
    const size_t more = ColumnsOfOne(text.substr(at, bytes));
    if (more > columns) break;
    columns -= more;
    at += bytes;
  }
  return text.substr(0, at);
}

std::string CleanLines(absl::string_view text) {
  std::string clean;
  while (true) {
    const size_t end = std::min(text.find('\n'), text.size());
    clean += CleanText(text.substr(0, end));
    if (end == text.size()) return clean;
    clean += '\n';
    text.remove_prefix(end + 1);
  }
}

bool HasTerminalSequences() {
  const char* const term = std::getenv("TERM");
  return term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

}  // namespace pulse
