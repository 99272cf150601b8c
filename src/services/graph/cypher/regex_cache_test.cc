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
  const std::string pieces[] = {"a",      "b",    ".*",  ".",  "\n", "\r",   "é",
                                "\u2028", "\xFF", "\\.", "a+", "",   "(a|b)"};
  // And as RE2 writes it.
  const auto make = [&](size_t kinds, std::string* spelled = nullptr) {
    std::string text;
    for (uint64_t i = random() % 5; i > 0; --i) {
      std::string piece = pieces[random() % kinds];
      text += piece;
      if (piece[0] == '.') piece.replace(0, 1, "[^\n\r\u0085\u2028\u2029]");
      if (spelled != nullptr) *spelled += piece;
    }
    return text;
  };
  int matched = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Without what only patterns have, for half of the patterns to be simple.
    std::string spelled;
    const std::string text = make(random() % 2 == 0 ? 3 : std::size(pieces), &spelled);
    const std::string subject = make(9);
    const RegexPattern pattern(text);
    const RE2 regex(re2::StringPiece(spelled.data(), spelled.size()), RE2::Quiet);
    ASSERT_EQ(pattern.error().empty(), regex.ok()) << text;
    if (!regex.ok()) continue;
    const bool expected = RE2::FullMatch(re2::StringPiece(subject.data(), subject.size()), regex);
    ASSERT_EQ(pattern.Matches(subject), expected) << text << " against " << subject;
    matched += expected ? 1 : 0;
  }
  EXPECT_GT(matched, 100);
}

TEST(RegexPatternTest, Dot_EndsOfLines_AreNoneOfItsCharactersUnlessAsked) {
  for (const std::string end : {"\n", "\r", "\u0085", "\u2028", "\u2029"}) {
    const std::string subject = "a" + end + "b";
    for (const char* text : {"a.b", "a.*", ".*b", ".*", "(a.*)", "(?s:a)(.)b", "((?s)a).b", "a[.]b",
                             "(?s)a(?-s).b", "(?s)a(?-s:.)b", "(?i)A.B"}) {
      EXPECT_FALSE(RegexPattern(text).Matches(subject)) << text << " " << int{end[0]};
    }
    for (const char* text : {"(?s)a.b", "(?s:a.)b", "a[^x]b", "(?is)A(.*)", "((?s)a.)b",
                             "((a)(?s).)b", "a(?s).(?-s)b", "a\\x{A}b|(?s)a.b"}) {
      EXPECT_TRUE(RegexPattern(text).Matches(subject)) << text << " " << int{end[0]};
    }
    EXPECT_EQ(RegexPattern("(?d)a.b").Matches(subject), end != "\n");
    EXPECT_EQ(RegexPattern("(?d:a.)b").Matches(subject), end != "\n");
  }
  EXPECT_TRUE(RegexPattern("[].]+").Matches("].]"));
  EXPECT_TRUE(RegexPattern("[^].].").Matches("aé"));
  EXPECT_TRUE(RegexPattern("\\Q.\\E.").Matches(".x"));
  EXPECT_FALSE(RegexPattern("\\Q.\\E.").Matches("xx"));
  EXPECT_TRUE(RegexPattern(".{1000}.{1000}").error().empty());
}

TEST(RegexPatternTest, Space_VerticalTab_IsOne) {
  for (const char* text : {"a\\sb", "a[\\s]b", "a[x\\s-]b", "a[^\\S]b", "a[^\\Sx]b"}) {
    EXPECT_TRUE(RegexPattern(text).Matches("a\vb")) << text;
    EXPECT_TRUE(RegexPattern(text).Matches("a b")) << text;
    EXPECT_FALSE(RegexPattern(text).Matches("aab")) << text;
  }
  for (const char* text : {"a\\Sb", "a[\\S]b", "a[^\\s]b", "a[\\Sx]b"}) {
    EXPECT_FALSE(RegexPattern(text).Matches("a\vb")) << text;
    EXPECT_FALSE(RegexPattern(text).Matches("a b")) << text;
    EXPECT_TRUE(RegexPattern(text).Matches("aéb")) << text;
  }
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
