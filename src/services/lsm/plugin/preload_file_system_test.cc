// The FileSystem of the default Env in a process with PULSE_URI: which paths it takes to pulse://,
// and what becomes of them where that cannot be had, and after a fork.
#include "services/lsm/plugin/preload_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "pulse/rocksdb.h"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RoutedTest : public ::testing::Test {
 protected:
  RoutedTest() {
    std::filesystem::create_directories(in_);
    std::filesystem::create_directories(out_);
  }

  std::shared_ptr<RoutedFileSystem> Make(const std::string& uri, const std::string& list) const {
    return RoutedFileSystem::Create(uri, PathMatch::Parse(list), FileSystem::Default());
  }
  // Everything.
  static std::shared_ptr<RoutedFileSystem> MakeForAll(const std::string& uri) {
    return RoutedFileSystem::Create(uri, PathMatch(), FileSystem::Default());
  }

  static IOStatus WriteFile(FileSystem* fs, const std::string& path, const std::string& text) {
    std::unique_ptr<FSWritableFile> file;
    IOStatus s = fs->NewWritableFile(path, FileOptions(), &file, nullptr);
    if (s.ok()) s = file->Append(text, kIo, nullptr);
    if (s.ok()) s = file->Close(kIo, nullptr);
    return s;
  }

  // An output of a compaction, written by the agent, and the barrier behind it.
  void WriteOutput(FileSystem* fs, const std::string& path) {
    auto file = CreateOutput(fs, path);
    ASSERT_NE(file, nullptr);
    ASSERT_TRUE(file->Append(bytes_, kIo, nullptr).ok());
    ASSERT_TRUE(file->Close(kIo, nullptr).ok());
    SyncDirectory(fs, std::filesystem::path(path).parent_path().string());
  }

  // Runs `body` in a child; true when it returned true there.
  static bool InChild(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  std::mt19937_64 rng_{TestSeed()};
  const std::string bytes_ = RandomBytes(&rng_, 100'000);
  ScratchDir dir_;
  const std::string in_ = std::filesystem::absolute(dir_ / "in").string();
  const std::string out_ = std::filesystem::absolute(dir_ / "out").string();
};

TEST_F(RoutedTest, MatchingDatabase_IsOnPulseDb) {
  const auto fs = Make("pulse://", in_);
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(fs);
  TestDb db(SmallDbOptions(env.get()), in_ + "/db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng_, 5000, 100).ok());
  ASSERT_TRUE(db.CompactAll().ok());
  EXPECT_EQ(db.Difference(), "");
  EXPECT_GT(StatsOf(fs.get()).files_persisted, 0u);
  db.Close();
  EXPECT_EQ(DifferenceOnStock(db.path(), db.model()), "");
}

TEST_F(RoutedTest, OtherDatabase_NeedsNoAgent) {
  const auto fs = Make("pulse:///nobody/listens.sock", in_);
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(fs);
  TestDb db(SmallDbOptions(env.get()), out_ + "/db");
  ASSERT_TRUE(db.Open().ok());
  ASSERT_TRUE(db.Fill(&rng_, 5000, 100).ok());
  ASSERT_TRUE(db.CompactAll().ok());
  EXPECT_EQ(db.Difference(), "");
}

TEST_F(RoutedTest, AgentThatIsAway_FailsWithTheReason) {
  const auto fs = MakeForAll("pulse:///nobody/listens.sock");
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(fs);
  TestDb db(SmallDbOptions(env.get()), in_ + "/db");
  const rocksdb::Status s = db.Open();
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(s.ToString(), HasSubstr("PULSE_URI"));
  EXPECT_THAT(s.ToString(), HasSubstr("/nobody/listens.sock"));
  EXPECT_FALSE(std::filesystem::exists(in_ + "/db/CURRENT"));
  // A missing socket must not read as a missing file.
  const IOStatus exists = fs->FileExists(in_ + "/CURRENT", kIo, nullptr);
  EXPECT_FALSE(exists.IsNotFound() || exists.IsPathNotFound()) << exists.ToString();
}

TEST_F(RoutedTest, BadUriOrList_FailsEveryUse) {
  for (const char* uri : {"pulse://?synk=barrier", "pulse:/x", "posix://", "nonsense"}) {
    const IOStatus s = WriteFile(MakeForAll(uri).get(), in_ + "/x", "text");
    EXPECT_FALSE(s.ok()) << uri;
    EXPECT_THAT(s.ToString(), HasSubstr("PULSE_URI")) << uri;
  }
  EXPECT_THAT(WriteFile(MakeForAll("pulse://?synk=barrier").get(), in_ + "/x", "text").ToString(),
              HasSubstr("synk"));
  const auto fs = Make("pulse://", "relative/db");
  EXPECT_TRUE(fs->Matches(out_));
  EXPECT_THAT(WriteFile(fs.get(), out_ + "/x", "text").ToString(), HasSubstr("relative/db"));
}

TEST_F(RoutedTest, AgentThatComesLater_IsFound) {
  AgentProcess agent;
  agent.Kill();
  std::filesystem::remove(agent.socket());
  const auto fs = MakeForAll(absl::StrCat("pulse://", agent.socket()));
  EXPECT_FALSE(WriteFile(fs.get(), in_ + "/x", "text").ok());
  agent.Start();
  EXPECT_TRUE(Eventually([&] { return WriteFile(fs.get(), in_ + "/x", "text").ok(); }));
}

TEST_F(RoutedTest, RenameAndLinkAcrossTheList_WorkInFiles) {
  const auto fs = Make("pulse://", in_);
  ASSERT_TRUE(WriteFile(fs.get(), in_ + "/a", "text").ok());
  EXPECT_TRUE(fs->LinkFile(in_ + "/a", out_ + "/b", kIo, nullptr).ok());
  EXPECT_TRUE(fs->RenameFile(out_ + "/b", in_ + "/c", kIo, nullptr).ok());
  EXPECT_EQ(ReadRaw(in_ + "/c"), "text");
}

TEST_F(RoutedTest, RenameAndLinkOutOfAPool_AreRefused) {
  CreatePool(dir_ / "pool", uint64_t{64} << 20);
  const auto fs = Make(absl::StrCat("pulse://?layout=pool&pool=", dir_ / "pool"), in_);
  WriteOutput(fs.get(), in_ + "/000012.sst");
  // As a file system without links says it, after which RocksDB copies.
  EXPECT_TRUE(fs->LinkFile(in_ + "/000012.sst", out_ + "/a.sst", kIo, nullptr).IsNotSupported());
  EXPECT_TRUE(fs->RenameFile(in_ + "/000012.sst", out_ + "/a.sst", kIo, nullptr).IsNotSupported());
  EXPECT_TRUE(fs->FileExists(in_ + "/000012.sst", kIo, nullptr).ok());
}

TEST_F(RoutedTest, Lock_IsGivenBackWhereItWasTaken) {
  const auto fs = Make("pulse://", in_);
  for (const std::string& path : {in_ + "/LOCK", out_ + "/LOCK"}) {
    for (int i = 0; i < 2; ++i) {
      FileLock* lock = nullptr;
      ASSERT_TRUE(fs->LockFile(path, kIo, &lock, nullptr).ok());
      FileLock* second = nullptr;
      EXPECT_FALSE(fs->LockFile(path, kIo, &second, nullptr).ok());
      ASSERT_TRUE(fs->UnlockFile(lock, kIo, nullptr).ok());
    }
  }
}

TEST_F(RoutedTest, ForkBeforeTheFirstUse_HasAnAgentOfItsOwn) {
  if (testing_util::kThreadSanitizer) {
    GTEST_SKIP() << "ThreadSanitizer ends a forked process that starts threads";
  }
  const auto fs = MakeForAll("pulse://");
  EXPECT_TRUE(InChild([&] {
    WriteOutput(fs.get(), in_ + "/000001.sst");
    return !HasFailure() && StatsOf(fs.get()).files_persisted == 1;
  }));
  EXPECT_EQ(ReadRaw(in_ + "/000001.sst"), bytes_);
}

TEST_F(RoutedTest, ForkAfterTheFirstUse_LeavesBothWorking) {
  if (testing_util::kThreadSanitizer) {
    GTEST_SKIP() << "ThreadSanitizer ends a forked process that starts threads";
  }
  if (testing_util::kAddressSanitizer) {
    GTEST_SKIP() << "AddressSanitizer's locks stay held in a child where a thread was in its "
                    "allocator";
  }
  for (const std::string kind : {"embedded", "external"}) {
    AgentProcess agent;
    const auto fs =
        MakeForAll(kind == "embedded" ? "pulse://" : absl::StrCat("pulse://", agent.socket()));
    WriteOutput(fs.get(), in_ + "/000001.sst");
    // Also while a thread is inside.
    std::thread busy([&] {
      for (int i = 0; i < 200; ++i) fs->Pulse().status().IgnoreError();
    });
    EXPECT_TRUE(InChild([&] {
      WriteOutput(fs.get(), in_ + "/000002.sst");
      // The parent's are not counted.
      return !HasFailure() && StatsOf(fs.get()).files_persisted == 1;
    })) << kind;
    busy.join();
    WriteOutput(fs.get(), in_ + "/000003.sst");
    EXPECT_EQ(StatsOf(fs.get()).files_persisted, 2u) << kind;
    for (const char* name : {"/000001.sst", "/000002.sst", "/000003.sst"}) {
      EXPECT_EQ(ReadRaw(in_ + name), bytes_) << kind << name;
      std::filesystem::remove(in_ + name);
    }
  }
}

TEST_F(RoutedTest, ForkWithAPoolOpen_IsRefusedInTheChild) {
  CreatePool(dir_ / "pool", uint64_t{64} << 20);
  const auto fs = MakeForAll(absl::StrCat("pulse://?layout=pool&pool=", dir_ / "pool"));
  WriteOutput(fs.get(), in_ + "/000012.sst");
  EXPECT_TRUE(InChild([&] {
    std::string said = fs->FileExists(in_ + "/000012.sst", kIo, nullptr).ToString();
    bool grandchild = InChild([&] { return !fs->FileExists(in_, kIo, nullptr).ok(); });
    return said.find("pool open") != std::string::npos && grandchild;
  }));
  WriteOutput(fs.get(), in_ + "/000013.sst");
}

}  // namespace
}  // namespace pulse::lsm::test
