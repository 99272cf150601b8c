// Random rules on random records, and rules made from logs on these: blocks of lines give what RE2
// gives line by line.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "base/testing.h"
#include "services/ops/filter/samples.h"
#include "services/ops/filter/test_logs.h"
#include "services/ops/filter/test_rules.h"

namespace pulse::filter {
namespace {

using Random = std::mt19937_64;

size_t Pick(size_t n, Random& random) { return static_cast<size_t>(random() % n); }

// A rule in RE2's syntax, by a grammar of what rules are made of; not always a valid one.
std::string RandomRule(int depth, Random& random) {
  static constexpr const char* kAtoms[] = {"a",           "b",
                                           "foo",         "Kos",
                                           " ",           ".",
                                           "[a-c]",       "[^a]",
                                           "\\d",         "\\w",
                                           "\\s",         "\\S",
                                           "\\W",         "\\D",
                                           "\\b",         "\\B",
                                           "^",           "$",
                                           "\\A",         "\\z",
                                           "\\C",         "\\x41",
                                           "\\x{e9}",     "\xc3\xa9",
                                           "[[:alpha:]]", "[^[:space:]]",
                                           "\\pL",        "\\p{Greek}",
                                           "\\PN",        "[\\x{3b1}-\\x{3c9}]",
                                           "\\.",         "\\n",
                                           "[k-s]",       "\\Qa.b\\E",
                                           "\\t",         "\\101",
                                           "{",           "x{,2}",
                                           "[]a]",        "[^\\n]",
                                           "[\\]\\-a]",   "(?i)",
                                           "(?s)",        "(?m)",
                                           "(?-i)",       "\xe4\xb8\xad",
                                           "[\\d\\s]",    "\\r"};
  static constexpr const char* kRepeats[] = {"*",   "+",     "?",    "*?",     "+?",  "??",
                                             "{2}", "{1,3}", "{2,}", "{0,2}?", "{0}", "{12,40}"};
  std::string rule;
  const size_t parts = 1 + Pick(4, random);
  for (size_t i = 0; i < parts; ++i) {
    std::string part;
    if (depth > 0 && Pick(4, random) == 0) {
      static constexpr const char* kOpens[] = {"(", "(?:", "(?i:", "(?s:", "(?P<n>"};
      part = kOpens[Pick(std::size(kOpens), random)] + RandomRule(depth - 1, random);
      if (Pick(3, random) == 0) part += "|" + RandomRule(depth - 1, random);
      part += ")";
    } else {
      part = kAtoms[Pick(std::size(kAtoms), random)];
    }
    if (Pick(3, random) == 0) part += kRepeats[Pick(std::size(kRepeats), random)];
    rule += part;
    if (Pick(6, random) == 0) rule += ".*";
  }
  return rule;
}

std::string RandomRules(size_t count, bool ignore_case, Random& random,
                        std::vector<std::string>* rules, std::vector<Node>* nodes) {
  std::string text;
  while (rules->size() < count) {
    std::string rule = RandomRule(2, random);
    RE2::Options options;
    options.set_log_errors(false);
    options.set_case_sensitive(!ignore_case);
    if (!RE2(rule, options).ok()) continue;
    // A rule that accepts everything would hide the others.
    if (rules->size() + 1 < count && RE2::PartialMatch("", RE2(rule, options))) continue;
    if (auto node = ParseRule(rule, ignore_case); node.ok()) nodes->push_back(*std::move(node));
    absl::StrAppend(&text, "  '", rule, "'\n");
    rules->push_back(std::move(rule));
  }
  return text;
}

std::string RandomBlock(const std::vector<Node>& nodes, Random& random) {
  static constexpr char kLetters[] = "aabbkKsSfo A.7_\t\r\xc3\xa9\xff{";
  std::string block;
  const size_t lines = Pick(60, random);
  for (size_t i = 0; i < lines; ++i) {
    std::string line;
    // Scanners have other ways through long runs of what does not matter.
    if (Pick(8, random) == 0) line = std::string(Pick(300, random), "q~a"[Pick(3, random)]);
    if (!nodes.empty() && Pick(2, random) == 0) {
      line += Damage(MakeMatching(nodes[Pick(nodes.size(), random)], random), random);
    } else {
      const size_t size = Pick(12, random);
      for (size_t k = 0; k < size; ++k) line += kLetters[Pick(sizeof(kLetters) - 1, random)];
    }
    block += line + "\n";  // where the line holds newlines, it is several
  }
  if (!block.empty() && Pick(3, random) == 0) block.pop_back();
  return block;
}

void CheckRandomRules(size_t count, int rounds, const RuleSetOptions& base, uint64_t seed) {
  Random random(seed);
  int found = 0;
  int not_found = 0;
  for (int round = 0; round < rounds; ++round) {
    RuleSetOptions options = base;
    options.ignore_case = Pick(4, random) == 0;
    std::vector<std::string> rules;
    std::vector<Node> nodes;
    const std::string text = RandomRules(count, options.ignore_case, random, &rules, &nodes);
    const auto set = MakeSet(rules, options);
    ASSERT_NE(set, nullptr) << text;
    for (int i = 0; i < 4; ++i) {
      const std::string block = RandomBlock(nodes, random);
      const auto expected = Re2Lines(rules, block, options.ignore_case);
      ASSERT_EQ(FoundIn(*set, block), expected) << "round " << round << ", rules:\n"
                                                << text << set->Explain();
      found += static_cast<int>(expected.size());
      not_found += static_cast<int>(LinesOf(block).size() - expected.size());
    }
    ASSERT_EQ(set->quarantined(), 0U) << text;
  }
  // The test is one only if both answers are frequent.
  EXPECT_GT(found, rounds);
  EXPECT_GT(not_found, rounds);
}

TEST(RandomRulesTest, OneRule_BlocksOfLines_AsRe2LineByLine) {
  CheckRandomRules(1, testing_util::LongTests() ? 20000 : 150, {}, testing_util::TestSeed());
}

TEST(RandomRulesTest, ManyRules_BlocksOfLines_AsRe2LineByLine) {
  CheckRandomRules(6, testing_util::LongTests() ? 2000 : 20, {}, testing_util::TestSeed() + 1);
}

TEST(RandomRulesTest, Prefixed_Records_AsRe2) {
  Random random(testing_util::TestSeed() + 3);
  for (int round = 0; round < (testing_util::LongTests() ? 4000 : 60); ++round) {
    RuleSetOptions options;
    options.records = Records::kPrefixed;
    std::vector<std::string> rules;
    std::vector<Node> nodes;
    const std::string text = RandomRules(2, false, random, &rules, &nodes);
    const auto set = MakeSet(rules, options);
    ASSERT_NE(set, nullptr) << text;
    auto matcher = Matcher::Make(set.get());
    ASSERT_TRUE(matcher.ok());
    for (int i = 0; i < 8; ++i) {
      const std::string record = RandomBlock(nodes, random).substr(0, Pick(60, random));
      std::string block;
      for (int k = 0; k < 4; ++k) block.push_back(static_cast<char>(record.size() >> (8 * k)));
      block += record;
      const bool expected =
          RE2::PartialMatch(record, RE2(rules[0])) || RE2::PartialMatch(record, RE2(rules[1]));
      ASSERT_EQ(FoundIn(matcher->get(), block).size(), expected ? 1U : 0U)
          << "round " << round << ", rules:\n"
          << text << set->Explain();
    }
  }
}

TEST(RandomRulesTest, Logs_RulesMadeFromThem_AsRe2LineByLine) {
  Random random(testing_util::TestSeed() + 4);
  for (const auto& [name, block] : TestLogs(testing_util::TestSeed())) {
    const std::vector<std::string> lines = LinesOf(block);
    for (int round = 0; round < 20; ++round) {
      // Words of the log, joined in ways that rules are.
      static constexpr const char* kJoins[] = {"",     ".*",    ".+",       " ",
                                               "\\s+", "[^ ]*", "\\b.*\\b", "\\d+"};
      std::vector<std::string> rules;
      for (int i = 0; i < 3; ++i) {
        std::string rule;
        for (int part = 0; part < 3; ++part) {
          const std::string& line = lines[Pick(lines.size(), random)];
          const size_t at = Pick(line.size() + 1, random);
          std::string word = line.substr(at, 1 + Pick(5, random));
          if (!IsAscii(word)) continue;
          absl::StrAppend(&rule, RE2::QuoteMeta(word), kJoins[Pick(std::size(kJoins), random)]);
        }
        rules.push_back(rule);
      }
      const auto set = MakeSet(rules);
      ASSERT_EQ(FoundIn(*set, block), Re2Lines(rules, block)) << name << "\n" << set->Explain();
      EXPECT_EQ(set->quarantined(), 0U);
    }
  }
}

}  // namespace
}  // namespace pulse::filter
