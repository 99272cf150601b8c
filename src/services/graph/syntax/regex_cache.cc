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
  regex_ = std::make_unique<RE2>(Piece(text_), options);
  if (!regex_->ok()) error_ = regex_->error();
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
