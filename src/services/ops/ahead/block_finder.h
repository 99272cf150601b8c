// FindBlock: where a DEFLATE block with codes of its own (a "dynamic" one) may begin, in the middle
// of a stream that nobody has decoded up to there.
//
// What is found is a header that is valid in all its parts and describes complete codes, as every
// encoder writes them. Data may look so by chance, or on purpose: whoever uses the place must not
// rely on it. Final blocks, and blocks that are stored or have the fixed codes, are not looked for.
//
// Thread-safe, never blocks.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace pulse::ops {

// No header is longer, in bytes.
inline constexpr size_t kLongestBlockHeader = 640;

// The first such bit of `bytes` in [from, to). A header that does not end within `bytes` is none.
std::optional<uint64_t> FindBlock(absl::string_view bytes, uint64_t from, uint64_t to);

}  // namespace pulse::ops
