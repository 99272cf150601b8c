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

TEST(RegexPatternTest, ClassesOfAscii_AreThoseOfJava) {
  const std::string punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  const auto is_in = [&punctuation](const std::string& name, char c) {
    const bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
    const bool digit = c >= '0' && c <= '9', punct = punctuation.find(c) != std::string::npos;
    if (name == "Lower") return lower;
    if (name == "Upper") return upper;
    if (name == "ASCII") return true;
    if (name == "Alpha") return lower || upper;
    if (name == "Digit") return digit;
    if (name == "Alnum") return lower || upper || digit;
    if (name == "Punct") return punct;
    if (name == "Graph") return lower || upper || digit || punct;
    if (name == "Print") return lower || upper || digit || punct || c == ' ';
    if (name == "Blank") return c == ' ' || c == '\t';
    if (name == "Cntrl") return c < ' ' || c == '\x7F';
    if (name == "XDigit") return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    return c == ' ' || (c >= '\t' && c <= '\r');  // Space
  };
  for (const std::string name : {"Lower", "Upper", "ASCII", "Alpha", "Digit", "Alnum", "Punct",
                                 "Graph", "Print", "Blank", "Cntrl", "XDigit", "Space"}) {
    const std::string braces = "{" + name + "}";
    const RegexPattern in("\\p" + braces), out("\\P" + braces), one_of("[\\p" + braces + "]"),
        none_of("[^\\p" + braces + "]"), one_not_of("[\\P" + braces + "]"),
        all("[\\p" + braces + "\\P" + braces + "]");
    for (int i = 0; i < 128; ++i) {
      const std::string subject(1, static_cast<char>(i));
      const bool expected = is_in(name, static_cast<char>(i));
      EXPECT_EQ(in.Matches(subject), expected) << name << " " << i;
      EXPECT_EQ(one_of.Matches(subject), expected) << name << " " << i;
      EXPECT_EQ(out.Matches(subject), !expected) << name << " " << i;
      EXPECT_EQ(none_of.Matches(subject), !expected) << name << " " << i;
      EXPECT_EQ(one_not_of.Matches(subject), !expected) << name << " " << i;
      EXPECT_TRUE(all.Matches(subject)) << name << " " << i;
    }
    EXPECT_FALSE(in.Matches("é")) << name;
    EXPECT_TRUE(out.Matches("é")) << name;
  }
  EXPECT_TRUE(RegexPattern("[_\\p{Lower}-]+").Matches("a-_b"));
  EXPECT_TRUE(RegexPattern("[\\p{Upper}-x]+").Matches("A-x"));
  EXPECT_FALSE(RegexPattern("[\\p{Upper}-x]+").Matches("b"));
  EXPECT_TRUE(RegexPattern("\\p{Alpha}{2,3}").Matches("abc"));
}

TEST(RegexPatternTest, ScriptsAndCategories_InWordsOfJava_AreTaken) {
  for (const char* text :
       {"\\p{IsGreek}", "\\p{script=Greek}", "\\p{sc=GREEK}", "[\\p{IsGreek}a]", "\\p{IsL}",
        "\\p{IsLl}", "\\p{gc=Ll}", "\\p{general_category=L}", "\\p{L}", "\\pL", "\\P{IsLatin}"}) {
    EXPECT_TRUE(RegexPattern(text).Matches("α")) << text << " " << RegexPattern(text).error();
    EXPECT_EQ(RegexPattern(text).Matches("1"), text[1] == 'P') << text;
  }
  EXPECT_FALSE(RegexPattern("\\p{IsGreek}").Matches("a"));
  EXPECT_TRUE(RegexPattern("\\p{IsOld_italic}").Matches("\U00010300"));
}

TEST(RegexPatternTest, EscapesOfJava_AreThoseCharacters) {
  EXPECT_TRUE(RegexPattern("\\u0061[\\u0062-\\u0064]+\\u00e9").Matches("abcdé"));
  EXPECT_FALSE(RegexPattern("[\\u0062-\\u0064]").Matches("a"));
  EXPECT_TRUE(RegexPattern("\\u002E").Matches("."));
  EXPECT_FALSE(RegexPattern("\\u002E").Matches("x"));
  EXPECT_TRUE(RegexPattern("\\uD83D\\uDE00+").Matches("\U0001F600\U0001F600"));
  for (const std::string space : {" ", "\t", "\u00A0", "\u1680", "\u180E", "\u2000", "\u200A",
                                  "\u202F", "\u205F", "\u3000"}) {
    EXPECT_TRUE(RegexPattern("a\\hb").Matches("a" + space + "b")) << space;
    EXPECT_TRUE(RegexPattern("a[x\\h]b").Matches("a" + space + "b")) << space;
    EXPECT_FALSE(RegexPattern("a[^\\h]b").Matches("a" + space + "b")) << space;
  }
  EXPECT_FALSE(RegexPattern("\\h").Matches("\n"));
  EXPECT_FALSE(RegexPattern("\\h").Matches("\u200B"));
  EXPECT_TRUE(RegexPattern("[\\h-x]+").Matches(" -x"));
  for (const std::string end : {"\n", "\r", "\r\n", "\v", "\f", "\u0085", "\u2028", "\u2029"}) {
    EXPECT_TRUE(RegexPattern("a\\Rb").Matches("a" + end + "b")) << int{end[0]};
  }
  EXPECT_FALSE(RegexPattern("\\R").Matches("\n\r"));
  EXPECT_TRUE(RegexPattern("\\R{2}").Matches("\n\r"));
  EXPECT_FALSE(RegexPattern("\\R").Matches(" "));
}

TEST(RegexPatternTest, Error_OfABrokenPattern_SaysWhy) {
  EXPECT_TRUE(RegexPattern("a.*").error().empty());
  for (const char* text : {"(a",
                           "[\\R]",
                           "\\u12",
                           "\\u12g4",
                           "\\uD83D",
                           "\\uDE00",
                           "\\uD83D\\u0061",
                           "[A-\\p{Alpha}]",
                           "[\\u0001-\\h]",
                           "\\p{alpha}",
                           "\\p{isGreek}",
                           "\\p{IsAlphabetic}",
                           "\\p{IsDigit}",
                           "\\p{InGreek}",
                           "\\p{Is}",
                           "(a)\\1",
                           "(?<n>a)\\k<n>",
                           "a++",
                           "a*+",
                           "(?>a)",
                           "(?x)a b",
                           "a{1001}"}) {
    EXPECT_FALSE(RegexPattern(text).error().empty()) << text;
  }
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
