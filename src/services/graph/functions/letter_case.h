// The letters' other case, of all of Unicode, where it is one code point. Pure; any thread.
#pragma once

#include <cstdint>

namespace pulse::cypher {

// The code point itself where it has no other case, or one that takes several code points.
uint32_t UpperCaseOf(uint32_t code);
uint32_t LowerCaseOf(uint32_t code);

}  // namespace pulse::cypher
