// The files of data/, which this program carries. Constant; a malformed one ends the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace pulse::bench {

// Name, without ".json", and text.
const std::vector<std::pair<const char*, const char*>>& AllData();
// Of a name that there is.
const nlohmann::json& DataOf(const std::string& name);

}  // namespace pulse::bench
