#include "services/ops/filter/rule_form.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace pulse::filter {
namespace {

using Kind = Node::Kind;

// The most bytes of a character.
constexpr int kWidest = 4;
// A rule that is more chains than this is better off as one automaton.
constexpr size_t kMostChains = 8;

// --- Characters to bytes -------------------------------------------------------------------------

class Narrower {
 public:
  explicit Narrower(Alphabet alphabet) : alphabet_(alphabet) {}

  bool exact() const { return exact_; }

  Node Narrow(Node node) {
    if (node.kind == Kind::kSet) return Bytes(std::move(node), 1, 1);
    if (node.kind == Kind::kRepeat && node.children.front().kind == Kind::kSet &&
        node.children.front().set.many_others) {
      return Bytes(std::move(node.children.front()), node.least, node.most);
    }
    for (Node& child : node.children) child = Narrow(std::move(child));
    return node;
  }

 private:
  // A set that is repeated. In what comes out, any_byte stands for all bytes beyond ASCII.
  Node Bytes(Node node, int least, int most) {
    CharSet& set = node.set;
    if (alphabet_ == Alphabet::kAscii) set.others.clear();
    int widest = 1;
    if (set.many_others) {
      set.many_others = false;
      set.any_byte = true;
      exact_ = false;
      if (alphabet_ == Alphabet::kAny) widest = kWidest;
    }
    if (set.empty()) node.kind = Kind::kNever;
    if (least == 1 && most == 1 && widest == 1) return node;
    Node repeat = Node::Make(Kind::kRepeat);
    repeat.least = least;
    repeat.most = most == kNoLimit ? kNoLimit : most * widest;
    repeat.children.push_back(std::move(node));
    return repeat;
  }

  const Alphabet alphabet_;
  bool exact_ = true;
};

// --- Patterns ------------------------------------------------------------------------------------

std::string HexByte(unsigned byte) { return absl::StrCat("\\x", absl::Hex(byte, absl::kZeroPad2)); }

std::string ByteText(unsigned byte) {
  return absl::ascii_isalnum(static_cast<unsigned char>(byte)) || byte == ' '
             ? std::string(1, static_cast<char>(byte))
             : HexByte(byte);
}

bool Accepts(const CharSet& set, unsigned byte) {
  return byte < kAsciiSize ? set.ascii[byte] : set.any_byte;
}

std::string ClassText(const CharSet& set) {
  if (!set.any_byte && set.ascii.count() == 1) {
    for (unsigned byte = 0; byte < kAsciiSize; ++byte) {
      if (set.ascii[byte]) return ByteText(byte);
    }
  }
  std::string text = "[";
  for (unsigned byte = 0; byte < 256;) {
    if (!Accepts(set, byte)) {
      ++byte;
      continue;
    }
    const unsigned first = byte;
    while (byte < 256 && Accepts(set, byte)) ++byte;
    absl::StrAppend(&text, HexByte(first));
    if (byte - 1 > first) absl::StrAppend(&text, "-", HexByte(byte - 1));
  }
  return text + "]";
}

std::string SetText(const CharSet& set) {
  if (set.others.empty()) return ClassText(set);
  std::vector<std::string> forms;
  if (set.ascii.any() || set.any_byte) {
    CharSet bytes = set;
    bytes.others.clear();
    forms.push_back(ClassText(bytes));
  }
  for (const uint32_t other : set.others) {
    std::string utf8;
    AppendUtf8(other, &utf8);
    std::string text;
    for (const char c : utf8) text += HexByte(static_cast<unsigned char>(c));
    forms.push_back(std::move(text));
  }
  std::string text = "(?:";
  for (size_t i = 0; i < forms.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : "|", forms[i]);
  return text + ")";
}

std::string PatternText(const Node& node, bool lines);

std::string RepeatText(const Node& node, bool lines) {
  const std::string child = absl::StrCat("(?:", PatternText(node.children.front(), lines), ")");
  if (node.most == kNoLimit && node.least <= 1) {
    return absl::StrCat(child, node.least == 0 ? "*" : "+");
  }
  if (node.least == 0 && node.most == 1) return child + "?";
  if (node.most == kNoLimit) return absl::StrCat(child, "{", node.least, ",}");
  return absl::StrCat(child, "{", node.least, ",", node.most, "}");
}

// With `lines` the scanner sees many of them at once, and its anchors stand for a line's ends.
std::string PatternText(const Node& node, bool lines) {
  switch (node.kind) {
    case Kind::kSet:
      return SetText(node.set);
    case Kind::kConcat: {
      std::string text;
      for (const Node& child : node.children) {
        const std::string part = PatternText(child, lines);
        absl::StrAppend(&text, child.kind == Kind::kAlternate ? "(?:" : "", part,
                        child.kind == Kind::kAlternate ? ")" : "");
      }
      return text;
    }
    case Kind::kAlternate: {
      std::string text;
      for (size_t i = 0; i < node.children.size(); ++i) {
        absl::StrAppend(&text, i == 0 ? "" : "|", PatternText(node.children[i], lines));
      }
      return text;
    }
    case Kind::kRepeat:
      return RepeatText(node, lines);
    case Kind::kTextStart:
      return lines ? "^" : "\\A";
    case Kind::kTextEnd:
      return lines ? "$" : "\\z";
    case Kind::kLineStart:
      return "(?m:^)";
    case Kind::kLineEnd:
      return "(?m:$)";
    case Kind::kWordBoundary:
      return "\\b";
    case Kind::kNoWordBoundary:
      return "\\B";
    case Kind::kEmpty:
    case Kind::kNever:
      return "";
  }
  return "";
}

// --- Chains --------------------------------------------------------------------------------------

// The one byte that a set accepts, with the case of letters as `ignore_case` tells.
std::optional<char> OneByte(const CharSet& set, bool ignore_case) {
  if (!set.only_ascii()) return std::nullopt;
  for (int c = 0; c < kAsciiSize; ++c) {
    const auto i = static_cast<size_t>(c);
    if (!set.ascii[i]) continue;
    const auto upper = static_cast<unsigned char>(c);
    if (!ignore_case || !absl::ascii_isalpha(upper)) {
      return set.ascii.count() == 1 ? std::optional<char>(static_cast<char>(c)) : std::nullopt;
    }
    const auto lower = static_cast<size_t>(absl::ascii_tolower(upper));
    const bool both = lower != i && set.ascii[lower] && set.ascii.count() == 2;
    return both ? std::optional<char>(absl::ascii_tolower(upper)) : std::nullopt;
  }
  return std::nullopt;
}

// Reads a sequence without alternatives.
std::optional<Chain> OneChain(const std::vector<const Node*>& parts, bool ignore_case) {
  Chain chain;
  chain.ignore_case = ignore_case;
  uint32_t gap = 0;
  bool open = false;  // the gap may be longer than `gap`
  bool in_piece = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Node& part = *parts[i];
    if (part.kind == Kind::kTextStart && i == 0) {
      chain.from_start = true;
      continue;
    }
    if (part.kind == Kind::kTextEnd && i + 1 == parts.size()) {
      // Behind an open gap, the end is wherever it is.
      chain.to_end = !open;
      if (chain.to_end && gap > 0) return std::nullopt;
      continue;
    }
    const Node* set = part.kind == Kind::kRepeat ? &part.children.front() : &part;
    if (set->kind != Kind::kSet) return std::nullopt;
    if (part.kind == Kind::kSet) {
      if (const auto byte = OneByte(part.set, ignore_case); byte.has_value()) {
        if (!in_piece) {
          // Behind a piece a gap has to be open; at the beginning it is, unless it is anchored.
          if (!chain.pieces.empty()) {
            if (!open) return std::nullopt;
          } else if (chain.from_start && open) {
            chain.from_start = false;
          } else if (chain.from_start && gap > 0) {
            return std::nullopt;
          }
          chain.pieces.push_back({.bytes = "", .gap = gap});
        }
        chain.pieces.back().bytes += *byte;
        in_piece = true;
        gap = 0;
        open = false;
        continue;
      }
    }
    CharSet dot = set->set;  // narrowed: any_byte is what lies beyond ASCII
    dot.ascii['\n'] = true;
    if (!dot.any_byte || !dot.ascii.all()) return std::nullopt;
    if (part.kind == Kind::kSet) {
      gap += 1;
    } else if (part.most == kNoLimit) {
      gap += static_cast<uint32_t>(part.least);
      open = true;
    } else if (part.most == part.least) {
      gap += static_cast<uint32_t>(part.least);
    } else {
      return std::nullopt;
    }
    in_piece = false;
  }
  if (chain.pieces.empty()) return std::nullopt;
  if (!chain.to_end) chain.last_gap = gap;
  return chain;
}

using Sequence = std::vector<const Node*>;

// The sequences without alternatives that `node` stands for; none if they are too many.
std::vector<Sequence> Sequences(const Node& node) {
  std::vector<Sequence> all;
  if (node.kind == Kind::kAlternate) {
    for (const Node& child : node.children) {
      const std::vector<Sequence> more = Sequences(child);
      if (more.empty() || all.size() + more.size() > kMostChains) return {};
      all.insert(all.end(), more.begin(), more.end());
    }
  } else if (node.kind == Kind::kConcat) {
    all.emplace_back();
    for (const Node& child : node.children) {
      const std::vector<Sequence> next = Sequences(child);
      if (next.empty() || all.size() * next.size() > kMostChains) return {};
      std::vector<Sequence> longer;
      for (const Sequence& before : all) {
        for (const Sequence& behind : next) {
          longer.push_back(before);
          longer.back().insert(longer.back().end(), behind.begin(), behind.end());
        }
      }
      all = std::move(longer);
    }
  } else if (node.kind == Kind::kEmpty) {
    all.emplace_back();
  } else {
    all.push_back({&node});
  }
  return all;
}

// Vectorscan takes such a text for an empty one, and refuses it.
bool BeginsWithNul(const Chain& chain) {
  return std::any_of(chain.pieces.begin(), chain.pieces.end(),
                     [](const Piece& piece) { return piece.bytes.starts_with('\0'); });
}

// The chains that `node` is; none when it is anything else.
std::vector<Chain> Chains(const Node& node) {
  std::vector<Chain> chains;
  for (const Sequence& sequence : Sequences(node)) {
    std::optional<Chain> chain = OneChain(sequence, false);
    if (!chain.has_value()) chain = OneChain(sequence, true);
    if (!chain.has_value() || BeginsWithNul(*chain)) return {};
    chains.push_back(*std::move(chain));
  }
  return chains;
}

}  // namespace

RuleForm MakeForm(const Node& rule, Alphabet alphabet, bool lines, bool* never) {
  Narrower narrower(alphabet);
  const Node node = Simplify(narrower.Narrow(rule), lines);
  RuleForm form;
  form.exact = narrower.exact();
  *never = node.kind == Kind::kNever;
  form.pattern = PatternText(node, lines);
  if (lines) form.chains = Chains(node);
  return form;
}

}  // namespace pulse::filter
