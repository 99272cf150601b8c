#include "bench/macro/bench_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace pulse::bench {
namespace {

namespace fs = std::filesystem;

class BenchDirTest : public testing::Test {
 protected:
  BenchDirTest() : root_(testing::TempDir() + "/bench_dir_XXXXXX") {
    if (mkdtemp(root_.data()) == nullptr) ADD_FAILURE() << "no temporary directory";
  }
  ~BenchDirTest() override { fs::remove_all(root_); }

  static void Write(const std::string& file, const std::string& text) {
    std::ofstream(file) << text;
  }

  static absl::StatusOr<BenchDir> Open(const std::string& path) {
    return BenchDir::Open(path, /*allow_tmpfs=*/true, /*need_bytes=*/0);
  }

  std::string root_;
};

TEST_F(BenchDirTest, Open_NewDirectory_IsMadeAndCanBeReopened) {
  const std::string path = root_ + "/deep/er";
  ASSERT_TRUE(Open(path).ok());
  Write(path + "/left-over", "x");
  EXPECT_TRUE(Open(path).ok());
}

TEST_F(BenchDirTest, Open_ForeignFiles_IsRefusedAndKeepsThem) {
  Write(root_ + "/precious", "x");
  const auto dir = Open(root_);
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(root_ + "/precious"));
  EXPECT_FALSE(fs::exists(root_ + "/.pulse-bench"));
}

TEST_F(BenchDirTest, Open_AlreadyInUse_IsRefused) {
  const auto first = Open(root_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Open(root_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BenchDirTest, RemoveWhole_WithTheMark_RemovesAllUnlessInUse) {
  const std::string path = root_ + "/ours";
  {
    const auto dir = Open(path);
    ASSERT_TRUE(dir.ok());
    Write(dir->Sub("data"), "x");
    EXPECT_EQ(BenchDir::RemoveWhole(path).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(fs::exists(dir->Sub("data")));
  }
  EXPECT_TRUE(BenchDir::RemoveWhole(path).ok());
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(BenchDirTest, RemoveWhole_WithoutTheMark_RemovesAnEmptyDirectoryOnly) {
  fs::create_directory(root_ + "/foreign");
  Write(root_ + "/foreign/precious", "x");
  Write(root_ + "/file", "x");
  fs::create_directory(root_ + "/empty");
  for (const char* name : {"foreign", "file", "empty", "missing"}) {
    EXPECT_TRUE(BenchDir::RemoveWhole(root_ + "/" + name).ok()) << name;
  }
  EXPECT_TRUE(fs::exists(root_ + "/foreign/precious"));
  EXPECT_TRUE(fs::exists(root_ + "/file"));
  EXPECT_FALSE(fs::exists(root_ + "/empty"));
}

TEST_F(BenchDirTest, Open_TooLittleSpace_IsRefused) {
  const auto dir = BenchDir::Open(root_, true, UINT64_MAX);
  EXPECT_EQ(dir.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BenchDirTest, CloneDb_FrozenDatabase_LinksTablesAndCopiesManifest) {
  const auto dir = Open(root_);
  ASSERT_TRUE(dir.ok());
  fs::create_directory(dir->Sub("frozen"));
  Write(dir->Sub("frozen/000007.sst"), "table");
  Write(dir->Sub("frozen/MANIFEST-000001"), "manifest");
  Write(dir->Sub("frozen/LOG"), "log");
  Write(dir->Sub("frozen/LOCK"), "");
  ASSERT_TRUE(dir->CloneDb("frozen", "run").ok());
  EXPECT_EQ(fs::hard_link_count(dir->Sub("run/000007.sst")), 2u);
  EXPECT_EQ(fs::hard_link_count(dir->Sub("run/MANIFEST-000001")), 1u);
  EXPECT_FALSE(fs::exists(dir->Sub("run/LOG")));
  EXPECT_FALSE(fs::exists(dir->Sub("run/LOCK")));
  EXPECT_EQ(BytesIn(dir->Sub("run"), ".sst"), 5u);
  ASSERT_TRUE(dir->Remove("run").ok());
  EXPECT_TRUE(fs::exists(dir->Sub("frozen/000007.sst")));
}

TEST_F(BenchDirTest, RemoveAll_OnePrefix_LeavesOtherNames) {
  const auto dir = Open(root_);
  ASSERT_TRUE(dir.ok());
  Write(dir->Sub("frozen-128B.json"), "x");
  fs::create_directory(dir->Sub("frozen-128B"));
  fs::create_directory(dir->Sub("frozen-1280B"));
  ASSERT_TRUE(dir->RemoveAll("frozen-128B").ok());
  EXPECT_FALSE(fs::exists(dir->Sub("frozen-128B")));
  EXPECT_FALSE(fs::exists(dir->Sub("frozen-128B.json")));
  EXPECT_TRUE(fs::exists(dir->Sub("frozen-1280B")));
  EXPECT_FALSE(dir->RemoveAll("").ok());
}

}  // namespace
}  // namespace pulse::bench
