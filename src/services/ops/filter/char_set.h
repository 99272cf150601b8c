// CharSet: which code points one place of a rule accepts, as RE2 says. Values; any thread.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace pulse::filter {

inline constexpr int kAsciiSize = 128;

// The UTF-8 form of a code point below 0x110000. Surrogates have one too: RE2 gives them one.
void AppendUtf8(uint32_t code_point, std::string* out);

struct CharSet {
  // More code points beyond ASCII than this are not listed: they count as all.
  static constexpr size_t kListed = 16;

  std::bitset<kAsciiSize> ascii;
  std::vector<uint32_t> others;  // beyond ASCII, ascending
  bool many_others = false;      // more than can be listed; `others` is empty then
  bool any_byte = false;         // \C: one byte, whatever it is

  bool empty() const { return ascii.none() && others.empty() && !many_others && !any_byte; }
  bool only_ascii() const { return others.empty() && !many_others && !any_byte; }
  // Everything but a newline, by characters: what `.` accepts.
  bool IsDot() const;

  static CharSet Of(uint32_t code_point);
  static CharSet AnyByte();
};

// What RE2 accepts in place of `token`, one class or escape in RE2's syntax, with the flags `flags`
// ("i", "s", both, or none). RE2 itself is asked, so that no table of ours can differ from its own.
// An answer takes a microsecond, or some milliseconds where all of Unicode has to be looked
// through, and is kept for the process. Empty when RE2 refuses the token. Thread-safe.
CharSet AskRe2(absl::string_view token, absl::string_view flags);

}  // namespace pulse::filter
