// Where the other programs of this build or installation are: beside the one that runs.
#pragma once

#include <string>

namespace pulse {

// The path of `name` in the directory of the running program, whether or not it is there. Without
// /proc, the bare name. Does not block.
std::string SiblingProgram(const std::string& name);

}  // namespace pulse
