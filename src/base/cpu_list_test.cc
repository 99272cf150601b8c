#include "base/cpu_list.h"

#include <gtest/gtest.h>

namespace pulse {
namespace {

TEST(CpuListTest, Parse_SinglesRangesAndRepeats_GivesSortedUnique) {
  EXPECT_EQ(*ParseCpuList("1"), (std::vector<int>{1}));
  EXPECT_EQ(*ParseCpuList("3,0-2,1"), (std::vector<int>{0, 1, 2, 3}));
}

TEST(CpuListTest, Parse_BadList_IsRefusedAndNamesTheBadPart) {
  for (const char* bad : {"", "a", "1,,2", "2-1", "-1", "0-", "99999"}) {
    const auto r = ParseCpuList(bad);
    ASSERT_FALSE(r.ok()) << bad;
    EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_NE(ParseCpuList("0,x").status().message().find("\"x\""), absl::string_view::npos);
}

TEST(CpuListTest, ScopedAffinity_AtItsEnd_IsGivenBack) {
  const std::vector<int> before = MyCpus();
  if (before.size() < 2) GTEST_SKIP() << "one CPU";
  {
    const ScopedThreadAffinity on({before.back()});
    EXPECT_EQ(MyCpus(), std::vector<int>{before.back()});
    const ScopedThreadAffinity none({});
    EXPECT_EQ(MyCpus(), std::vector<int>{before.back()});
  }
  EXPECT_EQ(MyCpus(), before);
}

}  // namespace
}  // namespace pulse
