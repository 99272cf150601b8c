// The results of experiments on disk: one file each, complete or not there, so that a run that was
// interrupted is taken up again. Thread-compatible; blocks on disk.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::bench {

struct EarlierResult {
  enum class Kind { kNone, kSame, kOther };
  Kind kind = Kind::kNone;
  // Of kOther: in what it differs, "pairs: 5 there, 3 now".
  std::vector<std::string> differences;
};

// Compares the result in `file` with one that would have these "experiment", "settings" and
// "machine". A file that cannot be read as a result is another one.
EarlierResult FindResult(const std::string& file, const nlohmann::json& identity);

// Writes all of `result`, or leaves what was there.
absl::Status WriteResult(const std::string& file, const nlohmann::json& result);

}  // namespace pulse::bench
