#include "apps/pulse/util/rules_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse {
namespace {

constexpr uint64_t kMostRuleBytes = uint64_t{64} << 20;

}  // namespace

absl::StatusOr<std::vector<filter::Rule>> ReadRulesFile(const std::string& option,
                                                        const std::string& path) {
  const std::string name = absl::StrCat(option, " ", path);
  const UniqueFd fd = OpenFile(path, O_RDONLY);
  if (!fd.valid()) return ErrnoError(errno, "opening", name);
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "reading", name);
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > kMostRuleBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": larger than ", kMostRuleBytes >> 20, " MiB: no file of rules"));
    }
  }
  return filter::ReadRules(text, name);
}

}  // namespace pulse
