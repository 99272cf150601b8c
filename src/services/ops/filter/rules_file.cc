#include "services/ops/filter/rules_file.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse::filter {
namespace {

constexpr uint64_t kMostRuleBytes = uint64_t{64} << 20;

}  // namespace

absl::StatusOr<std::vector<Rule>> ReadRulesFile(const std::string& option,
                                                const std::string& path) {
  const std::string name = absl::StrCat(option, " ", path);
  const UniqueFd fd = OpenFile(path, O_RDONLY);
  if (!fd.valid()) return ErrnoError(errno, "opening", name);
  PULSE_ASSIGN_OR_RETURN(const std::string text,
                         ReadToEnd(fd.get(), kMostRuleBytes, "reading", name));
  if (text.size() > kMostRuleBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": larger than ", kMostRuleBytes >> 20, " MiB: no file of rules"));
  }
  return ReadRules(text, name);
}

}  // namespace pulse::filter
