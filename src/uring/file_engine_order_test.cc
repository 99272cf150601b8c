// FileEngine: what is started when, and in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "base/clock.h"
#include "base/testing.h"
#include "uring/file_engine_fixture.h"

namespace pulse {
namespace {

using ::testing::ElementsAre;
using testing_util::Eventually;

TEST_F(FileEngineTest, Writes_OfOneFile_RunTogetherAndCompleteInAnyOrder) {
  auto* f = NewFile();
  for (uint64_t i = 0; i < 4; ++i) Write(f, i, 1, i);
  EXPECT_FALSE(engine_->idle());
  EXPECT_THAT(Open(), ElementsAre("w0+1", "w1+1", "w2+1", "w3+1"));
  FinishWell(2);
  FinishWell(0);
  EXPECT_THAT(order_, ElementsAre(2, 0));
  FinishWell(1);
  FinishWell(0);
  EXPECT_THAT(order_, ElementsAre(2, 0, 3, 1));
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(results_[i], static_cast<int64_t>(kBlock));
  EXPECT_TRUE(engine_->idle());
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, RangeSync_BehindWrites_WaitsForThoseThatOverlap) {
  auto* f = NewFile();
  Write(f, 0, 4, 1);
  Write(f, 4, 4, 2);
  Write(f, 8, 4, 3);
  RangeSync(f, 4, 4, 4);  // touches write 2 only
  EXPECT_THAT(Open(), ElementsAre("w0+4", "w4+4", "w8+4"));
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("w4+4", "w8+4")) << "write 2 overlaps";
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("w8+4", "range4+4")) << "write 3 does not";
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, RangeSync_WhereNothingOverlaps_StartsAtOnce) {
  auto* f = NewFile();
  Write(f, 4, 4, 1);
  RangeSync(f, 0, 4, 2);
  RangeSync(f, 8, 4, 3);
  EXPECT_THAT(Open(), ElementsAre("w4+4", "range0+4", "range8+4"));
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, RangeSync_OverlapOfOneByte_Waits) {
  auto* f = NewFile();
  engine_->Write(f, buffer_, -1, kBlock, 4 * kBlock - 1, 1);  // one byte before, the rest within
  RangeSync(f, 3, 1, 2);
  EXPECT_THAT(Open(), ElementsAre("w3+1"));
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("range3+1"));
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, SyncAndSyncClose_BehindOtherOperations_WaitForAll) {
  for (const bool closes : {false, true}) {
    auto* f = NewFile();
    const int fd = fd_;
    const uint64_t base = closes ? 100 : 0;
    Write(f, 0, 1, base + 1);
    Read(f, 8, 1, base + 2);
    RangeSync(f, 4, 1, base + 3);
    if (closes) {
      engine_->SyncClose(f, 12345, base + 4);
    } else {
      engine_->Sync(f, base + 4);
    }
    EXPECT_THAT(Open(), ElementsAre("w0+1", "r8+1", "range4+1"));
    FinishWell(1);
    FinishWell(0);
    EXPECT_THAT(Open(), ElementsAre("range4+1")) << "even a range_sync counts";
    FinishWell(0);
    EXPECT_THAT(Open(), ElementsAre(closes ? "syncclose" : "sync"));
    EXPECT_EQ(fake_->open[0].fd, fd);
    if (closes) {
      EXPECT_EQ(fake_->open[0].length, 12345u) << "the size to truncate to";
    }
    FinishWell(0);
    EXPECT_EQ(results_[base + 4], 0);
    EXPECT_EQ(IsOpen(fd), !closes);
    if (!closes) engine_->Discard(f, base + 9);
    FinishAll();
  }
}

TEST_F(FileEngineTest, SyncClose_WithoutTruncation_LeavesTheSize) {
  engine_->SyncClose(NewFile(), kNoTruncate, 1);
  EXPECT_THAT(Open().size(), 1u);
  EXPECT_EQ(fake_->open[0].length, kNoTruncate);
}

TEST_F(FileEngineTest, Operations_OfOtherFiles_DoNotWait) {
  auto* a = NewFile();
  auto* b = NewFile();
  auto* c = NewFile();
  Write(a, 0, 1, 1);
  engine_->Sync(a, 2);
  Write(a, 1, 1, 3);
  Write(b, 0, 1, 4);
  engine_->Fallocate(c, 100, 5);
  Write(c, 0, 1, 6);
  engine_->SyncClose(b, kNoTruncate, 7);
  RangeSync(a, 50, 1, 8);
  EXPECT_THAT(Open(), ElementsAre("w0+1", "w0+1", "alloc"));
  FinishWell(1);  // b's write: its close may go, though a and c are stuck
  EXPECT_THAT(Open(), ElementsAre("w0+1", "alloc", "syncclose"));
  FinishWell(2);
  EXPECT_THAT(order_, ElementsAre(4, 7));
  engine_->Discard(a, 20);
  engine_->Discard(c, 21);
}

TEST_F(FileEngineTest, DeferredOperations_OfOneFile_KeepTheirOrder) {
  auto* f = NewFile();
  Write(f, 0, 1, 1);
  engine_->Sync(f, 2);
  Write(f, 1, 1, 3);  // could start, but the sync came first
  RangeSync(f, 7, 1, 4);
  Write(f, 2, 1, 5);
  engine_->Sync(f, 6);
  Write(f, 3, 1, 7);
  EXPECT_THAT(Open(), ElementsAre("w0+1"));
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("sync", "w1+1", "range7+1", "w2+1"));
  FinishWell(0);
  FinishWell(0);
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("w2+1"));
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("sync", "w3+1"));
  FinishAll();
  EXPECT_THAT(order_, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, Reads_BehindAnything_StartAtOnce) {
  auto* f = NewFile();
  engine_->Fallocate(f, 100, 1);
  Write(f, 0, 1, 2);
  engine_->Sync(f, 3);
  Read(f, 0, 1, 4);
  EXPECT_THAT(Open(), ElementsAre("alloc", "r0+1"));
  FinishWell(1);
  EXPECT_THAT(order_, ElementsAre(4));
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, Writes_BehindFallocate_WaitForIt) {
  auto* f = NewFile();
  engine_->Fallocate(f, 1 << 20, 1);
  Write(f, 0, 1, 2);
  Write(f, 1, 1, 3);
  EXPECT_THAT(Open(), ElementsAre("alloc"));
  EXPECT_EQ(fake_->open[0].length, 1u << 20);
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("w0+1", "w1+1"));
  engine_->Fallocate(f, 2 << 20, 4);
  EXPECT_THAT(Open(), ElementsAre("w0+1", "w1+1")) << "and fallocate for writes";
  FinishWell(0);
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("alloc"));
  engine_->Discard(f, 9);
}

// A write whose bytes are still on their way counts as in flight, and starts when they are there.
TEST_F(FileEngineTest, Write_WhoseBytesArriveLater_StartsThen) {
  FileEngine::File* f = NewFile();
  const int64_t when = NowNanos() + 500'000'000;
  fake_->on_start = [&](const IoRequest& r) {
    if (r.op == IoOp::kWrite && r.offset == 0) {
      EXPECT_GE(NowNanos(), when) << "started too early";
    }
  };
  engine_->Write(f, buffer_, -1, kBlock, 0, 1, when);
  const bool waits = NowNanos() < when;  // else they may have been there when it was asked for
  Write(f, 1, 1, 2);
  engine_->RangeSync(f, 0, kBlock, 3);
  engine_->SyncClose(f, kNoTruncate, 4);
  if (waits) {
    EXPECT_EQ(engine_->next_due(), when);
  }
  EXPECT_FALSE(engine_->idle());
  EXPECT_TRUE(Eventually([&] { return Open().size() == 2; }));
  if (waits) {
    EXPECT_THAT(Open(), ElementsAre("w1+1", "w0+1"));
  }
  EXPECT_EQ(engine_->next_due(), 0);
  fake_->FinishWell(0);
  fake_->FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("range0+1"));
  fake_->FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("syncclose"));
  fake_->FinishWell(0);
  engine_->Poll();
  EXPECT_TRUE(engine_->idle());
}

TEST_F(FileEngineTest, After_SeveralTimes_CompletesInTheirOrderAndNotBefore) {
  const int64_t begin = NowNanos();
  const int64_t at[] = {begin + 30'000'000, begin + 10'000'000, begin - 1};
  on_complete_ = [&](uint64_t cookie, int64_t result) {
    EXPECT_GE(NowNanos(), at[cookie]);
    EXPECT_EQ(result, 0);
  };
  for (uint64_t i = 0; i < 3; ++i) engine_->After(at[i], this, i);
  EXPECT_EQ(engine_->next_due(), at[2]);
  EXPECT_FALSE(engine_->idle());
  EXPECT_TRUE(Eventually([&] {
    engine_->Poll();
    return order_.size() == 3;
  }));
  EXPECT_THAT(order_, ElementsAre(2, 1, 0));
  EXPECT_TRUE(engine_->idle());
}

}  // namespace
}  // namespace pulse
