// FileEngine against a scripted back-end: what is started when, in which order, and what comes
// back.
#include "uring/file_engine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/testing.h"
#include "uring/fake_backend.h"

namespace pulse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_util::Eventually;

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

class FileEngineTest : public ::testing::Test, public FileEngine::Client {
 protected:
  FileEngineTest() {
    auto fake = std::make_unique<FakeBackend>();
    fake_ = fake.get();
    engine_ = std::make_unique<FileEngine>(std::move(fake));
  }

  void OnIoComplete(uint64_t cookie, int64_t result) override {
    EXPECT_EQ(results_.count(cookie), 0u) << "operation " << cookie << " completed twice";
    results_[cookie] = result;
    order_.push_back(cookie);
    if (on_complete_) on_complete_(cookie, result);
  }

  FileEngine::File* NewFile(bool pinned = false) {
    fd_ = open("/dev/null", O_RDWR | O_CLOEXEC);
    return engine_->Open(UniqueFd(fd_), this, pinned);
  }
  // What runs at the back-end, as "w0+4" (offset and length in blocks).
  std::vector<std::string> Open() {
    engine_->Poll();
    std::vector<std::string> out;
    for (const IoRequest& r : fake_->open) out.push_back(Describe(r));
    return out;
  }
  static std::string Describe(const IoRequest& r) {
    const std::string range =
        std::to_string(r.offset / kBlock) + "+" + std::to_string(r.length / kBlock);
    switch (r.op) {
      case IoOp::kRead:
        return "r" + range;
      case IoOp::kWrite:
        return "w" + range;
      case IoOp::kRangeSync:
        return "range" + range;
      case IoOp::kSync:
        return "sync";
      case IoOp::kFallocate:
        return "alloc";
      case IoOp::kSyncClose:
        return "syncclose";
      case IoOp::kClose:
        return "close";
    }
    return "?";
  }
  void Write(FileEngine::File* f, uint64_t block, uint64_t blocks, uint64_t cookie) {
    engine_->Write(f, buffer_, -1, blocks * kBlock, block * kBlock, cookie);
  }
  void Read(FileEngine::File* f, uint64_t block, uint64_t blocks, uint64_t cookie) {
    engine_->Read(f, buffer_, -1, blocks * kBlock, block * kBlock, cookie);
  }
  void RangeSync(FileEngine::File* f, uint64_t block, uint64_t blocks, uint64_t cookie) {
    engine_->RangeSync(f, block * kBlock, blocks * kBlock, cookie);
  }
  void Finish(size_t at, int64_t result) {
    engine_->Poll();
    fake_->Finish(at, result);
    engine_->Poll();
  }
  void FinishWell(size_t at) {
    engine_->Poll();
    fake_->FinishWell(at);
    engine_->Poll();
  }
  void FinishAll() {
    for (engine_->Poll(); !fake_->open.empty() || !engine_->idle(); engine_->Poll()) {
      if (!fake_->open.empty()) fake_->FinishWell(0);
    }
  }
  // Every file must be closed by its test.
  void TearDown() override {
    FinishAll();
    EXPECT_TRUE(engine_->idle());
    EXPECT_FALSE(engine_->needs_polling());
    EXPECT_THAT(fake_->registered, IsEmpty()) << "a registered descriptor was left behind";
  }

  static constexpr uint64_t kBlock = 4096;
  char* const buffer_ = reinterpret_cast<char*>(uintptr_t{1} << 40);  // never touched
  FakeBackend* fake_;
  std::unique_ptr<FileEngine> engine_;
  int fd_ = -1;
  std::map<uint64_t, int64_t> results_;
  std::vector<uint64_t> order_;
  std::function<void(uint64_t, int64_t)> on_complete_;
};

TEST_F(FileEngineTest, WritesOfAFileRunTogetherAndCompleteInAnyOrder) {
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

TEST_F(FileEngineTest, RangeSyncWaitsForOverlappingWritesOnly) {
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

TEST_F(FileEngineTest, RangeSyncStartsAtOnceWhereNothingOverlaps) {
  auto* f = NewFile();
  Write(f, 4, 4, 1);
  RangeSync(f, 0, 4, 2);
  RangeSync(f, 8, 4, 3);
  EXPECT_THAT(Open(), ElementsAre("w4+4", "range0+4", "range8+4"));
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, RangeSyncSeesPartialOverlapsAtEitherEnd) {
  auto* f = NewFile();
  engine_->Write(f, buffer_, -1, kBlock, 4 * kBlock - 1, 1);  // one byte before, the rest within
  RangeSync(f, 3, 1, 2);
  EXPECT_THAT(Open(), ElementsAre("w3+1"));
  FinishWell(0);
  EXPECT_THAT(Open(), ElementsAre("range3+1"));
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, SyncAndSyncCloseWaitForEverything) {
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

TEST_F(FileEngineTest, SyncCloseCanLeaveTheSizeAlone) {
  engine_->SyncClose(NewFile(), kNoTruncate, 1);
  EXPECT_THAT(Open().size(), 1u);
  EXPECT_EQ(fake_->open[0].length, kNoTruncate);
}

TEST_F(FileEngineTest, OtherFilesNeverWait) {
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

TEST_F(FileEngineTest, DeferredOperationsKeepTheirOrder) {
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

TEST_F(FileEngineTest, ReadsDependOnNothing) {
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

TEST_F(FileEngineTest, WritesWaitForFallocate) {
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

TEST_F(FileEngineTest, FallocateIsAdvice) {
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

TEST_F(FileEngineTest, TheFirstErrorOfAFileSticks) {
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

TEST_F(FileEngineTest, ErrorsOfSyncAndRangeSyncStickToo) {
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

TEST_F(FileEngineTest, ErrorsStayWithTheirFile) {
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

TEST_F(FileEngineTest, ReadErrorsDoNotStickAndStuckFilesMayBeRead) {
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

TEST_F(FileEngineTest, AFailedSyncCloseReportsAndFrees) {
  auto* f = NewFile();
  const int fd = fd_;
  engine_->SyncClose(f, 0, 1);
  Finish(0, -EIO);
  EXPECT_EQ(results_[1], -EIO);
  EXPECT_FALSE(IsOpen(fd));
  EXPECT_TRUE(engine_->idle());
}

TEST_F(FileEngineTest, DiscardWaitsThenClosesWithoutSyncing) {
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

TEST_F(FileEngineTest, ShortWritesGoOn) {
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

TEST_F(FileEngineTest, AShortWriteThatThenFailsReportsTheError) {
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

TEST_F(FileEngineTest, AWriteOfNothingIsAFullDevice) {
  auto* f = NewFile();
  Write(f, 0, 4, 1);
  Finish(0, 0);
  EXPECT_EQ(results_[1], -ENOSPC);
  engine_->Discard(f, 9);
}

TEST_F(FileEngineTest, ShortReadsGoOnUntilTheEndOfTheFile) {
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
TEST_F(FileEngineTest, AShortReadAtAnOddOffsetGoesOnFromASectorsEdge) {
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

TEST_F(FileEngineTest, InterruptedRequestsAreRepeated) {
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
TEST_F(FileEngineTest, AnInterruptedCloseIsNeverRepeated) {
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

TEST_F(FileEngineTest, AFullBackEndDelaysAndLosesNothing) {
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

TEST_F(FileEngineTest, MoreCompletionsThanOneHarvestTakes) {
  fake_->depth = 1000;
  auto* f = NewFile();
  for (uint64_t i = 0; i < 500; ++i) Write(f, i, 1, i);
  engine_->Poll();
  while (!fake_->open.empty()) fake_->FinishWell(fake_->open.size() - 1);
  EXPECT_EQ(engine_->Poll(), 500u);
  EXPECT_EQ(results_.size(), 500u);
  engine_->Discard(f, 1000);
}

TEST_F(FileEngineTest, CompletionsMayStartFurtherOperations) {
  auto* f = NewFile();
  on_complete_ = [&](uint64_t cookie, int64_t) {
    if (cookie < 10) Write(f, cookie + 1, 1, cookie + 1);
    if (cookie == 10) engine_->SyncClose(f, 0, 11);
  };
  Write(f, 0, 1, 0);
  FinishAll();
  EXPECT_THAT(order_, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST_F(FileEngineTest, AFailedFileMayBeClosedFromItsCompletion) {
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

TEST_F(FileEngineTest, PinnedFilesAreRegisteredUntilTheyClose) {
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

TEST_F(FileEngineTest, AnEngineWithoutRegistrationServesPinnedFiles) {
  fake_->registers_files = false;
  auto* f = NewFile(true);
  Write(f, 0, 1, 1);
  Open();
  EXPECT_EQ(fake_->open[0].file_index, -1);
  engine_->SyncClose(f, 0, 2);
  FinishAll();
  EXPECT_EQ(results_[2], 0);
}

// A write whose bytes are still on their way counts as in flight, and starts when they are there.
TEST_F(FileEngineTest, AWriteWaitsForItsBytes) {
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

TEST_F(FileEngineTest, WhatTimeCompletesComesInItsOrderAndNotBefore) {
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
