#include "base/json.h"

#include "absl/strings/str_cat.h"

namespace pulse {
namespace {

// The bytes of the UTF-8 character that `text` begins with, 0 if it is none, or none to be shown.
size_t PrintableLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  uint32_t code = lead & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least || code > 0x10ffff || surrogate) return 0;
  // Control characters of the second kind, and those that turn the direction of writing.
  const bool control = code < 0xa0 || code == 0xad || (code >= 0x200b && code <= 0x200f) ||
                       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
                       code == 0xfeff;
  return control ? 0 : length;
}

}  // namespace

std::string CleanText(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = PrintableLength(text);
    absl::StrAppend(&out, n == 0 ? absl::string_view("?") : text.substr(0, n));
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

void JsonWriter::Separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  out_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Key(absl::string_view key) {
  Value(key);
  out_ += ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::Value(uint64_t value) {
  Separate();
  absl::StrAppend(&out_, value);
  return *this;
}

JsonWriter& JsonWriter::Value(absl::string_view text) {
  Separate();
  out_ += '"';
  for (const char c : CleanText(text)) {
    if (c == '"' || c == '\\') out_ += '\\';
    out_ += c;
  }
  out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  out_ += "null";
  return *this;
}

}  // namespace pulse
