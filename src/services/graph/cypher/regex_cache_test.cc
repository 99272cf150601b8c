// Patterns match what RE2 says, however they are compared, and several are kept.
#include "services/graph/syntax/regex_cache.h"

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <random>

#include "base/testing.h"

namespace pulse::cypher {
namespace {

TEST(RegexPatternTest, Matches_RandomPatternsAndSubjects_AgreesWithRe2) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::string pieces[] = {"a", "b", ".*", ".", "\n", "é", "\xFF", "\\.", "a+", "", "(a|b)"};
  const auto make = [&](size_t kinds) {
    std::string text;
    for (uint64_t i = random() % 5; i > 0; --i) text += pieces[random() % kinds];
    return text;
  };
  int matched = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Without what only patterns have, for half of the patterns to be simple.
    const std::string text = make(random() % 2 == 0 ? 3 : std::size(pieces)), subject = make(7);
    const RegexPattern pattern(text);
    const RE2 regex(re2::StringPiece(text.data(), text.size()), RE2::Quiet);
    ASSERT_EQ(pattern.error().empty(), regex.ok()) << text;
    if (!regex.ok()) continue;
    const bool expected = RE2::FullMatch(re2::StringPiece(subject.data(), subject.size()), regex);
    ASSERT_EQ(pattern.Matches(subject), expected) << text << " against " << subject;
    matched += expected ? 1 : 0;
  }
  EXPECT_GT(matched, 100);
}

TEST(RegexPatternTest, Error_OfABrokenPattern_SaysWhy) {
  EXPECT_TRUE(RegexPattern("a.*").error().empty());
  EXPECT_FALSE(RegexPattern("(a").error().empty());
}

TEST(RegexCacheTest, Find_SeveralPatternsInTurns_KeepsThem) {
  RegexCache cache;
  const RegexPattern* const first = &cache.Find("a+");
  const RegexPattern* const second = &cache.Find("b+");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(&cache.Find("a+"), first);
    EXPECT_EQ(&cache.Find("b+"), second);
  }
  EXPECT_EQ(cache.size(), 2u);
}

TEST(RegexCacheTest, Find_ManyPatterns_StaysBounded) {
  RegexCache cache;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(cache.Find("x" + std::to_string(i)).text(), "x" + std::to_string(i));
  }
  EXPECT_LE(cache.size(), 16u);
}

}  // namespace
}  // namespace pulse::cypher
