// A file of rules for filters, as a command line names it. Any thread; blocks on the file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/ops/filter/filter.h"

namespace pulse::filter {

// The rules of the file that `option` names (ReadRules). Errors name both.
absl::StatusOr<std::vector<Rule>> ReadRulesFile(const std::string& option, const std::string& path);

}  // namespace pulse::filter
