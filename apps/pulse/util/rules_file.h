// A file of rules for filters, as the command line names it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/ops/filter/filter.h"

namespace pulse {

// The rules of the file that `option` names (filter::ReadRules). Errors name both.
absl::StatusOr<std::vector<filter::Rule>> ReadRulesFile(const std::string& option,
                                                        const std::string& path);

}  // namespace pulse
