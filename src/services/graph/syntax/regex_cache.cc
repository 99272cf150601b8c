#include "services/graph/syntax/regex_cache.h"

#include <re2/re2.h>

#include <algorithm>
#include <utility>

namespace pulse::cypher {
namespace {

re2::StringPiece Piece(std::string_view text) { return re2::StringPiece(text.data(), text.size()); }

// What RE2's dot matches one by one: all but a line's end. Beyond ASCII it looks at characters, and
// at bytes that are none.
bool IsPlain(std::string_view text) {
  bool plain = true;
  for (const char c : text) plain &= c >= 0 && c != '\n';
  return plain;
}

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// As Java writes it, in what RE2 calls the same: (?iu) as (?i), which takes all letters here, and
// (?<name>…). Classes that cut others (&&) are another set to RE2: empty text.
std::string Translated(std::string_view java) {
  std::string out;
  int in_class = 0;
  for (size_t i = 0; i < java.size(); ++i) {
    const char c = java[i];
    if (java.substr(i, 2) == "\\Q") {
      const size_t end = std::min(java.find("\\E", i + 2), java.size());
      out += java.substr(i, end - i);
      i = end - 1;
      continue;
    }
    if (c == '\\' && i + 1 < java.size()) {
      out += java.substr(i++, 2);
      continue;
    }
    if (in_class > 0 && java.substr(i, 2) == "&&") return {};
    // A bracket within a class is one, but for [:alpha:].
    const bool opens = c == '[' && (in_class == 0 || java.substr(i, 2) == "[:");
    in_class = opens ? in_class + 1 : c == ']' && in_class > 0 ? in_class - 1 : in_class;
    out += c;
    if (in_class > 0 || c != '(' || java.substr(i, 2) != "(?") continue;
    const std::string_view rest = java.substr(i + 2);
    if (rest.starts_with('<') && !rest.starts_with("<=") && !rest.starts_with("<!")) {
      out += "?P";
      ++i;
      continue;
    }
    const size_t end = rest.find_first_not_of("imsud-");
    if (end == 0 || end == std::string_view::npos || (rest[end] != ')' && rest[end] != ':'))
      continue;
    std::string flags(rest.substr(0, end));
    std::erase_if(flags, [](char flag) { return flag == 'u' || flag == 'd'; });
    if (flags.ends_with('-')) flags.pop_back();
    out += flags.empty() && rest[end] == ')' ? "?:" : "?" + flags;
    i += 1 + end;
  }
  return out;
}

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
  options.set_max_mem(1 << 20);
  const std::string translated = Translated(text_);
  regex_ = std::make_unique<RE2>(Piece(translated), options);
  if (!regex_->ok()) error_ = regex_->error();
  if (translated.empty() && !text_.empty()) error_ = "classes with && are not supported";
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
