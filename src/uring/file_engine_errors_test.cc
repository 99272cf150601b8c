// FileEngine: errors, short transfers and interrupted requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>

#include "uring/file_engine_fixture.h"

namespace pulse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(FileEngineTest, Fallocate_Failing_IsNoErrorOfTheFile) {
  auto* f = NewFile();
  const int fd = fd_;
  engine_->Fallocate(f, 1 << 20, 1);
  Write(f, 0, 1, 2);
  Finish(0, -ENOSPC);
  EXPECT_EQ(results_[1], 0);
  FinishWell(0);
  EXPECT_EQ(results_[2], static_cast<int64_t>(kBlock));
  engine_->SyncClose(f, 5, 3);
  FinishAll();
  EXPECT_EQ(results_[3], 0);
  EXPECT_FALSE(IsOpen(fd));
}

TEST_F(FileEngineTest, WriteError_FirstOfAFile_Sticks) {
  auto* f = NewFile();
  const int fd = fd_;
  Write(f, 0, 1, 1);
  Write(f, 1, 1, 2);
  Write(f, 2, 1, 3);
  engine_->Sync(f, 4);
  Finish(1, -ENOSPC);
  EXPECT_EQ(results_[2], -ENOSPC);
  Finish(1, -EIO);  // under way when it happened: the first error is reported
  EXPECT_EQ(results_[3], -ENOSPC);
  FinishWell(0);
  EXPECT_EQ(results_[1], -ENOSPC) << "what was under way cannot be trusted either";
  EXPECT_THAT(Open(), IsEmpty()) << "nothing more is tried";
  EXPECT_EQ(results_[4], -ENOSPC);
  Write(f, 3, 1, 5);
  RangeSync(f, 0, 1, 6);
  engine_->Sync(f, 7);
  engine_->Fallocate(f, 1, 8);
  EXPECT_EQ(results_.count(5), 0u) << "completions come from Poll only";
  EXPECT_TRUE(engine_->needs_polling());
  FinishAll();
  for (uint64_t i : {5, 6, 7, 8}) EXPECT_EQ(results_[i], -ENOSPC) << i;
  engine_->SyncClose(f, 100, 9);
  EXPECT_THAT(Open(), ElementsAre("close")) << "neither truncated nor synced, but closed";
  EXPECT_TRUE(IsOpen(fd));
  FinishWell(0);
  EXPECT_EQ(results_[9], -ENOSPC);
  EXPECT_FALSE(IsOpen(fd));
}

TEST_F(FileEngineTest, SyncError_FirstOfAFile_Sticks) {
  for (const bool range : {false, true}) {
    auto* f = NewFile();
    const uint64_t base = range ? 100 : 0;
    if (range) {
      RangeSync(f, 0, 1, base + 1);
    } else {
      engine_->Sync(f, base + 1);
    }
    Finish(0, -EIO);
    EXPECT_EQ(results_[base + 1], -EIO);
    Write(f, 0, 1, base + 2);
    engine_->SyncClose(f, 0, base + 3);
    FinishAll();
    EXPECT_EQ(results_[base + 2], -EIO);
    EXPECT_EQ(results_[base + 3], -EIO);
  }
}

TEST_F(FileEngineTest, WriteError_OfOneFile_SparesOthers) {
  auto* a = NewFile();
  auto* b = NewFile();
  Write(a, 0, 1, 1);
  Write(b, 0, 1, 2);
  Finish(0, -EIO);
  engine_->SyncClose(a, 0, 3);
  engine_->SyncClose(b, 0, 4);
  FinishAll();
  EXPECT_EQ(results_[1], -EIO);
  EXPECT_EQ(results_[3], -EIO);
  EXPECT_EQ(results_[2], static_cast<int64_t>(kBlock));
  EXPECT_EQ(results_[4], 0);
}

TEST_F(FileEngineTest, ReadError_DoesNotStick_AndFailedFilesMayBeRead) {
  auto* f = NewFile();
  Read(f, 0, 1, 1);
  Finish(0, -EIO);
  EXPECT_EQ(results_[1], -EIO);
  Write(f, 0, 1, 2);
  FinishWell(0);
  EXPECT_EQ(results_[2], static_cast<int64_t>(kBlock));
  Write(f, 0, 1, 3);
  Finish(0, -ENOSPC);
  Read(f, 0, 1, 4);
  FinishWell(0);
  EXPECT_EQ(results_[4], static_cast<int64_t>(kBlock));
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, SyncClose_Failing_ReportsAndFrees) {
  auto* f = NewFile();
  const int fd = fd_;
  engine_->SyncClose(f, 0, 1);
  Finish(0, -EIO);
  EXPECT_EQ(results_[1], -EIO);
  EXPECT_FALSE(IsOpen(fd));
  EXPECT_TRUE(engine_->idle());
}

TEST_F(FileEngineTest, Discard_WithOperationsUnderWay_WaitsAndClosesWithoutSync) {
  auto* f = NewFile();
  const int fd = fd_;
  Write(f, 0, 1, 1);
  Read(f, 1, 1, 2);
  engine_->Discard(f, 3);
  EXPECT_THAT(Open(), ElementsAre("w0+1", "r1+1"));
  Finish(0, -EIO);
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("close"));
  FinishWell(0);
  EXPECT_EQ(results_[3], 0) << "the file's error is no business of a discard";
  EXPECT_FALSE(IsOpen(fd));
}

TEST_F(FileEngineTest, ShortWrite_WritesTheRest) {
  auto* f = NewFile();
  engine_->Write(f, buffer_, 3, 10 * kBlock, 100 * kBlock, 1);
  RangeSync(f, 105, 1, 2);
  Finish(0, kBlock);
  ASSERT_THAT(Open(), ElementsAre("w101+9"));
  EXPECT_EQ(fake_->open[0].buffer, buffer_ + kBlock);
  EXPECT_EQ(fake_->open[0].buffer_index, 3);
  EXPECT_THAT(results_, IsEmpty());
  Finish(0, 100);  // any number of bytes
  ASSERT_EQ(Open().size(), 1u) << "the range_sync still waits";
  EXPECT_EQ(fake_->open[0].offset, 101 * kBlock + 100);
  EXPECT_EQ(fake_->open[0].length, 9 * kBlock - 100);
  EXPECT_EQ(fake_->open[0].buffer, buffer_ + kBlock + 100);
  FinishWell(0);
  EXPECT_EQ(results_[1], static_cast<int64_t>(10 * kBlock));
  EXPECT_THAT(Open(), ElementsAre("range105+1"));
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, ShortWrite_ThatThenFails_ReportsTheError) {
  auto* f = NewFile();
  Write(f, 0, 4, 1);
  Finish(0, kBlock);
  Finish(0, -ENOSPC);
  EXPECT_EQ(results_[1], -ENOSPC);
  Write(f, 0, 4, 2);
  engine_->Discard(f, 9);
  FinishAll();
  EXPECT_EQ(results_[2], -ENOSPC);
}

TEST_F(FileEngineTest, Write_OfNoBytes_ReportsAFullDevice) {
  auto* f = NewFile();
  Write(f, 0, 4, 1);
  Finish(0, 0);
  EXPECT_EQ(results_[1], -ENOSPC);
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, ShortRead_GoesOnUntilTheEndOfTheFile) {
  auto* f = NewFile();
  Read(f, 0, 10, 1);
  Finish(0, 2 * kBlock);
  ASSERT_THAT(Open(), ElementsAre("r2+8"));
  EXPECT_EQ(fake_->open[0].buffer, buffer_ + 2 * kBlock);
  Finish(0, 0);
  EXPECT_EQ(results_[1], static_cast<int64_t>(2 * kBlock)) << "the file ends at a block";
  Read(f, 0, 10, 2);
  Finish(0, 5000);
  EXPECT_EQ(results_[2], 5000) << "the file ends inside a sector, where direct I/O could not go on";
  Read(f, 0, 10, 3);
  Finish(0, 0);
  EXPECT_EQ(results_[3], 0);
  Read(f, 0, 10, 4);
  Finish(0, kBlock);
  Finish(0, -EIO);
  EXPECT_EQ(results_[4], -EIO);
  engine_->Discard(f, 9);
}

// The sector that counts is the file's, not the request's: a read that began at byte 100 and
// stopped at byte 4096 has met the end of a page, perhaps a bad page behind it, not the end of the
// file.
TEST_F(FileEngineTest, ShortRead_AtAnOddOffset_GoesOnFromASectorsEdge) {
  auto* f = NewFile();
  engine_->Read(f, buffer_, -1, 10'000, 100, 1);
  Finish(0, 4096 - 100);
  ASSERT_EQ(Open().size(), 1u) << "taken for the end of the file";
  EXPECT_EQ(fake_->open[0].offset, 4096u);
  EXPECT_EQ(fake_->open[0].length, 10'100u - 4096);
  Finish(0, -EIO);
  EXPECT_EQ(results_[1], -EIO);
  engine_->Read(f, buffer_, -1, 10'000, 100, 2);
  Finish(0, 512);  // stops at byte 612, inside a sector
  EXPECT_EQ(results_[2], 512);
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, Requests_Interrupted_AreRepeated) {
  auto* f = NewFile();
  Write(f, 0, 4, 1);
  for (int64_t error : {-EINTR, -EAGAIN, -EAGAIN}) {
    Finish(0, error);
    ASSERT_THAT(Open(), ElementsAre("w0+4"));
  }
  Finish(0, kBlock);
  Finish(0, -EINTR);
  ASSERT_THAT(Open(), ElementsAre("w1+3"));
  FinishWell(0);
  EXPECT_EQ(results_[1], static_cast<int64_t>(4 * kBlock));
  engine_->Sync(f, 2);
  Finish(0, -EINTR);
  EXPECT_THAT(Open(), ElementsAre("sync"));
  FinishWell(0);
  EXPECT_EQ(results_[2], 0);
  engine_->Discard(f, 9);
}

// The descriptor is gone, and its number may be another file's by now.
TEST_F(FileEngineTest, Close_Interrupted_IsNotRepeated) {
  auto* f = NewFile();
  engine_->SyncClose(f, 0, 1);
  Finish(0, -EINTR);
  EXPECT_THAT(Open(), IsEmpty());
  EXPECT_EQ(results_.count(1), 1u);
  EXPECT_EQ(results_[1], -EINTR) << "what was not synced is not durable";
  auto* g = NewFile();
  engine_->Discard(g, 2);
  Finish(0, -EAGAIN);
  EXPECT_THAT(Open(), IsEmpty());
  EXPECT_EQ(results_.count(2), 1u);
}

TEST_F(FileEngineTest, SyncClose_FromACompletionOfAFailedFile_ReportsTheError) {
  auto* f = NewFile();
  Write(f, 0, 1, 1);
  engine_->Sync(f, 2);
  on_complete_ = [&](uint64_t cookie, int64_t) {
    if (cookie == 1) engine_->SyncClose(f, 0, 3);
  };
  Finish(0, -EIO);
  FinishAll();
  EXPECT_THAT(order_, ElementsAre(1, 2, 3));
  EXPECT_EQ(results_[3], -EIO);
}

}  // namespace
}  // namespace pulse
