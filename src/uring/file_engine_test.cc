// FileEngine: back-pressure, completions that start operations, and registered files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "uring/file_engine_fixture.h"

namespace pulse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(FileEngineTest, Operations_BackEndFull_AreDelayedAndNotLost) {
  fake_->depth = 2;
  auto* a = NewFile();
  auto* b = NewFile();
  for (uint64_t i = 0; i < 5; ++i) Write(i % 2 == 0 ? a : b, i, 1, i);
  engine_->Sync(a, 10);
  engine_->SyncClose(b, 0, 11);
  EXPECT_THAT(Open(), ElementsAre("w0+1", "w1+1"));
  EXPECT_TRUE(engine_->needs_polling());
  size_t most = 0;
  while (!engine_->idle()) {
    engine_->Poll();
    most = std::max(most, fake_->open.size());
    if (!fake_->open.empty()) fake_->FinishWell(fake_->open.size() - 1);
  }
  EXPECT_EQ(most, 2u);
  EXPECT_EQ(results_.size(), 7u);
  for (const auto& [cookie, result] : results_) EXPECT_GE(result, 0) << cookie;
  engine_->Discard(a, 20);
}

TEST_F(FileEngineTest, Poll_MoreCompletionsThanOneHarvestTakes_DeliversAll) {
  fake_->depth = 1000;
  auto* f = NewFile();
  for (uint64_t i = 0; i < 500; ++i) Write(f, i, 1, i);
  engine_->Poll();
  while (!fake_->open.empty()) fake_->FinishWell(fake_->open.size() - 1);
  EXPECT_EQ(engine_->Poll(), 500u);
  EXPECT_EQ(results_.size(), 500u);
  engine_->Discard(f, 1000);
}

TEST_F(FileEngineTest, Completion_StartsFurtherOperations_InOrder) {
  auto* f = NewFile();
  on_complete_ = [&](uint64_t cookie, int64_t) {
    if (cookie < 10) Write(f, cookie + 1, 1, cookie + 1);
    if (cookie == 10) engine_->SyncClose(f, 0, 11);
  };
  Write(f, 0, 1, 0);
  FinishAll();
  EXPECT_THAT(order_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(FileEngineTest, PinnedFile_IsRegisteredUntilItCloses) {
  auto* plain = NewFile(false);
  auto* pinned = NewFile(true);
  const int fd = fd_;
  ASSERT_EQ(fake_->registered.size(), 1u);
  EXPECT_EQ(fake_->registered.begin()->second, fd);
  Write(plain, 0, 1, 1);
  Write(pinned, 0, 1, 2);
  EXPECT_THAT(Open().size(), 2u);
  EXPECT_EQ(fake_->open[0].file_index, -1);
  EXPECT_EQ(fake_->open[1].file_index, fake_->registered.begin()->first);
  EXPECT_EQ(fake_->open[1].fd, fd);
  engine_->SyncClose(pinned, 0, 3);
  FinishWell(1);
  EXPECT_THAT(fake_->registered, IsEmpty()) << "before the close reaches the kernel";
  EXPECT_EQ(fake_->open.back().file_index, -1);
  engine_->Discard(plain, 4);
  FinishAll();
}

TEST_F(FileEngineTest, PinnedFile_BackEndWithoutRegistration_IsServed) {
  fake_->registers_files = false;
  auto* f = NewFile(true);
  Write(f, 0, 1, 1);
  Open();
  EXPECT_EQ(fake_->open[0].file_index, -1);
  engine_->SyncClose(f, 0, 2);
  FinishAll();
  EXPECT_EQ(results_[2], 0);
}

}  // namespace
}  // namespace pulse
