// Texts: made of pieces (Debian's absl::StrCat takes no std::string_view), UTF-8, and what is a
// name in Cypher. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace pulse::cypher {

template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string out;
  const auto add = [&out](const auto& part) {
    if constexpr (std::is_integral_v<std::decay_t<decltype(part)>>) {
      out += std::to_string(part);
    } else {
      out += part;
    }
  };
  (add(parts), ...);
  return out;
}

// The code point at *at, which is moved behind it; -1 for what is not UTF-8.
int32_t NextCodePoint(std::string_view text, size_t* at);
bool IsUtf8(std::string_view text);
// How many bytes of it, from the first on, are UTF-8.
size_t Utf8Length(std::string_view text);
// For a message: not a whole book.
std::string ShortText(std::string_view text);
void AppendCodePoint(uint32_t code, std::string* out);
bool IsSpaceCharacter(int32_t code);
bool IsNameStart(int32_t code);
bool IsNamePart(int32_t code);
// Whether `text` can be written as a name without quotes.
bool IsPlainName(std::string_view text);

// As Cypher writes a string, and a name: in quotes where it needs them.
std::string QuotedText(std::string_view text);
std::string NameText(std::string_view name);
// As literals write a byte array: bytes('AP8='), base64.
std::string BytesText(std::string_view bytes);

inline absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace pulse::cypher
