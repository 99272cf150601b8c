// The log: what is found again after cuts and damage of every kind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "examples/pages/log.h"

namespace pulse::pages {
namespace {

class LogTest : public ::testing::Test {
 protected:
  LogTest() : directory_("./scratch-log-" + std::to_string(getpid())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
  }
  ~LogTest() override { std::filesystem::remove_all(directory_); }

  absl::StatusOr<std::unique_ptr<Log>> Open(uint64_t after = 0, uint64_t file_bytes = 1 << 20) {
    told_.clear();
    return Log::Open(directory_, after, file_bytes,
                     [&](Frame f) { told_.push_back(std::move(f)); });
  }
  static void Add(Log* log, uint32_t count, const std::string& records) {
    Frame f{0, count, records};
    ASSERT_EQ(log->Append(&f), absl::OkStatus());
    ASSERT_EQ(log->Sync(), absl::OkStatus());
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& e : std::filesystem::directory_iterator(directory_)) files.push_back(e.path());
    std::sort(files.begin(), files.end());
    return files;
  }

  const std::string directory_;
  std::vector<Frame> told_;
};

TEST_F(LogTest, Open_BehindACheckpoint_GivesFramesInOrder) {
  {
    auto log = Open();
    ASSERT_TRUE(log.ok());
    for (uint32_t i = 1; i <= 5; ++i) Add(log->get(), i, "frame " + std::to_string(i));
    EXPECT_EQ((*log)->next_lsn(), 16u);
  }
  // LSN 4 lies within the third frame, of 4 to 6.
  auto log = Open(4);
  ASSERT_TRUE(log.ok());
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[0].first_lsn, 4u);
  EXPECT_EQ(told_[2].records, "frame 5");
  EXPECT_EQ((*log)->next_lsn(), 16u);
}

TEST_F(LogTest, Open_TornEnd_IsCutOffAndWrittenOver) {
  std::vector<uintmax_t> ends = {0};
  {
    auto log = Open();
    for (int i = 0; i < 6; ++i) {
      Add(log->get(), 1, std::string(50 + 13 * static_cast<size_t>(i), 'r'));
      ends.push_back(std::filesystem::file_size(Files().at(0)));
    }
  }
  const std::string file = Files().at(0);
  const std::string copy = directory_ + "/copy";
  std::filesystem::copy_file(file, copy);
  std::mt19937_64 dice(testing_util::TestSeed());
  for (int i = 0; i < 40; ++i) {
    std::filesystem::copy_file(copy, file, std::filesystem::copy_options::overwrite_existing);
    const uintmax_t cut = dice() % (ends.back() + 1);
    std::filesystem::resize_file(file, cut);
    if (i % 2 == 1) std::filesystem::resize_file(file, ends.back());  // zeros behind
    const auto whole =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin() - 1);
    {
      auto log = Open();
      ASSERT_TRUE(log.ok()) << log.status();
      ASSERT_EQ(told_.size(), whole);
      Add(log->get(), 1, "new");
    }
    ASSERT_TRUE(Open().ok());
    ASSERT_EQ(told_.size(), whole + 1);
    EXPECT_EQ(told_.back().records, "new");
    EXPECT_EQ(told_.back().first_lsn, whole + 1);
  }
}

TEST_F(LogTest, Open_DamageBeforeTheLastFile_IsDataLoss) {
  {
    auto log = Open(0, 100);
    for (int i = 0; i < 9; ++i) Add(log->get(), 2, std::string(60, 'r'));
  }
  const auto files = Files();
  ASSERT_GT(files.size(), 3u);
  ASSERT_TRUE(Open(0, 100).ok());
  EXPECT_EQ(told_.size(), 9u);
  {
    std::fstream f(files[1], std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(70);
    f.put('!');
  }
  EXPECT_TRUE(absl::IsDataLoss(Open(0, 100).status()));
  std::filesystem::remove(files[1]);
  EXPECT_TRUE(absl::IsDataLoss(Open(0, 100).status()));
}

TEST_F(LogTest, Truncate_UpToAnLsn_KeepsWhatRecoveryNeeds) {
  {
    auto log = Open(0, 100);
    for (int i = 0; i < 9; ++i) Add(log->get(), 1, std::string(90, 'r'));
    ASSERT_EQ((*log)->Truncate(5), absl::OkStatus());
  }
  EXPECT_TRUE(absl::IsDataLoss(Open(2, 100).status()));
  ASSERT_TRUE(Open(5, 100).ok());
  ASSERT_EQ(told_.size(), 4u);
  EXPECT_EQ(told_[0].first_lsn, 6u);
}

TEST_F(LogTest, LoadCheckpoint_ReplacedOrDamaged_IsNewestOrDataLoss) {
  EXPECT_TRUE(absl::IsNotFound(LoadCheckpoint(directory_).status()));
  ASSERT_EQ(SaveCheckpoint(directory_, {7, 100}), absl::OkStatus());
  ASSERT_EQ(SaveCheckpoint(directory_, {9, 100}), absl::OkStatus());
  EXPECT_EQ(LoadCheckpoint(directory_)->lsn, 9u);
  std::fstream f(directory_ + "/checkpoint", std::ios::in | std::ios::out | std::ios::binary);
  f.seekp(9);
  f.put('!');
  f.close();
  EXPECT_TRUE(absl::IsDataLoss(LoadCheckpoint(directory_).status()));
}

}  // namespace
}  // namespace pulse::pages
