// The model of the link, on times of the test's own; and the mover, whose waits are checked from
// below only.
#include "vdpu/priced_mover.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "channel/region.h"
#include "vdpu/dma_link.h"

namespace pulse::vdpu {
namespace {

Profile TestProfile(double latency_us, double gb_s, double operation_us) {
  Profile p;
  p.dma_latency_us = latency_us;
  p.dma_bandwidth_gb_s = gb_s;
  p.dma_operation_us = operation_us;
  return p;
}

TEST(DmaLinkTest, Transfer_AloneOnTheLink_TakesLatencyAndItsBytes) {
  DmaLink link(TestProfile(10, 2, 1));
  EXPECT_EQ(link.Alone(4000), 10'000 + 1000 + 2000);
  EXPECT_EQ(link.Book(1'000'000, 4000), 1'000'000 + 13'000);
}

TEST(DmaLinkTest, Transfers_AtTheSameTime_ShareBandwidthNotLatency) {
  DmaLink link(TestProfile(10, 1, 0));
  EXPECT_EQ(link.Book(0, 1000), 11'000);
  EXPECT_EQ(link.Book(0, 1000), 12'000) << "behind the first, but not behind its latency";
  EXPECT_EQ(link.Book(1500, 1000), 13'000);
  EXPECT_EQ(link.Book(50'000, 1000), 61'000) << "the link had been free";
}

TEST(DmaLinkTest, ShortTransfers_ManyAtOnce_EachTakesItsOperationTime) {
  DmaLink link(TestProfile(0, 1, 5));
  int64_t last = 0;
  for (int i = 0; i < 100; ++i) last = link.Book(0, 8);
  EXPECT_EQ(last, 100 * (5000 + 8));
}

TEST(DmaLinkTest, Book_FromManyThreads_GivesNoMoreThanThereIs) {
  DmaLink link(TestProfile(0, 1, 0));
  std::vector<std::thread> threads;
  std::atomic<int64_t> last{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        const int64_t at = link.Book(0, 10);
        int64_t seen = last;
        while (seen < at && !last.compare_exchange_weak(seen, at)) {
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(last, 4 * 1000 * 10);
}

constexpr size_t kBytes = 64 << 10;

class PricedMoverTest : public ::testing::TestWithParam<MoverKind> {
 protected:
  void SetUp() override {
    auto region = Region::CreatePrivate(kBytes);
    ASSERT_TRUE(region.ok());
    host_ = *std::move(region);
  }
  // Null, and the test skipped, where the kernel forbids it.
  std::unique_ptr<Mover> Inner() {
    if (GetParam() == MoverKind::kShared) return Mover::CreateShared(host_.data(), kBytes);
    auto made = Mover::CreateVmRead(getpid(), reinterpret_cast<uintptr_t>(host_.data()), kBytes);
    EXPECT_TRUE(made.ok() || absl::IsPermissionDenied(made.status())) << made.status();
    return made.ok() ? *std::move(made) : nullptr;
  }

  // A clock that stands, and counts who would wait.
  MoverClock Clock() {
    return {[this] { return now_; }, [this](int64_t) { ++waits_; }};
  }

  Region host_;
  int64_t now_ = 1'000'000'000;
  int waits_ = 0;
};

TEST_P(PricedMoverTest, Move_EitherWay_WaitsForThePrice) {
  DmaLink link(TestProfile(300, 1, 0));
  auto inner = Inner();
  if (inner == nullptr) GTEST_SKIP() << "no vmread here";
  auto m = CreatePricedMover(std::move(inner), &link, 0);
  EXPECT_EQ(m->kind(), GetParam());
  EXPECT_EQ(m->size(), kBytes);
  std::memset(host_.data(), 7, kBytes);
  int64_t begin = NowNanos();
  ASSERT_TRUE(m->Pull(0, kBytes).ok());
  EXPECT_GE(NowNanos() - begin, link.Alone(kBytes));
  EXPECT_EQ(m->local()[kBytes - 1], 7);
  m->local()[5] = 9;
  begin = NowNanos();
  ASSERT_TRUE(m->Push(5, 1).ok());
  EXPECT_GE(NowNanos() - begin, link.Alone(1));
  EXPECT_EQ(host_.data()[5], 9);
  const MoverSpan spans[] = {{0, 1000}, {8000, 1000}};
  begin = NowNanos();
  ASSERT_TRUE(m->PullSpans(spans, 2).ok());
  ASSERT_TRUE(m->PushSpans(spans, 2).ok());
  EXPECT_GE(NowNanos() - begin, 2 * link.Alone(2000));
}

TEST_P(PricedMoverTest, Start_SlowLink_DoesNotWaitAndSaysWhen) {
  DmaLink link(TestProfile(0, 1, 0));
  auto inner = Inner();
  if (inner == nullptr) GTEST_SKIP() << "no vmread here";
  auto m = CreatePricedMover(std::move(inner), &link, 0, Clock());
  auto other = CreatePricedMover(Inner(), &link, 0, Clock());
  std::memset(host_.data(), 3, kBytes);
  int64_t first = 0;
  int64_t second = 0;
  int64_t third = 0;
  ASSERT_TRUE(m->StartPull(0, kBytes, &first).ok());
  ASSERT_TRUE(other->StartPull(0, kBytes, &second).ok());
  ASSERT_TRUE(m->StartPush(0, kBytes, &third).ok());
  EXPECT_EQ(first, now_ + link.Alone(kBytes));
  EXPECT_EQ(second, first + link.Alone(kBytes)) << "another queue has a link of its own";
  EXPECT_EQ(third, second + link.Alone(kBytes)) << "the other direction has a link of its own";
  EXPECT_EQ(waits_, 0) << "it waited";
  ASSERT_TRUE(m->Pull(0, kBytes).ok());
  ASSERT_TRUE(m->Push(0, kBytes).ok());
  EXPECT_EQ(waits_, 2) << "these do";
  int64_t none = 1;
  ASSERT_TRUE(m->StartPull(0, 0, &none).ok());
  EXPECT_EQ(none, 0);
}

TEST_P(PricedMoverTest, SetUp_OfOneMover_DelaysItsOwnTransfersOnly) {
  DmaLink link(TestProfile(1, 1, 0));
  auto inner = Inner();
  if (inner == nullptr) GTEST_SKIP() << "no vmread here";
  constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;
  auto slow = CreatePricedMover(std::move(inner), &link, kHour, Clock());
  auto ready = CreatePricedMover(Inner(), &link, 0, Clock());
  int64_t at = 0;
  ASSERT_TRUE(slow->StartPull(0, 1000, &at).ok());
  EXPECT_EQ(at, now_ + kHour + link.Alone(1000));
  ASSERT_TRUE(ready->StartPull(0, 1000, &at).ok());
  EXPECT_LT(at, now_ + kHour);
}

INSTANTIATE_TEST_SUITE_P(Movers, PricedMoverTest,
                         ::testing::Values(MoverKind::kShared, MoverKind::kVmRead),
                         [](const auto& p) { return std::string(MoverName(p.param)); });

TEST(PricedMoverErrorTest, Copy_MemoryUnmapped_ErrorIsReported) {
  auto gone = Region::CreatePrivate(kBytes);
  ASSERT_TRUE(gone.ok());
  auto inner = Mover::CreateVmRead(getpid(), reinterpret_cast<uintptr_t>(gone->data()), kBytes);
  if (!inner.ok()) GTEST_SKIP() << inner.status();
  *gone = Region();  // unmapped
  DmaLink link(TestProfile(1, 1, 0));
  auto m = CreatePricedMover(*std::move(inner), &link, 0);
  int64_t at = 0;
  EXPECT_FALSE(m->StartPull(0, 100, &at).ok());
  EXPECT_FALSE(m->Pull(0, 100).ok());
  EXPECT_FALSE(m->Push(0, 100).ok());
}

}  // namespace
}  // namespace pulse::vdpu
