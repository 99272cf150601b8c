#include "services/graph/syntax/lexer.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {

namespace {

class Lexer {
 public:
  Lexer(std::string_view query, const StopHook* stop) : query_(query), stop_(stop) {}

  absl::StatusOr<std::vector<Lexeme>> Run() {
    if (query_.size() > std::numeric_limits<uint32_t>::max() / 2) {
      return Error("UnexpectedSyntax", 0, "the query is too long");
    }
    while (true) {
      if (absl::Status status = SkipSpace(); !status.ok()) return status;
      Lexeme lexeme;
      lexeme.begin = static_cast<uint32_t>(at_);
      if (at_ == query_.size()) {
        lexeme.end = lexeme.begin;
        out_.push_back(std::move(lexeme));
        return std::move(out_);
      }
      if (stop_.Asks()) return StopCheck::Ended();
      if (absl::Status status = One(&lexeme); !status.ok()) return status;
      lexeme.end = static_cast<uint32_t>(at_);
      Match(lexeme);
      out_.push_back(std::move(lexeme));
    }
  }

 private:
  char Byte(size_t ahead = 0) const {
    return at_ + ahead < query_.size() ? query_[at_ + ahead] : '\0';
  }

  absl::Status Error(std::string_view detail, size_t at, std::string_view message) const {
    return CompileError("SyntaxError", detail,
                        AtPosition(query_, Pos{static_cast<uint32_t>(at)}, message));
  }

  absl::Status SkipSpace() {
    while (at_ < query_.size()) {
      if (Byte() == '/' && Byte(1) == '/') {
        const size_t end = query_.find('\n', at_);
        at_ = end == std::string_view::npos ? query_.size() : end + 1;
        continue;
      }
      if (Byte() == '/' && Byte(1) == '*') {
        const size_t end = query_.find("*/", at_ + 2);
        if (end == std::string_view::npos) {
          return Error("UnexpectedSyntax", at_, "this comment has no end");
        }
        at_ = end + 2;
        continue;
      }
      size_t next = at_;
      if (!IsSpaceCharacter(NextCodePoint(query_, &next))) return absl::OkStatus();
      at_ = next;
    }
    return absl::OkStatus();
  }

  // Pairs brackets as they come; where they do not nest the parser finds the error.
  void Match(Lexeme& lexeme) {
    if (lexeme.kind != Lexeme::Kind::kSymbol || lexeme.text.size() != 1) return;
    const char c = lexeme.text[0];
    const auto index = static_cast<uint32_t>(out_.size());
    if (c == '|' && !open_.empty()) lexeme.inside = open_.back();
    if (c == '(' || c == '[' || c == '{') open_.push_back(index);
    if ((c == ')' || c == ']' || c == '}') && !open_.empty()) {
      lexeme.match = open_.back();
      out_[open_.back()].match = index;
      open_.pop_back();
    }
  }

  absl::Status One(Lexeme* lexeme) {
    const char c = Byte();
    if (absl::ascii_isdigit(c) || (c == '.' && absl::ascii_isdigit(Byte(1)))) {
      return Number(lexeme);
    }
    if (c == '\'' || c == '"') return String(lexeme);
    if (c == '`') return Quoted(Lexeme::Kind::kQuotedName, lexeme);
    size_t next = at_;
    const int32_t code = NextCodePoint(query_, &next);
    if (IsNameStart(code)) {
      Name(lexeme);
      return absl::OkStatus();
    }
    if (code >= 0x80 || code < 0) {
      return Error("InvalidUnicodeCharacter", at_, "no token begins with this character");
    }
    if (c == '$' && query_.substr(at_, 2) != "$(") return Parameter(lexeme);
    lexeme->kind = Lexeme::Kind::kSymbol;
    for (const std::string_view two : {"..", "+=", "=~", "<>", "<=", ">=", "||"}) {
      if (query_.substr(at_, 2) == two) {
        lexeme->text = two;
        at_ += 2;
        return absl::OkStatus();
      }
    }
    if (std::string_view("()[]{},.:;|+-*/%^=<>!&$").find(c) == std::string_view::npos ||
        c == '\0') {
      return Error("UnexpectedSyntax", at_, "no token begins with this character");
    }
    lexeme->text = std::string(1, c);
    ++at_;
    return absl::OkStatus();
  }

  void Name(Lexeme* lexeme) {
    lexeme->kind = Lexeme::Kind::kName;
    const size_t begin = at_;
    size_t next = at_;
    while (at_ < query_.size() && IsNamePart(NextCodePoint(query_, &next))) at_ = next;
    lexeme->text = query_.substr(begin, at_ - begin);
    lexeme->word = absl::AsciiStrToUpper(lexeme->text);
  }

  absl::Status Quoted(Lexeme::Kind kind, Lexeme* lexeme) {
    const size_t begin = at_++;
    lexeme->kind = kind;
    while (true) {
      const size_t end = query_.find('`', at_);
      if (end == std::string_view::npos) {
        return Error("UnexpectedSyntax", begin, "this quoted name has no end");
      }
      lexeme->text += query_.substr(at_, end - at_);
      at_ = end + 1;
      if (Byte() != '`') break;
      lexeme->text += '`';
      ++at_;
    }
    return absl::OkStatus();
  }

  absl::Status Parameter(Lexeme* lexeme) {
    const size_t begin = at_++;
    if (Byte() == '`') return Quoted(Lexeme::Kind::kParameter, lexeme);
    const size_t name = at_;
    size_t next = at_;
    while (at_ < query_.size() && IsNamePart(NextCodePoint(query_, &next))) at_ = next;
    if (at_ == name) return Error("UnexpectedSyntax", begin, "a parameter needs a name");
    lexeme->kind = Lexeme::Kind::kParameter;
    lexeme->text = query_.substr(name, at_ - name);
    return absl::OkStatus();
  }

  absl::Status Integer(int base, size_t begin, std::string_view digits, Lexeme* lexeme) {
    lexeme->kind = Lexeme::Kind::kInteger;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), lexeme->integer, base);
    if (digits.empty() || end != digits.data() + digits.size()) {
      return Error("InvalidNumberLiteral", begin, "this is no number");
    }
    if (error != std::errc() || lexeme->integer > uint64_t{1} << 63) {
      return Error("IntegerOverflow", begin, "this integer has more than 64 bits");
    }
    return absl::OkStatus();
  }

  absl::Status Number(Lexeme* lexeme) {
    const size_t begin = at_;
    if (Byte() == '0' && (Byte(1) == 'x' || Byte(1) == 'o' || Byte(1) == 'X')) {
      const int base = Byte(1) == 'o' ? 8 : 16;
      at_ += 2;
      const size_t first = at_;
      while (absl::ascii_isalnum(Byte()) || Byte() == '_') ++at_;
      const std::string_view digits = query_.substr(first, at_ - first);
      return Integer(base, begin, digits, lexeme);
    }
    bool is_float = false;
    // 1_000_000
    const auto digit = [this] {
      return absl::ascii_isdigit(Byte()) || (Byte() == '_' && absl::ascii_isdigit(Byte(1)));
    };
    while (digit()) ++at_;
    if (Byte() == '.' && absl::ascii_isdigit(Byte(1))) {
      is_float = true;
      ++at_;
      while (digit()) ++at_;
    }
    const size_t sign = Byte(1) == '-' || Byte(1) == '+' ? 1 : 0;
    if ((Byte() == 'e' || Byte() == 'E') && absl::ascii_isdigit(Byte(1 + sign))) {
      is_float = true;
      at_ += 1 + sign;
      while (absl::ascii_isdigit(Byte())) ++at_;
    }
    std::string text(query_.substr(begin, at_ - begin));
    std::erase(text, '_');
    size_t next = at_;
    if (at_ < query_.size() && IsNamePart(NextCodePoint(query_, &next))) {
      const bool key = !out_.empty() && out_.back().text == "{";
      if (key) return Error("UnexpectedSyntax", begin, "a key does not begin with a digit");
      return Error("InvalidNumberLiteral", begin, "this is no number");
    }
    if (!is_float) return Integer(10, begin, text, lexeme);
    lexeme->kind = Lexeme::Kind::kFloat;
    const auto error = std::from_chars(text.data(), text.data() + text.size(), lexeme->number).ec;
    if (error == std::errc::result_out_of_range) {
      // Too large, or too small to tell from 0.
      const size_t e = text.find_first_of("eE");
      const bool tiny = e != std::string_view::npos && text[e + 1] == '-';
      if (!tiny) return Error("FloatingPointOverflow", begin, "this number is too large");
      lexeme->number = 0;
    }
    return absl::OkStatus();
  }

  absl::Status Escape(char kind, std::string* out) {
    const size_t begin = at_ - 2;
    const size_t digits = kind == 'u' ? 4 : 8;
    uint32_t code = 0;
    const std::string_view text = query_.substr(at_, digits);
    const auto end = std::from_chars(text.data(), text.data() + text.size(), code, 16).ptr;
    if (text.size() != digits || end != text.data() + digits || code > 0x10FFFF) {
      return Error("InvalidUnicodeLiteral", begin, "this escape is no character");
    }
    at_ += digits;
    if (code >= 0xD800 && code < 0xDC00 && Byte() == '\\' && Byte(1) == 'u') {
      uint32_t low = 0;
      const std::string_view second = query_.substr(at_ + 2, 4);
      std::from_chars(second.data(), second.data() + second.size(), low, 16);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        at_ += 6;
      }
    }
    if (code >= 0xD800 && code < 0xE000) {
      return Error("InvalidUnicodeLiteral", begin, "half of a surrogate pair is no character");
    }
    AppendCodePoint(code, out);
    return absl::OkStatus();
  }

  absl::Status String(Lexeme* lexeme) {
    const size_t begin = at_;
    const char quote = query_[at_++];
    lexeme->kind = Lexeme::Kind::kString;
    while (true) {
      if (at_ >= query_.size()) return Error("UnexpectedSyntax", begin, "this string has no end");
      const char c = query_[at_];
      if (c == quote) {
        ++at_;
        return absl::OkStatus();
      }
      if (c != '\\') {
        const size_t from = at_;
        if (NextCodePoint(query_, &at_) < 0) {
          return Error("InvalidUnicodeCharacter", from, "this string is not UTF-8");
        }
        lexeme->text += query_.substr(from, at_ - from);
        continue;
      }
      const char kind = Byte(1);
      at_ += 2;
      static constexpr std::string_view kFrom = "\\'\"`bfnrt", kTo = "\\'\"`\b\f\n\r\t";
      if (kind == 'u' || kind == 'U') {
        if (absl::Status status = Escape(kind, &lexeme->text); !status.ok()) return status;
      } else if (const size_t i = kFrom.find(kind); kind != '\0' && i != std::string_view::npos) {
        lexeme->text += kTo[i];
      } else {
        lexeme->text += '\\';  // of no escape: part of the text, as patterns of =~ have it
        --at_;
      }
    }
  }

  const std::string_view query_;
  StopCheck stop_;
  size_t at_ = 0;
  std::vector<Lexeme> out_;
  std::vector<uint32_t> open_;
};

}  // namespace

absl::StatusOr<std::vector<Lexeme>> Lex(std::string_view query, const StopHook* stop) {
  return Lexer(query, stop).Run();
}

}  // namespace pulse::cypher
