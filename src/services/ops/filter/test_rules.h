// What the tests of filters share: rule sets from a few words, and RE2's own answers, record by
// record. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/ops/filter/matcher.h"
#include "services/ops/filter/rule_set.h"

namespace pulse::filter {

inline std::vector<Rule> Named(const std::vector<std::string>& texts) {
  std::vector<Rule> rules;
  for (const std::string& text : texts) {
    rules.push_back({text, absl::StrCat("rule ", rules.size() + 1)});
  }
  return rules;
}

inline std::unique_ptr<RuleSet> MakeSet(const std::vector<std::string>& texts,
                                        RuleSetOptions options = {}) {
  auto set = RuleSet::Compile(Named(texts), std::move(options));
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *std::move(set) : nullptr;
}

// The lines of a block, each without its newline.
inline std::vector<std::string> LinesOf(const std::string& block) {
  std::vector<std::string> lines = absl::StrSplit(block, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// The lines of `block` that RE2 accepts by one of the rules, asked for each line and each rule.
inline std::vector<std::string> Re2Lines(const std::vector<std::string>& rules,
                                         const std::string& block, bool ignore_case = false) {
  RE2::Options options;
  options.set_case_sensitive(!ignore_case);
  options.set_log_errors(false);
  std::vector<std::unique_ptr<RE2>> compiled;
  for (const std::string& rule : rules) compiled.push_back(std::make_unique<RE2>(rule, options));
  std::vector<std::string> found;
  for (const std::string& line : LinesOf(block)) {
    for (const auto& rule : compiled) {
      if (!RE2::PartialMatch(line, *rule)) continue;
      found.push_back(line);
      break;
    }
  }
  return found;
}

inline std::vector<std::string> FoundIn(Matcher* matcher, const std::string& block) {
  std::vector<Hit> hits;
  const absl::Status status = matcher->Match(block, &hits);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> found;
  for (const Hit& hit : hits) {
    EXPECT_LE(hit.begin, hit.end);
    EXPECT_LE(hit.end, block.size());
    found.push_back(block.substr(hit.begin, hit.end - hit.begin));
  }
  return found;
}

inline std::vector<std::string> FoundIn(const RuleSet& set, const std::string& block) {
  auto matcher = Matcher::Make(&set);
  EXPECT_TRUE(matcher.ok()) << matcher.status();
  return FoundIn(matcher->get(), block);
}

}  // namespace pulse::filter
