// Locks on whole files: among open files of this process, and of others.
#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/file_calls.h"
#include "base/test_forked_process.h"
#include "base/testing.h"

namespace pulse {
namespace {

UniqueFd OpenScratch(const testing_util::ScratchPath& path) {
  return OpenFile(path.get(), O_RDWR | O_CREAT, 0600);
}

TEST(FileLock, SecondOpenFile_IsRefusedUntilTheFirstGivesItBack) {
  const testing_util::ScratchPath path("file-lock");
  UniqueFd first = OpenScratch(path);
  const UniqueFd second = OpenScratch(path);
  auto lock = TryLockFile(first.get(), path.get()).value();
  ASSERT_NE(lock, nullptr);
  first.reset();  // it is held all the same
  EXPECT_EQ(TryLockFile(second.get(), path.get()).value(), nullptr);
  lock.reset();
  EXPECT_NE(TryLockFile(second.get(), path.get()).value(), nullptr);
}

TEST(FileLock, ForkedProcessHasTheFileOpen_IsGivenBack) {
  const testing_util::ScratchPath path("file-lock-fork");
  UniqueFd first = OpenScratch(path);
  auto lock = TryLockFile(first.get(), path.get()).value();
  ASSERT_NE(lock, nullptr);
  const testing_util::ForkedProcess other;
  lock.reset();
  first.reset();
  const UniqueFd second = OpenScratch(path);
  EXPECT_NE(TryLockFile(second.get(), path.get()).value(), nullptr);
}

TEST(FileLock, NoFile_IsAnErrorThatNamesIt) {
  const auto lock = TryLockFile(-1, "a-file");
  EXPECT_NE(testing_util::Text(lock.status()).find("locking a-file"), std::string::npos);
}

TEST(FileLock, HolderThatTheSystemDoesNotTell_IsWhoTheFileNames) {
  const testing_util::ScratchPath path("file-lock-holder");
  const UniqueFd fd = OpenScratch(path);
  EXPECT_EQ(NameLockHolder(fd.get()), "another process");
  ASSERT_TRUE(WriteAt(fd.get(), "PULSECOM", 0, path.get()).ok());
  EXPECT_EQ(NameLockHolder(fd.get()), "another process");
  ASSERT_EQ(ftruncate(fd.get(), 0), 0);
  ASSERT_TRUE(WriteAt(fd.get(), "1234", 0, path.get()).ok());
  EXPECT_EQ(NameLockHolder(fd.get()), "process 1234");
}

// In memory: of some file systems that lie over another one, the system does not tell.
TEST(FileLock, HolderThatTheSystemTells_IsNotWhoTheFileNames) {
  const UniqueFd fd(memfd_create("file-lock", MFD_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  ASSERT_TRUE(WriteAt(fd.get(), "1234", 0, "file-lock").ok());
  const auto lock = TryLockFile(fd.get(), "file-lock").value();
  ASSERT_NE(lock, nullptr);
  const std::string holder = NameLockHolder(fd.get());
  EXPECT_TRUE(holder.starts_with("process " + std::to_string(getpid()))) << holder;
}

}  // namespace
}  // namespace pulse
