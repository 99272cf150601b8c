// Texts that rules need: what is found to be needed is; and a set of many rules that share texts
// selects what RE2 selects.
#include "services/ops/filter/required_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/ops/filter/test_rules.h"

namespace pulse::filter {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_util::TestSeed;

std::vector<std::string> TextsOf(const std::string& rule, bool ignore_case = false) {
  return RequiredTexts(Simplify(ParseRule(rule, ignore_case).value(), true));
}

TEST(RequiredTextsTest, Texts_OfARule_AreThoseOfEveryMatch) {
  EXPECT_THAT(TextsOf("block blk_[0-9]+ terminating"), ElementsAre("block blk_", " terminating"));
  EXPECT_THAT(TextsOf("error 12.*state (6|7)"), ElementsAre("error 12", "state "));
  EXPECT_THAT(TextsOf("abcd(efgh)?ijkl"), ElementsAre("abcd", "ijkl"));
  EXPECT_THAT(TextsOf("abc(def)*"), IsEmpty()) << "too short";
  EXPECT_THAT(TextsOf("first|second"), IsEmpty());
  EXPECT_THAT(TextsOf("error", true), IsEmpty());
  EXPECT_THAT(TextsOf("ab(cdef)+ghij"), ElementsAre("abcdef", "cdefghij"));
  EXPECT_THAT(TextsOf("ab(cdef){3}ghij"), ElementsAre("abcdef", "cdefghij"));
  EXPECT_THAT(TextsOf("wörter"), ElementsAre("rter"));
}

TEST(RequiredTextsTest, Shared_OfManyRules_AreFew) {
  std::vector<std::vector<std::string>> required;
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    required.push_back(i % 2 == 0 ? std::vector<std::string>{"Failed password for user" + number}
                                  : std::vector<std::string>{"x" + number + "x", "node-" + number});
  }
  const auto texts = SharedTexts(required, 8);
  EXPECT_EQ(texts.size(), 2u);
  for (const auto& rule : required) {
    bool any = false;
    for (const auto& text : rule) {
      for (const auto& key : texts) any = any || text.find(key.text) != std::string::npos;
    }
    EXPECT_TRUE(any);
  }
  required.assign(9, {});
  for (size_t i = 0; i < 9; ++i) required[i] = {std::string(6, static_cast<char>('a' + i))};
  EXPECT_THAT(SharedTexts(required, 8), IsEmpty()) << "nine that share nothing";
}

TEST(RequiredTextsTest, Shared_WhatAGroupNeedsBesides_IsTold) {
  const auto texts = SharedTexts({{"block blk_1", " terminating", "by1"},
                                  {"block blk_2", " terminating"},
                                  {"Failed password"},
                                  {"block blk_3", " terminating slowly"}},
                                 2);
  ASSERT_EQ(texts.size(), 2u);
  for (const SharedText& group : texts) {
    if (group.text.find("password") != std::string::npos) {
      EXPECT_THAT(group.also, IsEmpty());
    } else if (group.text == " terminating") {
      EXPECT_THAT(group.also, ElementsAre("block blk_"));
    } else {
      EXPECT_EQ(group.text, "block blk_");
      EXPECT_THAT(group.also, ElementsAre(" terminating"));
    }
  }
}

// Rules of a few words, so that texts are shared; records of the same words.
TEST(RequiredTextsTest, Filter_ManyRulesThatShareTexts_AsRe2LineByLine) {
  std::mt19937_64 random(TestSeed());
  const std::vector<std::string> words = {"password", "terminating", "timeout", "blk_", "state"};
  const std::vector<std::string> parts = {"[0-9]+", ".*", "(a|b)", "x?", " +", "^", "$", "\\b"};
  const auto word = [&] { return words[random() % words.size()]; };
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> rules;
    for (int i = 0; i < 60; ++i) {
      std::string rule = word();
      for (uint64_t k = random() % 3; k > 0; --k) rule += parts[random() % 5] + word();
      if (random() % 8 == 0) rule = (random() % 2 == 0 ? "^" : "\\b") + rule;
      if (random() % 8 == 0) rule += std::to_string(random() % 30);
      rules.push_back(rule);
    }
    RuleSetOptions options;
    options.vectorscan = VectorscanUse::kNone;
    const auto set = MakeSet(rules, options);
    ASSERT_NE(set, nullptr);
    std::string block;
    for (int i = 0; i < 400; ++i) {
      for (uint64_t k = random() % 5; k > 0; --k) {
        std::string text = random() % 3 == 0 ? std::to_string(random() % 100) : word();
        if (random() % 4 == 0) text.pop_back();
        block += text + (random() % 3 == 0 ? "" : " ");
      }
      block += i == 399 && round % 2 == 0 ? "" : "\n";
    }
    EXPECT_EQ(FoundIn(*set, block), Re2Lines(rules, block)) << round;
  }
}

TEST(RequiredTextsTest, Compile_RulesThatShareTexts_HaveAFinder) {
  RuleSetOptions options;
  options.vectorscan = VectorscanUse::kNone;
  std::vector<std::string> rules;
  for (int i = 0; i < 100; ++i) rules.push_back("block blk_" + std::to_string(i) + "[0-9]+ end");
  EXPECT_NE(MakeSet(rules, options)->re2_finder(), nullptr);
  rules.emplace_back("[a-z]+");
  EXPECT_EQ(MakeSet(rules, options)->re2_finder(), nullptr);
}

}  // namespace
}  // namespace pulse::filter
