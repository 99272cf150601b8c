// The structure of a rule: what stands after what, with each class as the set that RE2 gives it.
// Only what decides "does this record match" is kept: captures and greed are not.
//
// RE2 parses a rule first; ParseRule reads what RE2 has accepted, and nothing else. Where it meets
// a form that it does not know it says so, and the rule goes to RE2 alone. Values; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/filter/char_set.h"

namespace pulse::filter {

inline constexpr int kNoLimit = -1;

struct Node {
  enum class Kind {
    kEmpty,  // matches, and takes nothing
    kNever,  // cannot match
    kSet,    // one character, or one byte
    kConcat,
    kAlternate,
    kRepeat,  // of the only child, `least` to `most` times
    kTextStart,
    kTextEnd,
    kLineStart,  // after a newline, too
    kLineEnd,
    kWordBoundary,
    kNoWordBoundary,
  };

  Kind kind = Kind::kEmpty;
  CharSet set;
  int least = 0;
  int most = 0;  // or kNoLimit
  std::vector<Node> children;

  static Node Make(Kind kind) {
    Node node;
    node.kind = kind;
    return node;
  }
  // Whether it takes no character, wherever it matches.
  bool IsAssertion() const {
    return kind == Kind::kTextStart || kind == Kind::kTextEnd || kind == Kind::kLineStart ||
           kind == Kind::kLineEnd || kind == Kind::kWordBoundary || kind == Kind::kNoWordBoundary;
  }
};

// Unimplemented, with the form and its place, for what is left to RE2 alone.
absl::StatusOr<Node> ParseRule(absl::string_view rule, bool ignore_case);

// A node that accepts the same records: without what can never match, and without what an
// unanchored search does not need: optional parts at either end, and repetitions beyond the least
// there. With `lines`, records hold no newline: no class accepts one, and a line's ends are the
// text's.
Node Simplify(Node node, bool lines);

// Whether `node` matches the empty string at any place whatever, so that it accepts every record.
bool AcceptsAll(const Node& node);

}  // namespace pulse::filter
