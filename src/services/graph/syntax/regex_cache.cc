#include "services/graph/syntax/regex_cache.h"

#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

re2::StringPiece Piece(std::string_view text) { return re2::StringPiece(text.data(), text.size()); }

// What a dot matches one by one: all but a line's end. Beyond ASCII there are other ends, and RE2
// looks at characters, and at bytes that are none.
bool IsPlain(std::string_view text) {
  bool plain = true;
  for (const char c : text) plain &= c >= 0 && c != '\n' && c != '\r';
  return plain;
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// In RE2's words a dot, and \v, \s, \S and \h as they stand within a class.
constexpr std::string_view kDot = "[^\\n\\r\\x{85}\\x{2028}\\x{2029}]";
constexpr std::string_view kLineEnds = "\\n-\\r\\x{85}\\x{2028}\\x{2029}";
constexpr std::string_view kSpace = "\\x0B\\s", kNoSpace = "\\x00-\\x08\\x0E-\\x1F!-\\x{10FFFF}";
constexpr std::string_view kHorizontal =
    "\\t \\x{A0}\\x{1680}\\x{180E}\\x{2000}-\\x{200A}\\x{202F}\\x{205F}\\x{3000}";
// No character. Around others in a class it keeps them from being the end of a range: a hyphen
// behind them is one, and one before them a mistake, as to Java.
constexpr std::string_view kNoCharacter = "\\P{Any}";
// Java's classes of ASCII, which RE2 has by the same names in lower case.
constexpr std::string_view kAsciiClasses[] = {"Lower", "Upper",  "ASCII", "Alpha", "Digit",
                                              "Alnum", "Punct",  "Graph", "Print", "Blank",
                                              "Cntrl", "XDigit", "Space"};

// What a dot matches: (?s) everything, (?d) all but \n.
struct DotFlags {
  bool all = false, unix_lines = false;
};

// A pattern as Java writes it, in what RE2 calls the same: (?iu) as (?i), which takes all letters
// here, (?<name>…), escapes of its own, and what a dot and \s match. What is another pattern to RE2
// is refused.
class Translator {
 public:
  explicit Translator(std::string_view java) : java_(java) {}

  std::string Run() {
    while (at_ < java_.size() && error_.empty()) {
      const std::string_view rest = java_.substr(at_);
      if (rest.starts_with("\\Q")) {
        Copy(std::min(rest.find("\\E"), rest.size()));
      } else if (rest[0] == '\\' && rest.size() > 1) {
        Escape(rest[1]);
      } else if (in_class_) {
        InClass(rest);
      } else {
        Outside(rest);
      }
    }
    return std::move(out_);
  }
  const std::string& error() const { return error_; }

 private:
  void Copy(size_t size) {
    out_ += java_.substr(at_, size);
    at_ += size;
  }

  void Escape(char c) {
    switch (c) {
      case 's':
        return Class(kSpace, 2);
      case 'S':
        return Class(kNoSpace, 2);
      case 'v':
        return Class(kLineEnds, 2);
      case 'h':
        return Class(kHorizontal, 2);
      case 'R':
        if (in_class_) break;
        out_ += "(?:\\r\\n|[" + std::string(kLineEnds) + "])";
        at_ += 2;
        return;
      case 'p':
      case 'P':
        return Property(java_.substr(at_));
      case 'u':
        return Unicode();
      default:
        break;
    }
    if (c == 'C' || c == 'k' || (c >= '1' && c <= '9')) {
      error_ = "\\C and references to groups are not supported";
      return;
    }
    Copy(2);
  }

  // In place of so much of the text.
  void Class(std::string_view characters, size_t size) {
    out_ += in_class_ ? kNoCharacter : "[";
    out_ += characters;
    out_ += in_class_ ? kNoCharacter : "]";
    at_ += size;
  }

  // \p{…} and \P{…}: classes of ASCII, and categories and scripts in words that RE2 does not take.
  void Property(std::string_view rest) {
    const size_t end = rest.find('}');
    if (!rest.substr(2).starts_with('{') || end == std::string_view::npos) return Copy(2);
    std::string_view name = rest.substr(3, end - 3);
    std::string text = absl::AsciiStrToLower(Absl(name));
    if (std::find(std::begin(kAsciiClasses), std::end(kAsciiClasses), name) !=
        std::end(kAsciiClasses)) {
      return Class(std::string(rest[1] == 'P' ? "[:^" : "[:") + text + ":]", end + 1);
    }
    std::string_view lower = text;
    if (!TakePrefix("script=", &lower) && !TakePrefix("sc=", &lower) &&
        !TakePrefix("general_category=", &lower) && !TakePrefix("gc=", &lower) &&
        (!name.starts_with("Is") || !TakePrefix("is", &lower))) {
      return Copy(2);
    }
    // Lu, Old_Italic. Other names, as Alphabetic, RE2 does not know.
    text.erase(0, text.size() - lower.size());
    for (size_t i = 0; i < text.size(); ++i) {
      if (i == 0 || text[i - 1] == '_')
        text[i] = absl::ascii_toupper(static_cast<unsigned char>(text[i]));
    }
    out_ += std::string(rest.substr(0, 3)) + text + "}";
    at_ += end + 1;
  }

  // \uXXXX, or two that are one character.
  void Unicode() {
    uint32_t code = 0, low = 0;
    bool valid = TakeUnit(&code);
    if (valid && code >= 0xD800 && code < 0xE000) {
      valid = code < 0xDC00 && TakeUnit(&low) && low >= 0xDC00 && low < 0xE000;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (!valid) {
      error_ = "\\u is followed by four hexadecimal digits of a character";
      return;
    }
    char digits[8];
    char* const end = std::to_chars(digits, digits + sizeof(digits), code, 16).ptr;
    out_ += "\\x{" + std::string(digits, end) + "}";
  }
  bool TakeUnit(uint32_t* unit) {
    const std::string_view rest = java_.substr(at_);
    if (!rest.starts_with("\\u") || rest.size() < 6) return false;
    at_ += 6;
    return std::from_chars(rest.data() + 2, rest.data() + 6, *unit, 16).ptr == rest.data() + 6;
  }

  void InClass(std::string_view rest) {
    if (rest.starts_with("&&")) {
      error_ = "classes with && are not supported";
    } else if (rest[0] == '[') {
      error_ = "classes within classes are not supported: a bracket is written as \\[";
    } else {
      in_class_ = rest[0] != ']';
      Copy(1);
    }
  }

  void Outside(std::string_view rest) {
    switch (rest[0]) {
      case '[':
        in_class_ = true;
        // A bracket that closes is one of the characters where it is the first.
        return Copy(rest.starts_with("[^]") ? 3 : rest.starts_with("[]") ? 2 : 1);
      case '.':
        out_ += dots_.back().all || dots_.back().unix_lines ? "." : kDot;
        ++at_;
        return;
      case ')':
        if (dots_.size() > 1) dots_.pop_back();
        return Copy(1);
      case '(':
        dots_.push_back(dots_.back());
        Copy(1);
        return rest.starts_with("(?") ? Group(rest.substr(2)) : void();
      default:
        return Copy(1);
    }
  }

  // Behind the bracket; `rest` is behind the question mark, too.
  void Group(std::string_view rest) {
    if (rest.starts_with('<') && !rest.starts_with("<=") && !rest.starts_with("<!")) {
      out_ += "?P";
      ++at_;
      return;
    }
    const size_t end = rest.find_first_not_of("imsudU-");
    if (end == 0 || end == std::string_view::npos || (rest[end] != ')' && rest[end] != ':')) return;
    std::string flags;
    bool on = true;
    for (const char flag : rest.substr(0, end)) {
      if (flag == 'U') error_ = "the flag U is not supported";
      if (flag == '-') on = false;
      if (flag == 's') dots_.back().all = on;
      if (flag == 'd') dots_.back().unix_lines = on;
      if (flag != 'u' && flag != 'd') flags += flag;
    }
    // Alone they are of what follows, in the brackets around.
    if (rest[end] == ')') dots_[dots_.size() - 2] = dots_.back();
    if (flags.ends_with('-')) flags.pop_back();
    out_ += flags.empty() && rest[end] == ')' ? "?:" : "?" + flags;
    at_ += 1 + end;
  }

  const std::string_view java_;
  size_t at_ = 0;
  std::string out_, error_;
  bool in_class_ = false;
  std::vector<DotFlags> dots_ = std::vector<DotFlags>(1);  // within each bracket that is open
};

}  // namespace

RegexPattern::RegexPattern(const std::string& text) : text_(text) {
  std::string_view rest = text_;
  any_before_ = TakePrefix(".*", &rest);
  if (rest.ends_with(".*")) {
    any_behind_ = true;
    rest.remove_suffix(2);
  }
  literal_ = std::string(rest);
  simple_ = rest.find_first_of("\\^$.|?*+()[]{}") == std::string_view::npos && IsPlain(rest);
  RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(3 << 20);  // a dot is the threefold of RE2's own
  Translator translator(text_);
  const std::string translated = translator.Run();
  regex_ = std::make_unique<RE2>(Piece(translated), options);
  if (!regex_->ok()) error_ = regex_->error();
  if (!translator.error().empty()) error_ = translator.error();
}

RegexPattern::~RegexPattern() = default;

bool RegexPattern::Matches(std::string_view subject) const {
  if (!simple_ || !IsPlain(subject)) return RE2::FullMatch(Piece(subject), *regex_);
  if (any_before_ && any_behind_) return subject.find(literal_) != std::string_view::npos;
  if (any_before_) return subject.ends_with(literal_);
  if (any_behind_) return subject.starts_with(literal_);
  return subject == literal_;
}

const RegexPattern& RegexCache::Find(const std::string& text) {
  for (size_t i = patterns_.size(); i > 0; --i) {
    if (patterns_[i - 1]->text() != text) continue;
    std::rotate(patterns_.begin() + static_cast<ptrdiff_t>(i - 1),
                patterns_.begin() + static_cast<ptrdiff_t>(i), patterns_.end());
    return *patterns_.back();
  }
  if (patterns_.size() == kMost) patterns_.erase(patterns_.begin());
  return *patterns_.emplace_back(std::make_unique<RegexPattern>(text));
}

}  // namespace pulse::cypher
