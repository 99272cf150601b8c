#include "services/ops/filter/syntax.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace pulse::filter {
namespace {

// Groups within groups; RE2 has a limit of its own, which is larger.
constexpr int kDeepest = 200;
constexpr uint32_t kKelvin = 0x212a;  // folds to k
constexpr uint32_t kLongS = 0x17f;    // folds to s

struct Flags {
  bool fold = false;        // i
  bool multi_line = false;  // m
  bool dot_all = false;     // s
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  Parser(absl::string_view text, bool fold) : text_(text) { flags_.fold = fold; }

  absl::StatusOr<Node> Run() {
    Node node = Alternation(0);
    if (error_.ok() && at_ < text_.size()) Unknown("a closing bracket");
    if (!error_.ok()) return error_;
    return node;
  }

 private:
  using Kind = Node::Kind;

  bool More() const { return error_.ok() && at_ < text_.size(); }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Take(absl::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void Unknown(absl::string_view what) {
    if (error_.ok()) {
      error_ = absl::UnimplementedError(absl::StrCat(what, " at character ", at_ + 1));
    }
  }

  Node Alternation(int depth) {
    if (depth > kDeepest) {
      Unknown("groups that are nested too deep");
      return {};
    }
    Node all = Node::Make(Kind::kAlternate);
    all.children.push_back(Concatenation(depth));
    while (More() && Take("|")) all.children.push_back(Concatenation(depth));
    if (all.children.size() == 1) return std::move(all.children.front());
    return all;
  }

  Node Concatenation(int depth) {
    Node all = Node::Make(Kind::kConcat);
    while (More() && Peek() != '|' && Peek() != ')') {
      const size_t before = all.children.size();
      Element(depth, &all.children);
      if (!error_.ok()) break;
      if (all.children.size() > before) Repetition(&all.children.back());
    }
    return all;
  }

  // `*`, `+`, `?` or `{n,m}` after an element, if there is one.
  void Repetition(Node* element) {
    if (!More()) return;
    int least = 0;
    int most = kNoLimit;
    if (Take("*")) {
    } else if (Take("+")) {
      least = 1;
    } else if (Take("?")) {
      most = 1;
    } else if (Peek() != '{' || !Braces(&least, &most)) {
      return;
    }
    Take("?");  // greed changes where a match ends, not whether there is one
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') {
      Unknown("a repetition of a repetition");
      return;
    }
    Node repeat = Node::Make(Kind::kRepeat);
    repeat.least = least;
    repeat.most = most;
    repeat.children.push_back(std::move(*element));
    *element = std::move(repeat);
  }

  bool Number(size_t* at, int* value) const {
    const size_t first = *at;
    int64_t number = 0;
    while (*at < text_.size() && absl::ascii_isdigit(static_cast<unsigned char>(text_[*at]))) {
      number = std::min<int64_t>(number * 10 + (text_[*at] - '0'), 100000);
      ++*at;
    }
    *value = static_cast<int>(number);
    // RE2 takes {01} for text.
    return *at > first && (text_[first] != '0' || *at == first + 1);
  }

  // Text that only looks like a repetition is left where it is.
  bool Braces(int* least, int* most) {
    size_t at = at_ + 1;
    if (!Number(&at, least)) return false;
    *most = *least;
    if (at < text_.size() && text_[at] == ',') {
      ++at;
      if (at < text_.size() && text_[at] == '}') {
        *most = kNoLimit;
      } else if (!Number(&at, most)) {
        return false;
      }
    }
    if (at >= text_.size() || text_[at] != '}') return false;
    at_ = at + 1;
    return true;
  }

  void Element(int depth, std::vector<Node>* to) {
    switch (Peek()) {
      case '(':
        Group(depth, to);
        return;
      case '^':
        ++at_;
        to->push_back(Node::Make(flags_.multi_line ? Kind::kLineStart : Kind::kTextStart));
        return;
      case '$':
        ++at_;
        to->push_back(Node::Make(flags_.multi_line ? Kind::kLineEnd : Kind::kTextEnd));
        return;
      case '.':
        ++at_;
        AddSet(AskRe2(".", flags_.dot_all ? "s" : ""), to);
        return;
      case '[':
        Class(to);
        return;
      case '\\':
        Escape(to);
        return;
      case '*':
      case '+':
      case '?':
        Unknown("a repetition of nothing");
        return;
      default: {
        int least = 0;
        int most = 0;
        if (Peek() == '{' && Braces(&least, &most)) {
          Unknown("a repetition of what stands before flags");
          return;
        }
        Literal(CodePoint(), to);
      }
    }
  }

  void Group(int depth, std::vector<Node>* to) {
    ++at_;
    const Flags outer = flags_;
    if (Take("?P<") || Take("?<")) {
      while (More() && Peek() != '>') ++at_;
      Take(">");
    } else if (Take("?")) {
      bool on = true;
      while (More() && Peek() != ':' && Peek() != ')') {
        switch (text_[at_++]) {
          case '-':
            on = false;
            break;
          case 'i':
            flags_.fold = on;
            break;
          case 'm':
            flags_.multi_line = on;
            break;
          case 's':
            flags_.dot_all = on;
            break;
          case 'U':
            break;
          default:
            --at_;
            Unknown("a flag of a group");
            return;
        }
      }
      if (Take(")")) {
        return;  // they hold to the end of the group around
      }
      Take(":");
    }
    Node inner = Alternation(depth + 1);
    if (!Take(")")) Unknown("a group without end");
    flags_ = outer;
    to->push_back(std::move(inner));
  }

  void Class(std::vector<Node>* to) {
    const size_t start = at_++;
    if (Peek() == '^') ++at_;
    for (bool first = true; at_ < text_.size() && (first || Peek() != ']'); first = false) {
      if (Peek() == '[' && Peek(1) == ':') {
        const size_t end = text_.find(":]", at_ + 2);
        if (end != absl::string_view::npos) {
          at_ = end + 2;
          continue;
        }
      }
      at_ += Peek() == '\\' ? 2 : 1;
    }
    if (at_ >= text_.size()) {
      Unknown("a class without end");
      return;
    }
    ++at_;
    AddSet(AskRe2(text_.substr(start, at_ - start), flags_.fold ? "i" : ""), to);
  }

  void Escape(std::vector<Node>* to) {
    const char c = Peek(1);
    const size_t start = at_;
    switch (c) {
      case 'A':
      case 'z':
      case 'b':
      case 'B':
        at_ += 2;
        to->push_back(Node::Make(c == 'A'   ? Kind::kTextStart
                                 : c == 'z' ? Kind::kTextEnd
                                 : c == 'b' ? Kind::kWordBoundary
                                            : Kind::kNoWordBoundary));
        return;
      case 'C':
        at_ += 2;
        AddSet(CharSet::AnyByte(), to);
        return;
      case 'Q':
        at_ += 2;
        Quoted(to);
        return;
      case 'p':
      case 'P':
        at_ += 2;
        if (Peek() == '{') {
          while (at_ < text_.size() && Peek() != '}') ++at_;
          ++at_;
        } else {
          CodePoint();
        }
        AddSet(AskRe2(text_.substr(start, at_ - start), flags_.fold ? "i" : ""), to);
        return;
      case 'd':
      case 'D':
      case 's':
      case 'S':
      case 'w':
      case 'W':
        at_ += 2;
        AddSet(AskRe2(text_.substr(start, 2), flags_.fold ? "i" : ""), to);
        return;
      default:
        EscapedLiteral(to);
    }
  }

  void EscapedLiteral(std::vector<Node>* to) {
    ++at_;
    const char c = Peek();
    uint32_t value = 0;
    if (c >= '0' && c <= '7') {
      for (int digits = 0; digits < 3 && Peek() >= '0' && Peek() <= '7'; ++digits) {
        value = value * 8 + static_cast<uint32_t>(text_[at_++] - '0');
      }
    } else if (c == 'x') {
      ++at_;
      const bool braces = Take("{");
      for (int digits = 0; HexDigit(Peek()) >= 0 && (braces || digits < 2); ++digits) {
        value = std::min<uint32_t>(value, 0xffffff) * 16 + static_cast<uint32_t>(HexDigit(Peek()));
        ++at_;
      }
      if (braces && !Take("}")) Unknown("a number of a character");
    } else {
      static constexpr absl::string_view kNames = "afnrtv";
      static constexpr char kValues[] = {'\a', '\f', '\n', '\r', '\t', '\v'};
      const size_t name = kNames.find(c);
      if (name != absl::string_view::npos) {
        ++at_;
        value = static_cast<unsigned char>(kValues[name]);
      } else if (c > 0 && !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') {
        ++at_;  // itself, as RE2 has it
        value = static_cast<unsigned char>(c);
      } else {
        Unknown("an escape");
        return;
      }
    }
    if (value >= 0x110000) {
      Unknown("a number of a character");
      return;
    }
    Literal(value, to);
  }

  // \Q...\E. A repetition behind it repeats its last character.
  void Quoted(std::vector<Node>* to) {
    while (at_ < text_.size()) {
      if (Take("\\E")) break;
      Literal(CodePoint(), to);
    }
  }

  void Literal(uint32_t c, std::vector<Node>* to) {
    if (!error_.ok()) return;
    CharSet set = CharSet::Of(c);
    if (flags_.fold && c < kAsciiSize) {
      const auto byte = static_cast<unsigned char>(c);
      set.ascii[static_cast<size_t>(absl::ascii_tolower(byte))] = true;
      set.ascii[static_cast<size_t>(absl::ascii_toupper(byte))] = true;
      if (absl::ascii_tolower(byte) == 'k') set.others.push_back(kKelvin);
      if (absl::ascii_tolower(byte) == 's') set.others.push_back(kLongS);
    } else if (flags_.fold) {
      set = AskRe2(absl::StrCat("\\x{", absl::Hex(c), "}"), "i");
    }
    AddSet(std::move(set), to);
  }

  void AddSet(CharSet set, std::vector<Node>* to) {
    Node node = Node::Make(set.empty() ? Kind::kNever : Kind::kSet);
    node.set = std::move(set);
    to->push_back(std::move(node));
  }

  // The next character of the rule. RE2 has seen to it that the rule is UTF-8.
  uint32_t CodePoint() {
    const auto byte = [this](size_t i) -> uint32_t { return static_cast<unsigned char>(Peek(i)); };
    const uint32_t first = byte(0);
    const size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (at_ + size > text_.size()) {
      Unknown("a character that is cut off");
      return 0;
    }
    uint32_t value = size == 1 ? first : first & (0x7fU >> size);
    for (size_t i = 1; i < size; ++i) value = value << 6 | (byte(i) & 0x3f);
    at_ += size;
    return value;
  }

  absl::string_view text_;
  size_t at_ = 0;
  Flags flags_;
  absl::Status error_;
};

}  // namespace

absl::StatusOr<Node> ParseRule(absl::string_view rule, bool ignore_case) {
  return Parser(rule, ignore_case).Run();
}

}  // namespace pulse::filter
