#include "base/cpu_list.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "absl/strings/str_cat.h"

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

TEST(CpuListTest, CheckCpus_OneThatIsNotThere_IsNamedAndNothingStays) {
  const std::vector<int> before = MyCpus();
  ASSERT_FALSE(before.empty());
  EXPECT_TRUE(CheckCpus({}).ok());
  EXPECT_TRUE(CheckCpus(before).ok());
  const int last = CPU_SETSIZE - 1;
  ASSERT_LT(before.back(), last) << "expects a machine with fewer CPUs than a set has room for";
  const absl::Status none = CheckCpus({before.front(), last});
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument) << none;
  EXPECT_NE(none.message().find(absl::StrCat("CPU ", last)), absl::string_view::npos) << none;
  EXPECT_EQ(MyCpus(), before);
  // Whoever is restricted to some may name others.
  if (before.size() < 2) return;
  const ScopedThreadAffinity on({before.front()});
  EXPECT_TRUE(CheckCpus({before.back()}).ok());
  EXPECT_EQ(MyCpus(), std::vector<int>{before.front()});
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
