#include "bench/macro/workload.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace pulse::bench {
namespace {

std::string_view View(const Key& key) { return {key.data(), key.size()}; }

TEST(WorkloadTest, EncodeKey_AnyNumber_KeepsOrderAndDecodes) {
  const std::vector<uint64_t> numbers = {0, 1, 255, 256, 65535, uint64_t{1} << 40, UINT64_MAX};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Key key = EncodeKey(numbers[i]);
    EXPECT_EQ(DecodeKey(View(key)), numbers[i]);
    if (i > 0) {
      const Key before = EncodeKey(numbers[i - 1]);
      EXPECT_LT(View(before), View(key));
    }
  }
}

TEST(WorkloadTest, KeyStream_UniqueOrder_VisitsEachNumberOnce) {
  for (const uint64_t num : {1, 2, 3, 7, 64, 1000, 4097}) {
    KeyStream keys(KeyOrder::kUnique, num, 42);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < num; ++i) seen.insert(keys.Next());
    EXPECT_EQ(seen.size(), num);
    EXPECT_LT(*seen.rbegin(), num);
  }
}

TEST(WorkloadTest, KeyStream_RandomOrder_StaysInRangeAndFollowsTheSeed) {
  KeyStream a(KeyOrder::kRandom, 1000, 1);
  KeyStream b(KeyOrder::kRandom, 1000, 1);
  KeyStream c(KeyOrder::kRandom, 1000, 2);
  std::set<uint64_t> seen;
  int differing = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t number = a.Next();
    EXPECT_LT(number, 1000u);
    EXPECT_EQ(number, b.Next());
    differing += number != c.Next() ? 1 : 0;
    seen.insert(number);
  }
  EXPECT_GT(differing, 900);
  // Drawn with repeats: about 1 - 1/e of all numbers turn up.
  EXPECT_GT(seen.size(), 560u);
  EXPECT_LT(seen.size(), 700u);
}

TEST(WorkloadTest, Values_OtherKeyOrDamaged_DoNotMatch) {
  ValueMaker values(100, 5);
  const std::string value(values.Make(17, 3));
  EXPECT_EQ(value.size(), 100u);
  EXPECT_TRUE(values.Matches(17, value));
  EXPECT_TRUE(values.Matches(17, values.Make(17, 4)));
  EXPECT_NE(value, values.Make(17, 4));
  EXPECT_FALSE(values.Matches(18, value));
  EXPECT_FALSE(values.Matches(17, value.substr(1)));
  std::string damaged = value;
  damaged.back() ^= 1;
  EXPECT_FALSE(values.Matches(17, damaged));
}

TEST(WorkloadTest, TextValues_FollowTheSeedAndAreText) {
  ValueMaker values(1000, 5, /*text=*/true), same(1000, 5, true), other(1000, 6, true);
  const std::string value(values.Make(17, 3));
  EXPECT_EQ(value, same.Make(17, 3));
  EXPECT_NE(value, other.Make(17, 3));
  EXPECT_TRUE(values.Matches(17, value));
  EXPECT_FALSE(values.Matches(18, value));
  EXPECT_NE(value.find("\"level\":\""), std::string::npos);
  for (const char c : value.substr(kKeyBytes)) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
}

TEST(WorkloadTest, Checksum_OtherOrderBoundariesOrBits_Differs) {
  const auto sum = [](const std::vector<std::string>& parts) {
    Checksum c;
    for (const std::string& part : parts) c.Add(part);
    return c.value();
  };
  EXPECT_EQ(sum({"abc", "defghijklm"}), sum({"abc", "defghijklm"}));
  EXPECT_NE(sum({"abc", "def"}), sum({"def", "abc"}));
  EXPECT_NE(sum({"abc", "def"}), sum({"abcd", "ef"}));
  EXPECT_NE(sum({"abcdefgh", ""}), sum({"abcdefgh"}));
  EXPECT_NE(sum({"abcdefghi"}), sum({"abcdefghj"}));
}

}  // namespace
}  // namespace pulse::bench
