#include "apps/pulse/util/codec_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file_calls.h"
#include "base/testing.h"

namespace {

// What the file system of a test says to fchmod and futimens; 0: what it says.
int refusal = 0;

// What was synced, and whether the file at `watched` was there.
struct Synced {
  ino_t inode;
  bool watched_is_there;
};
std::atomic<bool> watches{false};
std::vector<Synced> synced;
std::string watched;

}  // namespace

// In place of the C library's.
extern "C" int fchmod(int fd, mode_t mode) noexcept {
  if (refusal == 0) return static_cast<int>(syscall(SYS_fchmod, fd, mode));
  errno = refusal;
  return -1;
}
extern "C" int futimens(int fd, const timespec times[2]) noexcept {
  if (refusal == 0) return static_cast<int>(syscall(SYS_utimensat, fd, nullptr, times, 0));
  errno = refusal;
  return -1;
}
extern "C" int fsync(int fd) {
  struct stat info {};
  if (watches && fstat(fd, &info) == 0) {
    synced.push_back({info.st_ino, access(watched.c_str(), F_OK) == 0});
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace pulse {
namespace {

using testing::HasSubstr;
using testing_util::ScratchPath;

void Write(const std::string& path, const std::string& text, int flags = O_TRUNC) {
  const UniqueFd file = OpenFile(path, O_WRONLY | O_CREAT | flags);
  ASSERT_TRUE(file.valid());
  ASSERT_TRUE(WriteAll(file.get(), text, "writing", path).ok());
}

class CodecFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    Write(file_, "what is read");
    // Older than any clock tick, so that each change shows.
    const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  }
  void TearDown() override {
    refusal = 0;
    watches = false;
    synced.clear();
    unlink(packed_.c_str());
    unlink(other_.c_str());
  }
  CodecFiles Open(FileChoices choices = {}) {
    return CodecFiles::ForCompression(choices, file_, ".gz").value();
  }
  bool IsThere(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

  const ScratchPath scratch_{"codec-files"};
  const std::string file_ = scratch_.get();
  const std::string packed_ = file_ + ".gz";
  const std::string other_ = file_ + ".other";
};

TEST_F(CodecFilesTest, Commit_OfWhatNobodyTouched_RemovesTheInput) {
  CodecFiles files = Open();
  EXPECT_EQ(files.Commit().value(), "");
  EXPECT_FALSE(IsThere(file_));
  EXPECT_TRUE(IsThere(packed_));
}

// Where the file system has files without names; else one that is gone behind Commit.
TEST_F(CodecFilesTest, BeforeCommit_NothingOfTheOutputIsInItsFolder) {
  const std::string folder = std::filesystem::path(file_).parent_path();
  const auto unfinished = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with(".pulse-")) ++count;
    }
    return count;
  };
  const bool has_name = !OpenFile(folder, O_TMPFILE | O_RDWR, 0600).valid();
  const int before = unfinished();
  CodecFiles files = Open();
  ASSERT_TRUE(WriteAll(files.out(), "packed", "writing", packed_).ok());
  EXPECT_EQ(unfinished(), before + (has_name ? 1 : 0));
  EXPECT_FALSE(IsThere(packed_));
  EXPECT_EQ(files.Commit().value(), "");
  EXPECT_TRUE(IsThere(packed_));
  EXPECT_EQ(unfinished(), before);
}

TEST_F(CodecFilesTest, Commit_OfAFileThatGrew_KeepsIt) {
  CodecFiles files = Open();
  Write(file_, " and what came later", O_APPEND);
  const std::string said = files.Commit().value();
  EXPECT_THAT(said, HasSubstr(file_ + " was changed while it was read, and is not removed"));
  EXPECT_THAT(said, HasSubstr(packed_ + " has what was read"));
  EXPECT_TRUE(IsThere(file_));
  EXPECT_TRUE(IsThere(packed_));
}

TEST_F(CodecFilesTest, Commit_OfAFileWrittenInPlace_KeepsIt) {
  CodecFiles files = Open();
  Write(file_, "WHAT", 0);
  EXPECT_THAT(files.Commit().value(), HasSubstr("was changed while it was read"));
  EXPECT_TRUE(IsThere(file_));
}

TEST_F(CodecFilesTest, Commit_OfAFileWrittenInPlaceWithItsTimesSetBack_KeepsIt) {
  CodecFiles files = Open();
  Write(file_, "WHAT", 0);
  const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  EXPECT_THAT(files.Commit().value(), HasSubstr("was changed while it was read"));
  EXPECT_TRUE(IsThere(file_));
}

TEST_F(CodecFilesTest, Commit_OfAFileWrittenJustBeforeAndAfterItWasOpened_KeepsIt) {
  // Many times, since a tick of the clock may end in between.
  for (int i = 0; i < 20; ++i) {
    Write(file_, "what is read");
    CodecFiles files = Open();
    // Where a tick's changes all have one time, the last one's has to be over.
    struct stat info {};
    ASSERT_EQ(stat(file_.c_str(), &info), 0);
    EXPECT_GE(absl::Now(), absl::TimeFromTimespec(info.st_ctim) + absl::Milliseconds(20));
    Write(file_, "WHAT", 0);
    EXPECT_THAT(files.Commit().value(), HasSubstr("was changed while it was read"));
    ASSERT_TRUE(IsThere(file_));
    unlink(packed_.c_str());
  }
}

TEST_F(CodecFilesTest, Commit_OfAFileWrittenJustBefore_RemovesTheInput) {
  Write(file_, "another text");
  EXPECT_EQ(Open().Commit().value(), "");
  EXPECT_FALSE(IsThere(file_));
}

TEST_F(CodecFilesTest, Commit_OfAFileThatWasReplaced_KeepsTheNewOne) {
  CodecFiles files = Open();
  Write(other_, "another file");
  ASSERT_EQ(rename(other_.c_str(), file_.c_str()), 0);
  EXPECT_THAT(files.Commit().value(), HasSubstr(file_ + " was renamed or replaced"));
  EXPECT_TRUE(IsThere(file_));
}

TEST_F(CodecFilesTest, Commit_OfAFileThatWasRenamed_KeepsIt) {
  CodecFiles files = Open();
  ASSERT_EQ(rename(file_.c_str(), other_.c_str()), 0);
  EXPECT_THAT(files.Commit().value(), HasSubstr("was renamed or replaced"));
  EXPECT_TRUE(IsThere(other_));
}

TEST_F(CodecFilesTest, Commit_WhereModeAndTimesCannotBeSet_SaysSoAndKeepsTheOutput) {
  for (const int why : {EPERM, ENOTSUP, ENOSYS}) {
    Write(file_, "what is read");
    CodecFiles files = Open();
    refusal = why;
    const auto said = files.Commit();
    refusal = 0;
    ASSERT_TRUE(said.ok()) << said.status();
    EXPECT_THAT(*said, HasSubstr("setting the mode of " + packed_));
    EXPECT_THAT(*said, HasSubstr("setting the times of " + packed_));
    EXPECT_FALSE(IsThere(file_));
    struct stat info {};
    ASSERT_EQ(stat(packed_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U) << "nobody else gets it";
    unlink(packed_.c_str());
  }
  Write(file_, "what is read");
  CodecFiles files = Open();
  refusal = EIO;
  EXPECT_FALSE(files.Commit().ok());
  EXPECT_TRUE(IsThere(file_));
  EXPECT_FALSE(IsThere(packed_));
}

TEST_F(CodecFilesTest, Commit_BeforeTheInputIsRemoved_SyncsTheOutputAndItsFolder) {
  CodecFiles files = Open();
  watched = file_;
  watches = true;
  EXPECT_EQ(files.Commit().value(), "");
  struct stat packed {};
  struct stat folder {};
  ASSERT_EQ(stat(packed_.c_str(), &packed), 0);
  ASSERT_EQ(stat(std::filesystem::path(file_).parent_path().c_str(), &folder), 0);
  ASSERT_EQ(synced.size(), 2U);
  EXPECT_EQ(synced[0].inode, packed.st_ino);
  EXPECT_EQ(synced[1].inode, folder.st_ino);
  EXPECT_TRUE(synced[0].watched_is_there && synced[1].watched_is_there);
  EXPECT_FALSE(IsThere(file_));
}

TEST_F(CodecFilesTest, Commit_WhereTheInputStays_SyncsNothing) {
  FileChoices choices;
  choices.keep = true;
  CodecFiles files = Open(choices);
  watches = true;
  EXPECT_EQ(files.Commit().value(), "");
  EXPECT_TRUE(synced.empty());
}

TEST_F(CodecFilesTest, Commit_WithKeep_SaysNothingOfChanges) {
  FileChoices choices;
  choices.keep = true;
  CodecFiles files = Open(choices);
  Write(file_, "more", O_APPEND);
  EXPECT_EQ(files.Commit().value(), "");
  EXPECT_TRUE(IsThere(file_));
}

}  // namespace
}  // namespace pulse
