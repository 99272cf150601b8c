// Writes JSON, and makes text that a stranger wrote fit to be shown. Small, since it goes into the
// plug-in, which takes no library for it. Any thread; nothing is shared.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace pulse {

// `text` with everything that is no printable character replaced by '?': control characters (also
// those that terminals obey), and what is not UTF-8.
std::string CleanText(absl::string_view text);

// Builds one JSON value. The caller opens and closes objects and lists in their order; inside an
// object each value has its key.
class JsonWriter {
 public:
  JsonWriter& Open(char bracket);  // '{' or '['
  JsonWriter& Close(char bracket);
  JsonWriter& Key(absl::string_view key);
  JsonWriter& Value(uint64_t value);
  JsonWriter& Value(absl::string_view text);  // cleaned and escaped
  JsonWriter& Null();

  JsonWriter& Add(absl::string_view key, uint64_t value) { return Key(key).Value(value); }
  JsonWriter& Add(absl::string_view key, absl::string_view text) { return Key(key).Value(text); }

  const std::string& text() const { return out_; }

 private:
  void Separate();

  std::string out_;
  bool first_ = true;  // nothing yet in the innermost object or list, or a key was just written
};

}  // namespace pulse
