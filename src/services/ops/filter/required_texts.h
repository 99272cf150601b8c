// Texts of which every record that a rule accepts holds one: by a few of them that many rules
// share, records that no rule can accept are passed over before RE2 is asked.
//
// Pure; thread-safe; never blocks.
#pragma once

#include <string>
#include <vector>

#include "services/ops/filter/syntax.h"

namespace pulse::filter {

// The texts, all of ASCII, each of which is part of whatever `rule`, which is simplified, accepts.
// Empty: none is known.
std::vector<std::string> RequiredTexts(const Node& rule);

// At most `most` texts without a newline, so that of each element of `required` at least one text
// contains one of them; as rare ones as are shared by many. Empty: there are none.
std::vector<std::string> SharedTexts(const std::vector<std::vector<std::string>>& required,
                                     size_t most);

}  // namespace pulse::filter
