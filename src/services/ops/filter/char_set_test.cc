#include "services/ops/filter/char_set.h"

#include <gtest/gtest.h>

namespace pulse::filter {
namespace {

TEST(CharSetTest, AskRe2_Digits_OnlyThoseOfAscii) {
  const CharSet set = AskRe2("\\d", "");
  EXPECT_EQ(set.ascii.count(), 10U);
  EXPECT_TRUE(set.ascii['7']);
  EXPECT_TRUE(set.only_ascii());
}

TEST(CharSetTest, AskRe2_FoldedK_HasTheKelvinSign) {
  const CharSet set = AskRe2("[k]", "i");
  EXPECT_EQ(set.ascii.count(), 2U);
  EXPECT_EQ(set.others, std::vector<uint32_t>{0x212a});
}

TEST(CharSetTest, AskRe2_ClassOfFewOthers_ListsThem) {
  const CharSet set = AskRe2("[a\\x{3b1}-\\x{3b3}\\x{1f600}]", "");
  EXPECT_EQ(set.ascii.count(), 1U);
  EXPECT_EQ(set.others, (std::vector<uint32_t>{0x3b1, 0x3b2, 0x3b3, 0x1f600}));
  EXPECT_FALSE(set.many_others);
}

TEST(CharSetTest, AskRe2_NegatedClassAndDot_HaveManyOthers) {
  EXPECT_TRUE(AskRe2("[^a]", "").many_others);
  EXPECT_FALSE(AskRe2("[^a]", "").ascii['a']);
  EXPECT_TRUE(AskRe2("[[:^alpha:]]", "").many_others);
  EXPECT_TRUE(AskRe2("\\pL", "").many_others);
  EXPECT_TRUE(AskRe2(".", "").IsDot());
  EXPECT_TRUE(AskRe2(".", "s").IsDot());
  EXPECT_FALSE(AskRe2("[^a]", "").IsDot());
  EXPECT_FALSE(AskRe2("\\D", "").IsDot());
}

TEST(CharSetTest, AskRe2_WhatIsNoClass_IsEmpty) {
  EXPECT_TRUE(AskRe2("[b-a]", "").empty());
  EXPECT_TRUE(AskRe2("\\p{Nonsense}", "").empty());
}

TEST(CharSetTest, AppendUtf8_EachLength_IsUtf8) {
  std::string text;
  for (const uint32_t c : {0x41U, 0xe9U, 0x4e2dU, 0x1f600U}) AppendUtf8(c, &text);
  EXPECT_EQ(text, "A\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace pulse::filter
