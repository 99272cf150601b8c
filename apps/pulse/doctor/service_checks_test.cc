#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/pulse/doctor/check.h"

namespace pulse::doctor {
namespace {

using ::testing::HasSubstr;

TEST(ServiceChecksTest, MemoryFile_NoTmpfs_IsWarnedOfWithARemedy) {
  const Check check = CheckMemoryFiles("/proc");
  EXPECT_EQ(check.verdict, Verdict::kWarn);
  EXPECT_THAT(check.found, HasSubstr("/proc is no tmpfs"));
  EXPECT_THAT(check.remedy, HasSubstr("mount a tmpfs"));
}

TEST(ServiceChecksTest, MemoryFile_NoSuchDirectory_IsWarnedOf) {
  const Check check = CheckMemoryFiles("/nobody/has/this");
  EXPECT_EQ(check.verdict, Verdict::kWarn);
  EXPECT_THAT(check.found, HasSubstr("/nobody/has/this: No such file"));
}

TEST(ServiceChecksTest, EachService_IsChecked) {
  std::string names;
  for (const Check& check : CheckServices()) {
    names += check.name + ";";
    EXPECT_FALSE(check.found.empty()) << check.name;
    EXPECT_EQ(check.remedy.empty(), check.verdict == Verdict::kOk) << check.name;
    EXPECT_NE(check.verdict, Verdict::kFail) << check.name;
  }
  EXPECT_EQ(names,
            "kv: memory file;kv: datagrams;serve, kv: connections;filter: engine;compress: DPDK;");
}

}  // namespace
}  // namespace pulse::doctor
