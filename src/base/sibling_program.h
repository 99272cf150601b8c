// Where the other programs of this build or installation are: beside the one that runs.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace pulse {

// The path of `name` in the directory of the running program, whether or not it is there. Without
// /proc, the bare name. Does not block.
inline std::string SiblingProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : (self.parent_path() / name).string();
}

}  // namespace pulse
