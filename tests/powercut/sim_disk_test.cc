// The simulated disk keeps what it must, loses what it may, and sees every call.
#include "powercut/sim_disk.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "powercut/crash_image.h"
#include "powercut/cutter.h"

namespace pulse::powercut {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;

class SimDiskTest : public ::testing::Test {
 protected:
  void SetUp() override { SimDisk::Get().Start(root_, {}); }
  void TearDown() override {
    SimDisk::Get().Stop();
    std::filesystem::remove_all(root_);
    std::filesystem::remove_all(scratch_);
  }

  int Create(const std::string& name) {
    return open((root_ + "/" + name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  }
  static void Put(int fd, const std::string& data) {
    ASSERT_EQ(write(fd, data.data(), data.size()), static_cast<ssize_t>(data.size()));
  }
  void SyncDir(const std::string& name = "") {
    const int fd = open((root_ + "/" + name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(fsync(fd), 0);
    close(fd);
  }

  // What file `name` is in many images of the whole log ("-": it is not there).
  std::set<std::string> Outcomes(const std::string& name, int images = 300) {
    const OpLog log = SimDisk::Get().Stop();
    CrashImage image(&log, scratch_ + "/cache");
    std::set<std::string> found;
    for (int i = 0; i < images; ++i) {
      const std::string out = scratch_ + "/image";
      std::filesystem::remove_all(out);
      image.Build(log.size(), i, "", out);
      std::ifstream in(out + "/" + name, std::ios::binary);
      found.insert(in ? std::string(std::istreambuf_iterator<char>(in), {}) : "-");
    }
    SimDisk::Get().Start(root_, {});
    return found;
  }

  const std::string root_ = FastScratchDir("disk");
  const std::string scratch_ = FastScratchDir("images");
};

TEST_F(SimDiskTest, SyncedDataAndNames_AfterACut_Stay) {
  const int fd = Create("a");
  Put(fd, "hello");
  ASSERT_EQ(fdatasync(fd), 0);
  close(fd);
  SyncDir();
  EXPECT_THAT(Outcomes("a"), ElementsAre("hello"));
}

TEST_F(SimDiskTest, Name_DirectoryNotSynced_MayBeLost) {
  const int fd = Create("a");
  Put(fd, "hello");
  ASSERT_EQ(fsync(fd), 0);
  close(fd);
  EXPECT_THAT(Outcomes("a"), ElementsAre("-", "hello"));
}

TEST_F(SimDiskTest, Data_AfterASync_MayBeLostOrTorn) {
  const int fd = Create("a");
  SyncDir();
  Put(fd, std::string(1024, 'a'));
  ASSERT_EQ(fsync(fd), 0);
  Put(fd, std::string(1024, 'b'));
  ASSERT_EQ(pwrite(fd, std::string(512, 'c').data(), 512, 0), 512);
  close(fd);
  const auto found = Outcomes("a");
  const std::string a(512, 'a'), b(512, 'b'), c(512, 'c'), zero(512, '\0');
  EXPECT_THAT(found, IsSupersetOf({a + a, c + a, a + a + b + b, c + a + b + b, c + a + zero + b}));
  for (const std::string& f : found) EXPECT_EQ(f.substr(512, 512), a);
  EXPECT_THAT(found, Not(Contains("-")));
}

// RocksDB reads on behind zeros at the end of a log's block, as if nothing had been there.
TEST_F(SimDiskTest, Log_AfterACut_HasNoGapThatPassesForPadding) {
  constexpr size_t kBlock = 32 << 10;
  const int fd = Create("000001.log");
  SyncDir();
  for (int i = 0; i < 20; ++i) Put(fd, std::string(4096, 'a'));
  close(fd);
  bool some_in_second = false;
  for (const std::string& f : Outcomes("000001.log", 2000)) {
    if (f.size() <= kBlock) continue;
    if (f[kBlock - 1] == '\0') {
      EXPECT_EQ(f.find('a', kBlock), std::string::npos);
    }
    some_in_second |= f.find('a', kBlock) != std::string::npos;
  }
  EXPECT_TRUE(some_in_second);
}

TEST_F(SimDiskTest, Write_DuringASync_IsNotCoveredByIt) {
  const int fd = Create("a");
  SyncDir();
  const SimDisk::SyncTicket ticket = SimDisk::Get().BeginSync(fd);
  Put(fd, "late");
  SimDisk::Get().EndSync(ticket);
  close(fd);
  EXPECT_THAT(Outcomes("a"), IsSupersetOf({"", "late"}));
}

TEST_F(SimDiskTest, Rename_DirectoryNotSynced_LeavesTheOldOrTheNew) {
  for (const char* name : {"CURRENT", "tmp"}) {
    const int fd = Create(name);
    Put(fd, name);
    ASSERT_EQ(fsync(fd), 0);
    close(fd);
  }
  SyncDir();
  ASSERT_EQ(rename((root_ + "/tmp").c_str(), (root_ + "/CURRENT").c_str()), 0);
  EXPECT_THAT(Outcomes("CURRENT"), ElementsAre("CURRENT", "tmp"));
}

TEST_F(SimDiskTest, Names_OfOneDirectory_SurviveInOrder) {
  for (const char* name : {"a", "b", "c"}) close(Create(name));
  ASSERT_EQ(unlink((root_ + "/a").c_str()), 0);
  const OpLog log = SimDisk::Get().Stop();
  CrashImage image(&log, scratch_ + "/cache");
  std::set<std::string> found;
  for (int i = 0; i < 200; ++i) {
    const std::string out = scratch_ + "/image";
    std::filesystem::remove_all(out);
    image.Build(log.size(), i, "", out);
    std::string names;
    for (const char* n : {"a", "b", "c"}) {
      if (std::filesystem::exists(out + "/" + n)) names += n;
    }
    found.insert(names);
  }
  EXPECT_THAT(found, ElementsAre("", "a", "ab", "abc", "bc"));
}

TEST_F(SimDiskTest, Size_NotSynced_IsOneTheFileHad) {
  const int fd = Create("a");
  SyncDir();
  ASSERT_EQ(fallocate(fd, 0, 0, 4096), 0);
  Put(fd, "data");
  ASSERT_EQ(ftruncate(fd, 4), 0);
  std::set<size_t> sizes;
  for (const std::string& f : Outcomes("a")) sizes.insert(f.size());
  EXPECT_THAT(sizes, ElementsAre(0, 4, 4096));
  close(fd);
}

TEST_F(SimDiskTest, Manifest_NotSynced_LosesOnlyItsEnd) {
  const int fd = Create("MANIFEST-000001");
  SyncDir();
  std::string whole;
  for (char c = 'a'; c < 'f'; ++c) {
    whole += std::string(700, c);
    Put(fd, std::string(700, c));
  }
  close(fd);
  const auto found = Outcomes("MANIFEST-000001");
  EXPECT_GT(found.size(), 8u);
  for (const std::string& f : found) EXPECT_EQ(f, whole.substr(0, f.size()));
}

TEST_F(SimDiskTest, Descriptor_DuplicatedOrStreamed_IsTheSameFile) {
  const int fd = Create("a");
  SyncDir();
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  close(fd);
  Put(copy, "through a copy");
  ASSERT_EQ(fdatasync(copy), 0);
  FILE* const stream = fdopen(copy, "r");
  fclose(stream);
  // Another file that gets the same number is not taken for it.
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int reused = null == copy ? copy : fcntl(null, F_DUPFD_CLOEXEC, copy);
  ASSERT_EQ(reused, copy);
  Put(reused, "elsewhere");
  if (null != reused) close(null);
  close(reused);
  EXPECT_THAT(Outcomes("a"), ElementsAre("through a copy"));
}

TEST_F(SimDiskTest, LyingSync_OfATable_MakesNothingDurable) {
  SimDisk::Get().Stop();
  SimDiskOptions options;
  options.lie[static_cast<int>(FileClass::kTable)] = true;
  SimDisk::Get().Start(root_, options);
  const int fd = Create("1.sst");
  SyncDir();
  Put(fd, "table");
  ASSERT_EQ(fsync(fd), 0);
  close(fd);
  EXPECT_THAT(Outcomes("1.sst"), Contains(""));
}

TEST_F(SimDiskTest, Fault_AtTheNthCallOfAKind_StrikesThere) {
  const int table = Create("1.sst");
  const int other = Create("2");
  SimDisk::Get().SetFault({{Call::kWrite, FileClass::kTable, 2}, Effect::kError, ENOSPC, 1});
  EXPECT_EQ(write(table, "a", 1), 1);
  EXPECT_EQ(write(other, "a", 1), 1);
  EXPECT_EQ(write(table, "b", 1), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(write(table, "c", 1), 1);
  EXPECT_EQ(SimDisk::Get().fault_hits(), 1);
  EXPECT_THAT(SimDisk::Get().fault_files(), ElementsAre("1.sst"));
  SimDisk::Get().SetFault({{Call::kWrite, FileClass::kTable, 1}, Effect::kShort, 0, 2});
  const std::string page(4096, 'x');
  EXPECT_EQ(write(table, page.data(), page.size()), 2048);
  EXPECT_EQ(write(table, page.data(), page.size()), 2048);
  EXPECT_EQ(write(table, page.data(), page.size()), 4096);
  EXPECT_EQ(SimDisk::Get().counts().at(Call::kWrite, FileClass::kTable), 3);
  close(table);
  close(other);
}

}  // namespace
}  // namespace pulse::powercut
