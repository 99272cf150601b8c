// Where the other programs, and what they load, of this build or installation are.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace pulse {

// The path of `name`: in the directory of the running program; in lib beside it, in a build tree;
// and of an installation, in libexec/pulsedb or in bin. The first where there is one, else the
// first. Without /proc, the bare name. Looks at the disk.
inline std::string SiblingProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return name;
  for (const char* place : {"", "../lib", "../libexec/pulsedb", "../../bin"}) {
    const std::filesystem::path there = self.parent_path() / place / name;
    if (std::filesystem::exists(there, error)) return there.lexically_normal().string();
  }
  return (self.parent_path() / name).string();
}

}  // namespace pulse
