#include "services/graph/model/text.h"

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace pulse::cypher {

int32_t NextCodePoint(std::string_view text, size_t* at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const uint32_t first = byte((*at)++);
  if (first < 0x80) return static_cast<int32_t>(first);
  const int more = first >= 0xF0 && first < 0xF5   ? 3
                   : first >= 0xE0 && first < 0xF0 ? 2
                   : first >= 0xC2 && first < 0xE0 ? 1
                                                   : -1;
  if (more < 0) return -1;
  uint32_t code = first & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    const uint32_t next = byte(*at);
    if ((next & 0xC0) != 0x80) return -1;
    code = code << 6 | (next & 0x3F);
    ++*at;
  }
  const bool short_form = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
  if (short_form || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return -1;
  return static_cast<int32_t>(code);
}

size_t Utf8Length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    // Most texts are ASCII, in which no byte has its top bit.
    uint64_t word;
    if (at + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const size_t begin = at;
    if (NextCodePoint(text, &at) < 0) return begin;
  }
  return at;
}

bool IsUtf8(std::string_view text) { return Utf8Length(text) == text.size(); }

std::string ShortText(std::string_view text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return std::string(text);
  return Concat(text.substr(0, Utf8Length(text.substr(0, kMost - 3))), "...");
}

void AppendCodePoint(uint32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xC0 | code >> 6);
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out += static_cast<char>(0xE0 | code >> 12);
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | code >> 18);
    *out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

bool IsSpaceCharacter(int32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

// Letters of all scripts: what is not ASCII, no space and no punctuation of the general blocks.
bool IsNameStart(int32_t c) {
  if (c < 0) return false;
  if (c < 0x80) return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_';
  return c >= 0xAA && c != 0xAB && c != 0xBB && c != 0xD7 && c != 0xF7 && !IsSpaceCharacter(c) &&
         !(c >= 0x2010 && c <= 0x206F) && !(c >= 0x3001 && c <= 0x3003) && c < 0xFFF0;
}
bool IsNamePart(int32_t c) {
  return IsNameStart(c) || (c >= '0' && c <= '9') || (c >= 0x203F && c <= 0x2040);
}

bool IsPlainName(std::string_view text) {
  size_t at = 0;
  if (text.empty() || !IsNameStart(NextCodePoint(text, &at))) return false;
  while (at < text.size()) {
    if (!IsNamePart(NextCodePoint(text, &at))) return false;
  }
  return true;
}

std::string NameText(std::string_view name) {
  if (IsPlainName(name)) return std::string(name);
  std::string quoted = "`";
  for (const char c : name) quoted += c == '`' ? std::string("``") : std::string(1, c);
  return quoted + "`";
}

std::string QuotedText(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else
      out += c;
  }
  return out + "'";
}

std::string BytesText(std::string_view bytes) {
  return Concat("bytes('", absl::Base64Escape(Absl(bytes)), "')");
}

}  // namespace pulse::cypher
