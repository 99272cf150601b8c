#include "services/ops/filter/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "services/ops/filter/test_rules.h"

namespace pulse::filter {
namespace {

using ::testing::HasSubstr;
using testing_util::Text;
using Strings = std::vector<std::string>;

Strings Found(const Strings& rules, const std::string& block, bool ignore_case = false) {
  RuleSetOptions options;
  options.ignore_case = ignore_case;
  const auto set = MakeSet(rules, options);
  Strings found = FoundIn(*set, block);
  EXPECT_EQ(found, Re2Lines(rules, block, ignore_case));
  return found;
}

TEST(MatcherTest, Lines_Anchors_AreThoseOfEachLine) {
  EXPECT_EQ(Found({"^b"}, "ab\nb\nbb\n"), (Strings{"b", "bb"}));
  EXPECT_EQ(Found({"b$"}, "ab\nba\nb"), (Strings{"ab", "b"}));
  EXPECT_EQ(Found({"^$"}, "a\n\nb\n\n"), (Strings{"", ""}));
  EXPECT_EQ(Found({"\\Aa\\z"}, "a\naa\n"), Strings{"a"});
  EXPECT_EQ(Found({"(?m)^a$"}, "a\naa\n"), Strings{"a"});
  EXPECT_EQ(Found({"^a.*z$"}, "az\na z\nazy\nbaz\n"), (Strings{"az", "a z"}));
}

TEST(MatcherTest, Lines_LastWithoutNewline_Counts) {
  EXPECT_EQ(Found({"x"}, "a\nx"), Strings{"x"});
  EXPECT_EQ(Found({"^$", "z"}, "a\n"), Strings{});
  EXPECT_EQ(Found({"^$"}, "\n"), Strings{""});
  EXPECT_EQ(Found({"a*"}, "\nx\ny"), (Strings{"", "x", "y"}));
}

TEST(MatcherTest, Lines_NoMatchCrossesANewline) {
  EXPECT_EQ(Found({"a[^x]b", "c\\sd", "e\\We", "(?s)f.f", "g[[:space:]]*h", "i\\Cj"},
                  "a\nb\nc\nd\ne\ne\nf\nf\ng\nh\ni\nj\na b\ngh\n"),
            (Strings{"a b", "gh"}));
}

TEST(MatcherTest, Lines_CarriageReturn_IsPartOfTheRecord) {
  EXPECT_EQ(Found({"end$"}, "the end\r\nthe end\n"), Strings{"the end"});
  EXPECT_EQ(Found({"end\\r?$"}, "the end\r\nthe end\n"), (Strings{"the end\r", "the end"}));
}

TEST(MatcherTest, Lines_NulBytes_AreBytesLikeOthers) {
  const std::string block = std::string("a\0b\n\0\nab\n", 9);
  EXPECT_EQ(Found({std::string("a\\x00b")}, block), Strings{std::string("a\0b", 3)});
  EXPECT_EQ(Found({"a.b"}, block), Strings{std::string("a\0b", 3)});
}

TEST(MatcherTest, Lines_Utf8_CountsCharacters) {
  EXPECT_EQ(
      Found({"^.{3}$"}, "abc\nabcde\n\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\n\xc3\xa9\xc3\xa9\n"),
      (Strings{"abc", "\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"}));
  EXPECT_EQ(Found({"[^a]$"}, "a\n\xc3\xa9\n"), Strings{"\xc3\xa9"});
  EXPECT_EQ(Found({"\xc3\xa9+x"}, "\xc3\xa9\xc3\xa9x\n\xc3x\n"), Strings{"\xc3\xa9\xc3\xa9x"});
}

TEST(MatcherTest, Lines_InvalidUtf8_IsAcceptedByNoClass) {
  EXPECT_EQ(Found({"a.b"},
                  "a\xff"
                  "b\na\xc3\xa9"
                  "b\n"),
            Strings{"a\xc3\xa9"
                    "b"});
  EXPECT_EQ(Found({"a.+b"},
                  "a\xff"
                  "b\na\x80\x80"
                  "b\na b\n"),
            Strings{"a b"});
  EXPECT_EQ(Found({"a\\C+b"},
                  "a\xff"
                  "b\n"),
            Strings{"a\xff"
                    "b"});
  EXPECT_EQ(Found({"x"}, "\xff\xfex\n"), Strings{"\xff\xfex"});
}

TEST(MatcherTest, Lines_IgnoreCase_FoldsAsRe2Does) {
  EXPECT_EQ(Found({"kiss"}, "KISS\n\xe2\x84\xaai\xc5\xbfs\nkist\n", true),
            (Strings{"KISS", "\xe2\x84\xaai\xc5\xbfs"}));
  EXPECT_EQ(Found({"\xc3\xa9t"}, "\xc3\x89T\n", true), Strings{"\xc3\x89T"});
  EXPECT_EQ(Found({"(?i)error.*DISK"}, "Error on disk\nerror\n"), Strings{"Error on disk"});
  EXPECT_EQ(Found({"(?i:a)b"}, "Ab\nAB\n"), Strings{"Ab"});
}

TEST(MatcherTest, Lines_Chains_KeepOrderAndGaps) {
  EXPECT_EQ(Found({"on (.+) at (.+)"}, "at x on y\non x at y\non at y\non   at y\non x at \n"),
            (Strings{"on x at y", "on   at y"}));
  EXPECT_EQ(Found({"ab.*ba"}, "aba\nabba\nab ba\n"), (Strings{"abba", "ab ba"}));
  EXPECT_EQ(Found({"aa.{2,}aa"}, "aaaaa\naaaaaa\naaxaa\n"), Strings{"aaaaaa"});
  EXPECT_EQ(Found({"x.*end$"}, "x end end\nx end.\nend x\n"), Strings{"x end end"});
  EXPECT_EQ(Found({"^ab.*cd|ef$"}, "abcd\nxabcd\nxef\nefx\n"), (Strings{"abcd", "xef"}));
  EXPECT_EQ(Found({"^same$"}, "same\nsame same\n"), Strings{"same"});
}

TEST(MatcherTest, Lines_ManyParts_AreAllScanned) {
  std::string block;
  for (int i = 0; i < 40000; ++i)
    absl::StrAppend(&block, "line ", i, i % 97 == 0 ? " hit\n" : "\n");
  EXPECT_EQ(Found({"hit"}, block).size(), 413U);
  EXPECT_EQ(Found({"[0-9] hit$"}, block).size(), 413U);
}

TEST(MatcherTest, Lines_OneLongerThanAPart_IsOneRecord) {
  std::string block = "short\n" + std::string(700 << 10, 'x') + "y\nshort y\n";
  EXPECT_EQ(Found({"y$"}, block).size(), 2U);
  EXPECT_EQ(Found({"^x[xy]*y$"}, block).size(), 1U);
  block.pop_back();
  EXPECT_EQ(Found({"y"}, block).size(), 2U);
}

std::string Prefixed(const Strings& records) {
  std::string block;
  for (const std::string& record : records) {
    for (int i = 0; i < 4; ++i) block.push_back(static_cast<char>(record.size() >> (8 * i)));
    block += record;
  }
  return block;
}

TEST(MatcherTest, Prefixed_Records_MayHoldNewlines) {
  RuleSetOptions options;
  options.records = Records::kPrefixed;
  const Strings records = {"a\nb",
                           "ab",
                           "",
                           "b\n",
                           "x\na",
                           "\xff"
                           "a b"};
  const Strings rules = {"a\\sb$", "^b$", "(?m)^a$", "^\\z"};
  for (const std::string& rule : rules) {
    const auto set = MakeSet({rule}, options);
    Strings expected;
    for (const std::string& record : records) {
      if (RE2::PartialMatch(record, RE2(rule))) expected.push_back(record);
    }
    EXPECT_EQ(FoundIn(*set, Prefixed(records)), expected) << rule;
  }
}

TEST(MatcherTest, Prefixed_CutOff_SaysWhere) {
  RuleSetOptions options;
  options.records = Records::kPrefixed;
  const auto set = MakeSet({"a"}, options);
  auto matcher = Matcher::Make(set.get());
  const std::string block = Prefixed({"abc", "def"});
  std::vector<Hit> hits;
  for (size_t size = 8; size < block.size(); ++size) {
    const absl::Status status = (*matcher)->Match(block.substr(0, size), &hits);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(Text(status), HasSubstr("at byte 7"));
  }
  const absl::Status status = (*matcher)->Match("\xff\xff\xff\xff", &hits);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
}

// Rules whose engine lies, without the trial that would have found it.
RuleSetOptions Lying(uint32_t liar, const char* pattern) {
  RuleSetOptions options;
  options.try_rules = false;
  options.vectorscan = VectorscanUse::kAll;
  options.change_form = [liar, pattern](uint32_t rule, RuleForm* form) {
    if (rule == liar) form->pattern = pattern;
  };
  return options;
}

TEST(MatcherTest, Samples_EngineThatMisses_IsPutIntoQuarantine) {
  const Strings rules = {"x[0-9]y", "a[0-9]b"};
  const auto set = MakeSet(rules, Lying(1, "never[0-9]"));
  auto matcher = Matcher::Make(set.get());
  std::string block;
  for (int i = 0; i < 3000; ++i)
    absl::StrAppend(&block, "a", i % 10, "b\n", i % 10 == 0 ? "x1y\n" : "");
  for (int i = 0; i < 200 && set->quarantined() == 0; ++i) FoundIn(matcher->get(), block);
  EXPECT_FALSE(set->IsQuarantined(0));
  ASSERT_TRUE(set->IsQuarantined(1));
  EXPECT_THAT(set->Explain(), HasSubstr("quarantine"));
  EXPECT_EQ(FoundIn(matcher->get(), block), Re2Lines(rules, block));
}

TEST(MatcherTest, Samples_EngineThatFindsTooMuch_IsPutIntoQuarantine) {
  const Strings rules = {"x[0-9]y", "a[0-9]b"};
  const auto set = MakeSet(rules, Lying(0, "[a-z]"));
  auto matcher = Matcher::Make(set.get());
  std::string block;
  for (int i = 0; i < 3000; ++i)
    absl::StrAppend(&block, "a", i % 10, "\n", i % 10 == 0 ? "x1y\n" : "");
  for (int i = 0; i < 200 && set->quarantined() == 0; ++i) FoundIn(matcher->get(), block);
  ASSERT_TRUE(set->IsQuarantined(0));
  EXPECT_EQ(FoundIn(matcher->get(), block), Re2Lines(rules, block));
}

TEST(MatcherTest, Samples_PrefixedRecords_AreSampledToo) {
  RuleSetOptions options = Lying(0, "never[0-9]");
  options.records = Records::kPrefixed;
  const auto set = MakeSet({"a[0-9]b"}, options);
  auto matcher = Matcher::Make(set.get());
  const std::string block = Prefixed(Strings(10000, "a1b"));
  for (int i = 0; i < 200 && set->quarantined() == 0; ++i) FoundIn(matcher->get(), block);
  ASSERT_TRUE(set->IsQuarantined(0));
  EXPECT_EQ(FoundIn(matcher->get(), block).size(), 10000U);
}

TEST(MatcherTest, IsAscii_EachPlace_IsSeen) {
  for (size_t size : {1, 7, 8, 63, 64, 65, 200}) {
    std::string text(size, 'a');
    EXPECT_TRUE(IsAscii(text));
    for (size_t at = 0; at < size; ++at) {
      text[at] = '\x80';
      EXPECT_FALSE(IsAscii(text)) << at << " of " << size;
      text[at] = '\x7f';
    }
  }
  EXPECT_TRUE(IsAscii(""));
}

}  // namespace
}  // namespace pulse::filter
