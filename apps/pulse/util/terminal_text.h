// Text on terminals: how wide it is, and what of a stranger's is shown. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace pulse {

// The columns that `text`, valid UTF-8 without control characters, takes: two for what East Asia
// writes wide and for most pictures, none for what is written over the character before.
size_t Columns(std::string_view text);

// The longest beginning of `text` in at most `columns`.
std::string_view FirstColumns(std::string_view text, size_t columns);

// `text` as CleanText has it, but with its line breaks.
std::string CleanLines(absl::string_view text);

// Whether TERM names a terminal that moves its cursor and erases on demand.
bool HasTerminalSequences();

}  // namespace pulse
