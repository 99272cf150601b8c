#include "apps/pulse/util/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/util/output_file.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse {
namespace {

constexpr absl::string_view kBegin = "# HELP pulse_";

}  // namespace

absl::Status CheckMetricsFile(const std::string& path) {
  struct stat there {};
  if (path.empty() || stat(path.c_str(), &there) != 0 || !S_ISREG(there.st_mode)) {
    return absl::OkStatus();
  }
  const UniqueFd file = OpenFile(path, O_RDONLY);
  if (!file.valid()) return ErrnoError(errno, "opening", path);
  char begin[kBegin.size()];
  const ssize_t n = pread(file.get(), begin, sizeof(begin), 0);
  if (n < 0) return ErrnoError(errno, "reading", path);
  if (n == 0 || absl::string_view(begin, static_cast<size_t>(n)) == kBegin) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--metrics-file ", path,
                   " has something else in it than metrics of pulse; name "
                   "another file"));
}

absl::Status WriteMetricsFile(const std::string& path, const ops::PlacementNumbers& numbers) {
  if (path.empty()) return absl::OkStatus();
  OutputFile file;
  PULSE_RETURN_IF_ERROR(file.Open(path, true, {}));
  PULSE_RETURN_IF_ERROR(
      WriteAll(file.fd(), ops::MetricsText(numbers.Take()), "writing", file.name()));
  return file.Commit(nullptr);
}

}  // namespace pulse
