#include "base/file_calls.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/testing.h"

namespace pulse {
namespace {

class FileCallsTest : public ::testing::Test {
 protected:
  FileCallsTest() { std::filesystem::create_directory(dir_.get()); }
  ~FileCallsTest() override { std::filesystem::remove_all(dir_.get()); }

  static std::string Contents(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static absl::Status Nothing(int /*fd*/) { return absl::OkStatus(); }

  testing_util::ScratchPath dir_{"file_calls"};
  const std::string path_ = dir_.get() + "/file";
  const std::string fresh_ = dir_.get() + "/file.new";
};

TEST_F(FileCallsTest, ReplaceFile_LeftoverOfACrash_IsNoObstacle) {
  std::ofstream(path_) << "old";
  std::ofstream(fresh_) << "half of a longer text";
  ASSERT_EQ(chmod(fresh_.c_str(), 0777), 0);
  ASSERT_EQ(ReplaceFile(path_, fresh_, 0600, "new", Nothing), absl::OkStatus());
  EXPECT_EQ(Contents(path_), "new");
  EXPECT_FALSE(std::filesystem::exists(fresh_));
  struct stat st;
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(FileCallsTest, ReplaceFile_NotPrepared_LeavesWhatThereWas) {
  std::ofstream(path_) << "old";
  const absl::Status refused = ReplaceFile(path_, fresh_, 0600, "new", [](int) {
    return absl::PermissionDeniedError("not this user's");
  });
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(Contents(path_), "old");
  EXPECT_FALSE(std::filesystem::exists(fresh_));
}

TEST_F(FileCallsTest, ReplaceFile_NameIsADirectory_SaysSoAndCleansUp) {
  std::filesystem::create_directory(path_);
  std::ofstream(path_ + "/inside") << "x";
  const absl::Status st = ReplaceFile(path_, fresh_, 0600, "new", Nothing);
  EXPECT_FALSE(st.ok());
  EXPECT_NE(st.message().find(path_), absl::string_view::npos) << st;
  EXPECT_FALSE(std::filesystem::exists(fresh_));
}

TEST_F(FileCallsTest, ReadToEnd_OfManySizes_HasAllUpToTheLimit) {
  for (const size_t size : {0, 1, 16383, 16384, 16385, 100'000}) {
    const std::string text(size, 'x');
    std::ofstream(path_) << text;
    const UniqueFd fd = OpenFile(path_, O_RDONLY);
    const auto bytes = ReadToEnd(fd.get(), SIZE_MAX, "reading", path_);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, text);
  }
  const UniqueFd fd = OpenFile(path_, O_RDONLY);
  const auto part = ReadToEnd(fd.get(), 20'000, "reading", path_);
  ASSERT_TRUE(part.ok());
  EXPECT_GT(part->size(), 20'000u) << "so that the caller sees it";
  EXPECT_LT(part->size(), 100'000u);
  EXPECT_FALSE(ReadToEnd(-1, 1, "reading", "nothing").ok());
}

}  // namespace
}  // namespace pulse
