#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "apps/pulse/doctor/check.h"
#include "base/testing.h"

namespace pulse::doctor {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_util::ScratchPath;

class ProgramChecksTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(dir_.get()); }
  std::string Path(const std::string& name) const {
    return fs::absolute(fs::path(dir_.get()) / name).lexically_normal().string();
  }
  // A file of the name, with the directories before it.
  void Put(const std::string& name, const std::string& text, bool runs = false) {
    fs::create_directories(fs::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
    if (runs) fs::permissions(Path(name), fs::perms::owner_all);
  }
  void PutJava(const std::string& version) {
    Put("jdk/bin/java", "", true);
    Put("jdk/release", "IMPLEMENTOR=\"X\"\nJAVA_VERSION=\"" + version + "\"\n");
  }
  const ScratchPath dir_{"programs"};
};

TEST_F(ProgramChecksTest, Etcd_Libcurl_LoadsOrIsNamed) {
  const Check check = CheckEtcdClient();
  EXPECT_THAT(check.found, HasSubstr("libcurl"));
  EXPECT_EQ(check.remedy.empty(), check.verdict == Verdict::kOk);
}

TEST_F(ProgramChecksTest, Nbd_WithoutNbdkit_IsNoShortcoming) {
  Put("bin/other", "", true);
  const Check check = CheckNbd(Path("bin"), {Path("plugins")});
  EXPECT_EQ(check.verdict, Verdict::kOk);
  EXPECT_THAT(check.found, HasSubstr("not needed"));
}

TEST_F(ProgramChecksTest, Nbd_NbdkitWithoutThePlugin_IsWarnedOf) {
  Put("bin/nbdkit", "", true);
  const std::string path = "/nobody/has/this:" + Path("bin");
  const Check without = CheckNbd(path, {Path("plugins")});
  EXPECT_EQ(without.verdict, Verdict::kWarn);
  EXPECT_THAT(without.found, HasSubstr(Path("bin/nbdkit")));
  EXPECT_THAT(without.remedy, HasSubstr("nbdkit-plugin-dev"));
  Put("plugins/nbdkit-pulse-plugin.so", "");
  const Check with = CheckNbd(path, {"/nobody/has/this", Path("plugins")});
  EXPECT_EQ(with.verdict, Verdict::kOk);
  EXPECT_THAT(with.found, HasSubstr(Path("plugins/nbdkit-pulse-plugin.so")));
}

TEST_F(ProgramChecksTest, Java_NotInstalled_IsNoShortcoming) {
  const Checks checks = CheckJava(Path("bin"), "", "/tmp");
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].verdict, Verdict::kOk);
}

TEST_F(ProgramChecksTest, Java_ItsVersion_IsReadWithoutRunningIt) {
  PutJava("17.0.15");
  // As Debian has it: a link in PATH.
  fs::create_directories(Path("bin"));
  fs::create_symlink(Path("jdk/bin/java"), Path("bin/java"));
  Check check = CheckJava(Path("bin"), "", "/tmp")[0];
  EXPECT_EQ(check.verdict, Verdict::kOk);
  EXPECT_THAT(check.found, HasSubstr("version 17.0.15"));
  for (const char* old : {"1.8.0_402", "9.0.4"}) {
    PutJava(old);
    check = CheckJava("", Path("jdk"), "/tmp")[0];
    EXPECT_EQ(check.verdict, Verdict::kWarn) << old;
    EXPECT_THAT(check.remedy, HasSubstr("11 or newer"));
  }
  PutJava("new");
  EXPECT_EQ(CheckJava("", Path("jdk"), "/tmp")[0].verdict, Verdict::kWarn);
}

TEST_F(ProgramChecksTest, Java_WrongHome_IsNamed) {
  const Checks checks = CheckJava("/usr/bin", Path("no-jdk"), "/tmp");
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].verdict, Verdict::kWarn);
  EXPECT_THAT(checks[0].found, HasSubstr(Path("no-jdk")));
}

TEST_F(ProgramChecksTest, Java_TempThatCannotHoldLibraries_IsWarnedOf) {
  PutJava("21");
  fs::create_directories(Path("temp"));
  EXPECT_EQ(CheckJava("", Path("jdk"), Path("temp"))[1].verdict, Verdict::kOk);
  const auto looks_bad = [](const Check& check) {
    EXPECT_EQ(check.verdict, Verdict::kWarn);
    EXPECT_THAT(check.remedy, HasSubstr("-Dpulsedb.library.path"));
  };
  Check check = CheckJava("", Path("jdk"), Path("nothing"))[1];
  looks_bad(check);
  EXPECT_THAT(check.found, HasSubstr(Path("nothing")));
  const StatVfs noexec = [](const char*, struct statvfs* result) {
    *result = {};
    result->f_flag = ST_NOEXEC;
    return 0;
  };
  check = CheckJava("", Path("jdk"), Path("temp"), noexec)[1];
  looks_bad(check);
  EXPECT_THAT(check.found, HasSubstr("mounted noexec"));
}

TEST_F(ProgramChecksTest, EachProgram_IsChecked) {
  for (const Check& check : CheckPrograms()) {
    EXPECT_FALSE(check.found.empty()) << check.name;
    EXPECT_EQ(check.remedy.empty(), check.verdict == Verdict::kOk) << check.name;
    EXPECT_NE(check.verdict, Verdict::kFail) << check.name;
  }
}

}  // namespace
}  // namespace pulse::doctor
