// The patterns of =~ that an execution has met, compiled once: a query asks for the same few on
// every row. Patterns that are a literal with .* before or behind it are compared as strings. RE2
// matches all others in linear time, whatever the pattern.
//
// One thread. Nothing blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}  // namespace re2

namespace pulse::cypher {

class RegexPattern {
 public:
  explicit RegexPattern(const std::string& text);
  ~RegexPattern();
  const std::string& text() const { return text_; }
  // Empty: it is a pattern; else what is wrong with it.
  const std::string& error() const { return error_; }
  // Whether all of `subject` matches.
  bool Matches(std::string_view subject) const;

 private:
  const std::string text_;
  std::string error_;
  // A literal without any sign, and whether .* is around it.
  bool simple_ = false;
  bool any_before_ = false, any_behind_ = false;
  std::string literal_;
  std::unique_ptr<re2::RE2> regex_;
};

class RegexCache {
 public:
  // The pattern, which lives until the next call. Patterns that come from data may be many: the
  // least recently used go.
  const RegexPattern& Find(const std::string& text);
  size_t size() const { return patterns_.size(); }

 private:
  static constexpr size_t kMost = 16;
  std::vector<std::unique_ptr<RegexPattern>> patterns_;  // the most recently used one is the last
};

}  // namespace pulse::cypher
