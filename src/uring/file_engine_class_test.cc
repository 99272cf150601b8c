// FileEngine and classes: what reaches the back-end when, with the order within a file kept.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "uring/fake_backend.h"
#include "uring/file_engine.h"

namespace pulse {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

class EngineClassTest : public ::testing::Test, public FileEngine::Client {
 protected:
  EngineClassTest() {
    auto fake = std::make_unique<FakeBackend>();
    fake_ = fake.get();
    engine_ = std::make_unique<FileEngine>(std::move(fake));
    compacting_ = std::make_unique<IoOrigin>(engine_->scheduler());
    flushing_ = std::make_unique<IoOrigin>(engine_->scheduler());
    deep_ = Open(compacting_.get(), IoClass::kBackground);
    flush_ = Open(flushing_.get(), IoClass::kCritical);
  }
  void TearDown() override {
    engine_->Discard(deep_, 998);
    engine_->Discard(flush_, 999);
    for (engine_->Poll(); !engine_->idle(); engine_->Poll()) {
      if (!fake_->open.empty()) fake_->FinishWell(0);
    }
  }
  void OnIoComplete(uint64_t cookie, int64_t result) override { results_[cookie] = result; }

  FileEngine::File* Open(IoOrigin* origin, IoClass io_class) {
    return engine_->Open(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)), this, false, true, origin,
                         io_class);
  }
  void Write(FileEngine::File* f, uint64_t cookie, uint64_t offset = 0,
             uint64_t bytes = kMegabyte) {
    engine_->Write(f, nullptr, -1, bytes, offset, cookie);
  }
  size_t Started(IoClass c) {
    engine_->Poll();
    return static_cast<size_t>(std::count_if(fake_->open.begin(), fake_->open.end(),
                                             [c](const IoRequest& r) { return r.io_class == c; }));
  }
  // Fills the window of deep compactions, with as much waiting behind it.
  size_t FillDeep() {
    for (uint64_t i = 0; i < 30; ++i) Write(deep_, 100 + i, i * kMegabyte);
    return Started(IoClass::kBackground);
  }

  FakeBackend* fake_;
  std::unique_ptr<FileEngine> engine_;
  std::unique_ptr<IoOrigin> compacting_, flushing_;
  FileEngine::File* deep_;
  FileEngine::File* flush_;
  std::map<uint64_t, int64_t> results_;
};

TEST_F(EngineClassTest, Flush_CompactionWaits_StartsAtOnce) {
  const size_t window = FillDeep();
  EXPECT_EQ(window, 15u);
  EXPECT_FALSE(engine_->needs_polling()) << "the worker would spin until the device is done";
  Write(flush_, 1);
  EXPECT_TRUE(engine_->needs_polling());
  EXPECT_EQ(Started(IoClass::kCritical), 1u);
  EXPECT_EQ(Started(IoClass::kBackground), window);
  // Each that ends lets the next one start.
  fake_->FinishWell(0);
  EXPECT_EQ(Started(IoClass::kBackground), window);
  EXPECT_EQ(results_.count(100), 1u);
}

TEST_F(EngineClassTest, Flush_BackEndFull_GetsTheNextPlace) {
  fake_->depth = 8;
  EXPECT_EQ(FillDeep(), 8u);
  EXPECT_TRUE(engine_->needs_polling()) << "there may be room any time";
  Write(flush_, 1);
  EXPECT_EQ(Started(IoClass::kCritical), 0u);
  fake_->FinishWell(0);
  EXPECT_EQ(Started(IoClass::kCritical), 1u);
  EXPECT_EQ(Started(IoClass::kBackground), 7u);
}

// What waits for its share is in flight to the rules of its file.
TEST_F(EngineClassTest, Sync_WritesNotStarted_WaitsForThem) {
  FillDeep();
  engine_->RangeSync(deep_, 20 * kMegabyte, kMegabyte, 1);
  engine_->Sync(deep_, 2);
  engine_->Poll();
  for (int i = 0; i < 30; ++i) {
    for (const IoRequest& r : fake_->open) {
      EXPECT_NE(r.op, IoOp::kSync) << "after " << i << " of 30 writes";
      if (r.op == IoOp::kRangeSync) {
        EXPECT_EQ(results_.count(120), 1u) << "it overlaps that write";
      }
    }
    const auto write = std::find_if(fake_->open.begin(), fake_->open.end(),
                                    [](const IoRequest& r) { return r.op == IoOp::kWrite; });
    ASSERT_NE(write, fake_->open.end());
    fake_->FinishWell(static_cast<size_t>(write - fake_->open.begin()));
    engine_->Poll();
  }
  ASSERT_EQ(fake_->open.size(), 1u);
  EXPECT_EQ(fake_->open[0].op, IoOp::kRangeSync);
  fake_->FinishWell(0);
  engine_->Poll();
  ASSERT_EQ(fake_->open.size(), 1u);
  EXPECT_EQ(fake_->open[0].op, IoOp::kSync);
}

TEST_F(EngineClassTest, Read_OfAnotherClassThanItsFile_CountsInItsOwn) {
  FillDeep();
  engine_->Read(deep_, nullptr, -1, kMegabyte, 0, 1, IoClass::kElevated);
  EXPECT_EQ(Started(IoClass::kElevated), 1u);
  EXPECT_EQ(compacting_->counters()[static_cast<size_t>(IoClass::kElevated)].requests, 1u);
}

// A transfer in parts takes its turn with each of them.
TEST_F(EngineClassTest, LargeWrite_TakesOnePartAtATime) {
  Write(deep_, 1, 0, 64 * kMegabyte);
  EXPECT_EQ(Started(IoClass::kBackground), 1u);
  EXPECT_EQ(fake_->open[0].length, FileEngine::kMaxTransfer);
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(results_.count(1), 0u);
    fake_->FinishWell(0);
    engine_->Poll();
  }
  EXPECT_EQ(results_[1], static_cast<int64_t>(64 * kMegabyte));
  EXPECT_EQ(compacting_->counters()[static_cast<size_t>(IoClass::kBackground)].bytes,
            64 * kMegabyte);
}

}  // namespace
}  // namespace pulse
