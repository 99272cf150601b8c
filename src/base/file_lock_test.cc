// Locks on whole files: among open files of this process, and of others.
#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/file_calls.h"
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
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    char c;
    _exit(read(ends[0], &c, 1) == 0 ? 0 : 1);  // until the parent's end is closed
  }
  close(ends[0]);
  lock.reset();
  first.reset();
  const UniqueFd second = OpenScratch(path);
  EXPECT_NE(TryLockFile(second.get(), path.get()).value(), nullptr);
  close(ends[1]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
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
  // The system tells, of most file systems.
  const auto lock = TryLockFile(fd.get(), path.get()).value();
  ASSERT_NE(lock, nullptr);
  const std::string holder = NameLockHolder(fd.get());
  if (holder == "process 1234") GTEST_SKIP() << "this file system's locks are not told";
  EXPECT_TRUE(holder.starts_with("process " + std::to_string(getpid()))) << holder;
}

}  // namespace
}  // namespace pulse
