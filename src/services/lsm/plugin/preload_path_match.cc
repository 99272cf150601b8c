#include "services/lsm/plugin/preload_path_match.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pulse::lsm {
namespace {

// Absolute, without ".", "..", doubled slashes or one at the end.
std::string Normal(const std::string& path) {
  std::filesystem::path p(path);
  if (!p.is_absolute()) {
    std::error_code error;
    const std::filesystem::path here = std::filesystem::current_path(error);
    if (!error) p = here / p;
  }
  std::string text = p.lexically_normal().string();
  // POSIX leaves the meaning of exactly two slashes at the beginning open; Linux takes them for
  // one.
  text.erase(0, std::min(text.find_first_not_of('/'), text.size()));
  text.insert(0, 1, '/');
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace

absl::StatusOr<PathMatch> PathMatch::Parse(absl::string_view list) {
  PathMatch match;
  for (absl::string_view entry : absl::StrSplit(list, ':', absl::SkipEmpty())) {
    if (entry.front() != '/') {
      return absl::InvalidArgumentError(
          absl::StrCat("PULSE_MATCH: \"", entry,
                       "\" is not an absolute path; expected DIR[:DIR...], and * and ? in them"));
    }
    match.patterns_.push_back(Normal(std::string(entry)));
  }
  if (match.patterns_.empty()) {
    return absl::InvalidArgumentError(
        "PULSE_MATCH names no directory; unset it to have every database on PULSE_URI");
  }
  return match;
}

bool PathMatch::Matches(const std::string& path) const {
  if (everything()) return true;
  // The path itself, and each directory that it is below.
  for (std::string part = Normal(path);; part.resize(std::max<size_t>(part.rfind('/'), 1))) {
    for (const std::string& pattern : patterns_) {
      if (fnmatch(pattern.c_str(), part.c_str(), FNM_PATHNAME) == 0) return true;
    }
    if (part == "/") return false;
  }
}

}  // namespace pulse::lsm
