#include "base/sibling_program.h"

#include <filesystem>
#include <system_error>

namespace pulse {

std::string SiblingProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : (self.parent_path() / name).string();
}

}  // namespace pulse
