// RuleForm: a rule as the scanners take it. Two forms exist of each rule, since characters beyond
// ASCII have several bytes and the scanners count bytes:
//
//   kAscii  right for records of ASCII only; of other records it says nothing
//   kAny    for every record: what RE2 accepts it accepts, and where `exact` is false, or not on
//           records that are not all ASCII, more than that. RE2 confirms those.
//
// Most rules have one form for both. Values; any thread.
#pragma once

#include <string>
#include <vector>

#include "services/ops/filter/syntax.h"

namespace pulse::filter {

enum class Alphabet { kAscii, kAny };

// Bytes that stand together, and how they are joined to the ones before them.
struct Piece {
  std::string bytes;
  uint32_t gap = 0;  // characters between the piece before, or the record's beginning, and this
                     // one: at least so many
};

// A rule of texts and of gaps of whatever length: it needs no automaton.
struct Chain {
  std::vector<Piece> pieces;
  uint32_t last_gap = 0;
  bool from_start = false;   // the first piece is the record's beginning
  bool to_end = false;       // the last one is its end
  bool ignore_case = false;  // of ASCII letters; the pieces are in lower case then
};

struct RuleForm {
  std::string pattern;        // in the scanner's syntax; without meaning in a chain
  std::vector<Chain> chains;  // instead of a pattern: one of them has to match
  bool exact = true;          // else RE2 confirms records that are not all ASCII
  bool operator==(const RuleForm& other) const { return pattern == other.pattern; }
};

// `rule` is simplified, and neither accepts all records nor none. `never` tells that the form of it
// for this alphabet can match nothing.
RuleForm MakeForm(const Node& rule, Alphabet alphabet, bool lines, bool* never);

}  // namespace pulse::filter
