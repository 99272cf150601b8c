// A directory of this process alone, for sockets and scratch files; goes with what is in it. Owned
// by one thread; Make and destruction block on the file system.
#pragma once

#include <errno.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::redis {

class PrivateDirectory {
 public:
  PrivateDirectory() = default;
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  ~PrivateDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  // Under XDG_RUNTIME_DIR, else /tmp: short enough for the path of a socket. Errors name the path.
  absl::Status Make() {
    const char* base = getenv("XDG_RUNTIME_DIR");
    std::string path = absl::StrCat(base != nullptr ? base : "/tmp", "/pulse-serve-XXXXXX");
    if (mkdtemp(path.data()) == nullptr) return ErrnoError(errno, "making a directory", path);
    path_ = path;
    return absl::OkStatus();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace pulse::redis
