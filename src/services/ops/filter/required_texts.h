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

// Of some texts, not none, the one that is rarest in text and logs.
const std::string& RarestText(const std::vector<std::string>& texts);

// Texts that a group of rules shares.
struct SharedText {
  std::string text;
  // What all rules of the group need besides; a few, none part of another one.
  std::vector<std::string> also;
};

// Divides rules into at most `most` groups, where `required` has the texts that each rule needs.
// Texts have no newline, and are as rare as those are that many rules share. Empty: it cannot be
// done with so few.
std::vector<SharedText> SharedTexts(const std::vector<std::vector<std::string>>& required,
                                    size_t most);

}  // namespace pulse::filter
