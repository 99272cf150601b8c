// Samples: records on which a rule's engines are compared. Made from the rule's structure, so that
// many of them match, and then damaged, so that many just do not. The same seed gives the same
// records.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "services/ops/filter/syntax.h"

namespace pulse::filter {

// A string that `node` accepts, mostly: anchors and boundaries are not looked at, and of a set of
// many characters beyond ASCII any is taken.
std::string MakeMatching(const Node& node, std::mt19937_64& random);

// `record` with some bytes changed, removed, repeated or added; with things around it that matter
// to anchors and boundaries; also with bytes that are not UTF-8.
std::string Damage(std::string record, std::mt19937_64& random);

}  // namespace pulse::filter
