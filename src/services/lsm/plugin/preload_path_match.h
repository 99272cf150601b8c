// PathMatch: which paths the environment variable PULSE_MATCH means.
//
// A list of absolute paths, separated by ':'. An entry is a directory, or a pattern as a shell has
// it
// (*, ?, [...]; none of them stands for a '/'; '\' takes the meaning from the next character). It
// means that directory, or each that fits, and everything below. Compared by the text: "." and ".."
// are resolved, symbolic links are not. Immutable; any thread; does not block.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse::lsm {

class PathMatch {
 public:
  // InvalidArgument names the entry that is no absolute path.
  static absl::StatusOr<PathMatch> Parse(absl::string_view list);
  // Means every path.
  PathMatch() = default;

  bool everything() const { return patterns_.empty(); }
  // A relative path counts from the working directory.
  bool Matches(const std::string& path) const;

 private:
  std::vector<std::string> patterns_;
};

}  // namespace pulse::lsm
