// RunCase: a database with some settings off their defaults is written, flushed, compacted, closed
// and opened again, and compared with a model each time; at last without the plug-in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "options/option_table.h"

namespace pulse::options_test {

enum class Where { kPulse, kPulsePool, kStock };

// In `dir`, which exists and is empty. "" or what is wrong. Opens databases, so it starts threads;
// for a process of its own.
std::string RunCase(const std::vector<const Setting*>& settings, Where where,
                    const std::string& dir, uint64_t seed);

}  // namespace pulse::options_test
