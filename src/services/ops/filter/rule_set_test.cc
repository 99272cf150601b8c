#include "services/ops/filter/rule_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "services/ops/filter/test_rules.h"

namespace pulse::filter {
namespace {

using ::testing::HasSubstr;
using testing_util::Text;

RuleEngine EngineOf(const std::string& rule, bool ignore_case = false) {
  RuleSetOptions options;
  options.ignore_case = ignore_case;
  // What the trial would make of it depends on the CPU's scanner.
  options.try_rules = false;
  options.vectorscan = VectorscanUse::kAll;
  const auto set = MakeSet({rule}, options);
  return set == nullptr ? RuleEngine::kNever : set->rules().front().engine;
}

TEST(RuleSetTest, Compile_StoppedAnywhere_IsCancelledAtOnce) {
  const std::vector<std::string> rules = {"ERROR", "[0-9]+ms", "a.b"};
  int all = 0;
  CompileLimits limits;
  limits.stopped = [&all] { return ++all < 0; };
  ASSERT_TRUE(RuleSet::Compile(Named(rules), {}, limits).ok());
  EXPECT_GE(all, 6) << "it is asked for each rule";
  for (int last = 1; last <= all; ++last) {
    int asked = 0;
    limits.stopped = [&] { return ++asked >= last; };
    EXPECT_TRUE(absl::IsCancelled(RuleSet::Compile(Named(rules), {}, limits).status())) << last;
    EXPECT_EQ(asked, last);
  }
}

TEST(RuleSetTest, Compile_ByManyThreads_ChoosesAsOneDoes) {
  std::vector<std::string> rules;
  for (int i = 0; i < 90; ++i) {
    rules.push_back(absl::StrCat("Failed user", i));
    rules.push_back(absl::StrCat("error ", i, ".*state (6|7)"));
    rules.push_back(absl::StrCat("[0-9]+ms", i));
  }
  RuleSetOptions options;
  // A form that finds nothing: what the trial has to see, whichever thread's it is.
  options.change_form = [](uint32_t rule, RuleForm* form) {
    if (rule % 60 == 0) form->chains = {Chain{.pieces = {{"never there"}}}};
  };
  const auto alone = MakeSet(rules, options);
  options.threads = 4;
  const auto together = MakeSet(rules, options);
  ASSERT_TRUE(alone != nullptr && together != nullptr);
  EXPECT_EQ(together->Explain(), alone->Explain());
  for (uint32_t i = 0; i < rules.size(); i += 60) {
    EXPECT_EQ(together->rules()[i].engine, RuleEngine::kRe2) << i;
  }
}

TEST(RuleSetTest, Compile_StoppedInOneOfManyThreads_IsCancelled) {
  std::vector<std::string> rules;
  for (int i = 0; i < 90; ++i) rules.push_back(absl::StrCat("Failed user", i));
  RuleSetOptions options;
  options.threads = 4;
  std::atomic<int> asked{0};
  CompileLimits limits;
  limits.stopped = [&] { return ++asked >= 120; };
  EXPECT_TRUE(absl::IsCancelled(RuleSet::Compile(Named(rules), options, limits).status()));
}

TEST(RuleSetTest, Compile_MoreInstructionsThanAllowed_IsRefusedWithTheRule) {
  CompileLimits limits;
  limits.instructions = 5000;
  const std::vector<std::string> rules = {"a", "b{900}", "(cdefghij){900}", "d"};
  const absl::Status status = RuleSet::Compile(Named(rules), {}, limits).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("rule 3"));
  EXPECT_TRUE(RuleSet::Compile(Named({"a", "b{900}", "d"}), {}, limits).ok());
}

TEST(RuleSetTest, Compile_TextsAndGaps_NeedNoAutomaton) {
  for (const char* rule : {"ERROR", "at (.+)Exit (.+)", "(.+) on (.+) at Exit (.+)", "^GET .*404$",
                           "(foo|bar) baz.{3,}x", "^.*late", "a\\.b", "\\Qa.b*\\E", "(?i)error",
                           "(ab|cd)+e", "(Failed|Accepted) (?:password|publickey) for"}) {
    EXPECT_EQ(EngineOf(rule), RuleEngine::kTexts) << rule;
  }
}

TEST(RuleSetTest, Compile_Automata_ArePatterns) {
  for (const char* rule : {"[0-9]+ms", "a.b", "a{3}b?c", "\\bword\\b", "x(ab|cd)+e", "^$",
                           "x{2,5}$", "^foo.$", "[^a]b", "\\d\\d:\\d\\d"}) {
    EXPECT_EQ(EngineOf(rule), RuleEngine::kPattern) << rule;
  }
}

TEST(RuleSetTest, Compile_WhatMatchesTheEmptyText_MatchesAll) {
  for (const char* rule : {"a*", "", "(x|)", "b?c*", ".*", "(a*|b)", "\\n*"}) {
    EXPECT_EQ(EngineOf(rule), RuleEngine::kAll) << rule;
  }
}

TEST(RuleSetTest, Compile_WhatNeedsANewline_MatchesNoLine) {
  for (const char* rule : {"a\\nb", "\\x0a", "[\\n]", "(x\\n|\\n)"}) {
    EXPECT_EQ(EngineOf(rule), RuleEngine::kNever) << rule;
  }
  // Where another way is left, it is taken.
  EXPECT_EQ(EngineOf("a(\\n|b)c"), RuleEngine::kTexts);
}

TEST(RuleSetTest, Compile_TooMuchForVectorscan_IsPrefilteredOrRe2) {
  for (const char* rule :
       {"(?:a.{900}){1}b.{900}c[xy]", "(\\b|x)y{1,700}z{300,900}[a-f]{500,1000}"}) {
    const RuleEngine engine = EngineOf(rule);
    EXPECT_TRUE(engine == RuleEngine::kPrefiltered || engine == RuleEngine::kRe2 ||
                engine == RuleEngine::kPattern)
        << rule << ": " << NameOf(engine);
  }
}

TEST(RuleSetTest, Compile_BadRules_AreAllNamedAtOnce) {
  const auto set = RuleSet::Compile(
      Named({"fine", "(open", "a(?=b)", "(x)\\1", "a++", "(?<!x)y", "[b-a]", "a\xff", "also fine"}),
      {});
  ASSERT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string text = Text(set.status());
  EXPECT_THAT(text, HasSubstr("7 rules cannot be used"));
  EXPECT_THAT(text, HasSubstr("rule 2: '(open': missing )"));
  EXPECT_THAT(text, HasSubstr("neither ahead nor behind"));
  EXPECT_THAT(text, HasSubstr("no back-references"));
  EXPECT_THAT(text, HasSubstr("no possessive repetition"));
  EXPECT_THAT(text, HasSubstr("rule 7: '[b-a]'"));
  EXPECT_THAT(text, HasSubstr("rule 8: 'a?'"));
  EXPECT_EQ(text.find("fine"), std::string::npos);
}

TEST(RuleSetTest, Compile_TextThatBeginsWithNul_IsServedWithoutAWarning) {
  testing::internal::CaptureStderr();
  const auto set = RuleSet::Compile(Named({R"(\x00)", R"(\x00a.*b)", "[cC]at"}), {});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(set.ok()) << Text(set.status());
}

TEST(RuleSetTest, Compile_NoRules_MatchNothing) {
  const auto set = MakeSet({});
  EXPECT_TRUE(FoundIn(*set, "a\nb\n\n").empty());
}

TEST(RuleSetTest, Compile_Literal_TakesEachCharacterForItself) {
  RuleSetOptions options;
  options.literal = true;
  const auto set = MakeSet({"a.b*", "(", "\\d", std::string("n\0l", 3)}, options);
  const std::string block = std::string("a.b*\naxb\n(\n7\n\\d\nn") + std::string("\0l\n", 3);
  EXPECT_EQ(FoundIn(*set, block),
            (std::vector<std::string>{"a.b*", "(", "\\d", std::string("n\0l", 3)}));
}

TEST(RuleSetTest, Compile_EngineThatMisses_RuleGoesToRe2) {
  RuleSetOptions options;
  options.vectorscan = VectorscanUse::kAll;
  options.change_form = [](uint32_t rule, RuleForm* form) {
    if (rule == 1) form->pattern = "never[0-9]this";
  };
  const std::vector<std::string> rules = {"x[0-9]y", "a[0-9]b"};
  const auto set = MakeSet(rules, options);
  EXPECT_EQ(set->rules()[1].engine, RuleEngine::kRe2);
  EXPECT_THAT(set->Explain(), HasSubstr("the engines differ"));
  const std::string block = "a1b\nx1y\nab\na22b\n";
  EXPECT_EQ(FoundIn(*set, block), Re2Lines(rules, block));
}

TEST(RuleSetTest, Compile_EngineThatFindsTooMuch_RuleGoesToRe2) {
  RuleSetOptions options;
  options.vectorscan = VectorscanUse::kAll;
  options.change_form = [](uint32_t, RuleForm* form) { form->pattern = "[0-9]"; };
  const auto set = MakeSet({"a[0-9]b[0-9]"}, options);
  EXPECT_EQ(set->rules()[0].engine, RuleEngine::kRe2);
}

TEST(RuleSetTest, Compile_RuleThatIsNotParsed_IsServedByRe2) {
  // Repetitions of nothing that RE2 allows and ParseRule leaves to it.
  const std::vector<std::string> rules = {"x\\Q\\E*y", "q[0-9]"};
  const auto set = MakeSet(rules);
  ASSERT_NE(set, nullptr);
  EXPECT_EQ(set->rules()[0].engine, RuleEngine::kRe2);
  EXPECT_FALSE(set->rules()[0].reason.empty());
  const std::string block = "xxy\nq1\ny\nz\n";
  EXPECT_EQ(FoundIn(*set, block), Re2Lines(rules, block));
}

// Vectorscan 5.4.9 finds the first of these alone on CPUs with AVX-512.
TEST(RuleSetTest, Compile_ScannerThatSkipsTooMuch_AgreesWithRe2) {
  for (const char* rule : {"A[a-zA-Z]", "\\bA\\pL", "\\bA", "A$|B$", "[A-C][0-9]+x"}) {
    const auto set = MakeSet({rule});
    std::string block;
    for (size_t i = 0; i < 200; ++i) {
      absl::StrAppend(&block, std::string(i * 37 % 500, 'y'), "\nAo\n", "A1x A\n");
    }
    EXPECT_EQ(FoundIn(*set, block), Re2Lines({rule}, block)) << set->Explain();
  }
}

// As on a CPU on which Vectorscan is not used: few texts have a finder of their own.
TEST(RuleSetTest, Compile_WithoutVectorscan_TextsOrRe2) {
  const auto engine_of = [](const std::vector<std::string>& rules) {
    RuleSetOptions options;
    options.vectorscan = VectorscanUse::kNone;
    const auto set = MakeSet(rules, options);
    return set->rules().front().engine;
  };
  EXPECT_EQ(engine_of({"ERROR", "on (.+) at"}), RuleEngine::kTexts);
  EXPECT_EQ(engine_of({"A[a-zA-Z]"}), RuleEngine::kRe2);
  EXPECT_EQ(engine_of({"(?i)error"}), RuleEngine::kRe2);
  std::vector<std::string> many;
  for (int i = 0; i < 40; ++i) many.push_back(absl::StrCat("text number ", i * 7919));
  EXPECT_EQ(engine_of(many), RuleEngine::kRe2);
}

// As on a CPU on which Vectorscan finds texts only: each rule by a text that it needs.
TEST(RuleSetTest, Compile_VectorscanForTexts_RulesArePrefiltered) {
  if (Scanner::SoundUse() == VectorscanUse::kNone) GTEST_SKIP() << "this Vectorscan finds nothing";
  RuleSetOptions options;
  options.vectorscan = VectorscanUse::kTexts;
  std::vector<std::string> rules;
  for (int i = 0; i < 40; ++i) rules.push_back(absl::StrCat("n", i * 7919, "-text[0-9]+x"));
  rules.emplace_back("(?i)error");
  const auto set = MakeSet(rules, options);
  EXPECT_EQ(set->rules()[0].engine, RuleEngine::kRe2) << "they share a text";
  for (int i = 0; i < 40; ++i) {
    rules[static_cast<size_t>(i)] = absl::StrCat("a[bc]", i * 7919, "word", 40 - i, "[0-9]+x");
  }
  rules.emplace_back("[0-9]z");
  const auto mixed = MakeSet(rules, options);
  EXPECT_EQ(mixed->rules()[0].engine, RuleEngine::kPrefiltered);
  EXPECT_EQ(mixed->rules()[40].engine, RuleEngine::kTexts);
  EXPECT_EQ(mixed->rules()[41].engine, RuleEngine::kRe2);
  std::string block;
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&block, i % 3 == 0 ? "ab" : "ad", i % 40 * 7919, "word", 40 - i % 40,
                    i % 5 == 0 ? "" : "12", "x\n", i % 50 == 0 ? "ERRor\n7z\n" : "z\n");
  }
  EXPECT_EQ(FoundIn(*mixed, block), Re2Lines(rules, block)) << mixed->Explain();
}

TEST(RuleSetTest, ManyRules_OfAllEngines_AgreeWithRe2) {
  std::vector<std::string> rules;
  for (int i = 0; i < 120; ++i) {
    rules.push_back(absl::StrCat("word", i, i % 3 == 0 ? "[0-9]+x" : i % 3 == 1 ? ".*end" : "$"));
  }
  const auto set = MakeSet(rules);
  std::string block;
  for (int i = 0; i < 2000; ++i)
    absl::StrAppend(&block, "a word", i % 190, i % 7 == 0 ? "5x" : " end\n");
  EXPECT_EQ(FoundIn(*set, block), Re2Lines(rules, block));
}

}  // namespace
}  // namespace pulse::filter
