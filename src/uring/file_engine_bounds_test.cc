// FileEngine at the edges of what may be asked for: lengths of gigabytes, a range without an end,
// reads that never stop, and errors of the kernel that look like none.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "base/testing.h"
#include "uring/fake_backend.h"
#include "uring/file_engine.h"

namespace pulse {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kGiB = uint64_t{1} << 30;

class EngineBoundsTest : public ::testing::Test, public FileEngine::Client {
 protected:
  EngineBoundsTest() {
    auto fake = std::make_unique<FakeBackend>();
    fake_ = fake.get();
    engine_ = std::make_unique<FileEngine>(std::move(fake));
    file_ = engine_->Open(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)), this, false);
  }
  void OnIoComplete(uint64_t cookie, int64_t result) override { results_[cookie] = result; }
  void TearDown() override {
    engine_->Discard(file_, 999);
    for (engine_->Poll(); !engine_->idle(); engine_->Poll()) {
      if (!fake_->open.empty()) fake_->FinishWell(0);
    }
  }
  size_t Started() {
    engine_->Poll();
    return fake_->open.size();
  }
  void FinishWell(size_t at) {
    fake_->FinishWell(at);
    engine_->Poll();
  }

  FakeBackend* fake_;
  std::unique_ptr<FileEngine> engine_;
  FileEngine::File* file_;
  std::map<uint64_t, int64_t> results_;
};

// io_uring's lengths have 32 bits: 4 GiB would be nothing, and 5 GiB would be one.
TEST_F(EngineBoundsTest, Transfer_OfGigabytes_ReachesTheBackEndInPieces) {
  engine_->Write(file_, nullptr, -1, 5 * kGiB + 7, kBlock, 1);
  engine_->Read(file_, nullptr, -1, 4 * kGiB, 0, 2);
  uint64_t moved[2] = {};
  for (int i = 0; i < 10'000 && results_.size() < 2; ++i) {
    if (Started() == 0) continue;
    const IoRequest r = fake_->open[0];
    const bool write = r.op == IoOp::kWrite;
    ASSERT_LE(r.length, FileEngine::kMaxTransfer);
    EXPECT_EQ(r.offset, (write ? kBlock : 0) + moved[write]);
    moved[write] += r.length;
    FinishWell(0);
  }
  EXPECT_EQ(results_[1], static_cast<int64_t>(5 * kGiB + 7));
  EXPECT_EQ(results_[2], static_cast<int64_t>(4 * kGiB));
}

TEST_F(EngineBoundsTest, RangeSync_LongerThanAGigabyte_ReachesToTheEndOfTheFile) {
  const uint64_t lengths[] = {kGiB + 1, 4 * kGiB, 4 * kGiB + kBlock, uint64_t{1} << 62};
  for (uint64_t length : lengths) {
    engine_->RangeSync(file_, kBlock, length, length);
    ASSERT_EQ(Started(), 1u);
    EXPECT_EQ(fake_->open[0].offset, kBlock);
    EXPECT_EQ(fake_->open[0].length, 0u) << "0 is: to the end";
    FinishWell(0);
    EXPECT_EQ(results_.at(length), 0);
  }
  engine_->RangeSync(file_, kBlock, kGiB, 1);
  ASSERT_EQ(Started(), 1u);
  EXPECT_EQ(fake_->open[0].length, kGiB);
}

// sync_file_range takes a length of 0 for everything from the offset on.
TEST_F(EngineBoundsTest, RangeSync_LengthZero_WaitsForEveryWriteBehindItsOffset) {
  engine_->Write(file_, nullptr, -1, kBlock, 0, 1);
  engine_->Write(file_, nullptr, -1, kBlock, 500 * kGiB, 2);
  engine_->RangeSync(file_, kBlock, 0, 3);
  ASSERT_EQ(Started(), 2u) << "it overlaps the second write";
  FinishWell(1);
  ASSERT_EQ(Started(), 2u) << "and not the first";
  EXPECT_EQ(fake_->open[1].op, IoOp::kRangeSync);
  EXPECT_EQ(fake_->open[1].length, 0u);
  // Ranges whose end no number can hold behave in the same way.
  engine_->RangeSync(file_, kBlock, ~uint64_t{0}, 4);
  EXPECT_EQ(Started(), 3u);
  engine_->Write(file_, nullptr, -1, kBlock, 900 * kGiB, 5);
  engine_->RangeSync(file_, 2 * kBlock, ~uint64_t{0} - kBlock, 6);
  EXPECT_EQ(Started(), 4u);
}

// Each read that ends is followed by the next: without a bound the sync would never start.
TEST_F(EngineBoundsTest, Sync_ReadsThatNeverStop_IsNotKeptFromStarting) {
  constexpr uint64_t kSync = 1'000'000;
  uint64_t next = 1;
  for (; next <= 2; ++next) engine_->Read(file_, nullptr, -1, kBlock, 0, next);
  engine_->Sync(file_, kSync);
  while (results_.count(kSync) == 0 && next < 10'000) {
    engine_->Read(file_, nullptr, -1, kBlock, 0, next++);
    if (Started() > 0) FinishWell(0);
  }
  EXPECT_EQ(results_.count(kSync), 1u) << "the sync waits for ever";
  // Who waited behind it goes on, in order, and the next sync gets its turn too.
  engine_->Sync(file_, kSync + 1);
  while (results_.count(kSync + 1) == 0 && next < 20'000) {
    engine_->Read(file_, nullptr, -1, kBlock, 0, next++);
    if (Started() > 0) FinishWell(0);
  }
  EXPECT_EQ(results_.count(kSync + 1), 1u);
  for (engine_->Poll(); !engine_->idle(); engine_->Poll()) {
    if (!fake_->open.empty()) fake_->FinishWell(0);
  }
  for (uint64_t i = 1; i < next; ++i) {
    ASSERT_EQ(results_.count(i), 1u) << "read " << i << " was lost";
    ASSERT_EQ(results_[i], static_cast<int64_t>(kBlock));
  }
}

// The kernel cancels requests of its own accord, too: that is no success.
TEST(UringCancelTest, Request_Cancelled_IsAnError) {
  IoBackendOptions options;
  auto made = CreateUringBackend(options);
  if (!made.ok()) GTEST_SKIP() << "not to be had here: " << made.status();
  IoBackend& backend = **made;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  char byte = 0;
  IoRequest r{};
  r.op = IoOp::kRead;
  r.fd = reader.get();
  r.buffer = &byte;
  r.length = 1;
  r.offset = ~uint64_t{0};  // the file's own position, as a pipe wants it
  r.tag = 5;
  ASSERT_TRUE(backend.Enqueue(r));
  backend.Submit();
  io_uring_sync_cancel_reg cancel{};
  cancel.fd = -1;
  cancel.flags = IORING_ASYNC_CANCEL_ANY;
  cancel.timeout.tv_sec = -1;
  cancel.timeout.tv_nsec = -1;
  // The back-end's descriptor is that of its ring.
  const long rc =
      syscall(SYS_io_uring_register, backend.wait_fd(), IORING_REGISTER_SYNC_CANCEL, &cancel, 1);
  if (rc < 0) {
    ASSERT_EQ(write(writer.get(), "x", 1), 1);  // let the read end
  }
  IoResult result{};
  ASSERT_TRUE(testing_util::Eventually([&] { return backend.Harvest(&result, 1) != 0; }));
  if (rc < 0) GTEST_SKIP() << "this kernel cancels nothing on request";
  EXPECT_EQ(result.tag, 5u);
  EXPECT_EQ(result.result, -ECANCELED);
}

}  // namespace
}  // namespace pulse
