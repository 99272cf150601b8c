// The rings that the progress ring is compared with: a comparison with rings that lose messages
// would be worth nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "bench/rivals/farm_ring.h"
#include "bench/rivals/lock_ring.h"
#include "channel/ring_test_util.h"

namespace pulse {
namespace {

using testing_util::RealRing;

constexpr RingShape kShape{.capacity = 8192, .limit = 4096};
constexpr FarmShape kFarm{.slots = 64};
constexpr uint64_t kProducers = 6;
constexpr uint64_t kMessages = 10'000;

class RivalRingsTest : public ::testing::TestWithParam<MoverKind> {};
INSTANTIATE_TEST_SUITE_P(Movers, RivalRingsTest,
                         ::testing::Values(MoverKind::kShared, MoverKind::kVmRead),
                         [](const auto& i) { return std::string(MoverName(i.param)); });

// Messages are two words: producer and count.
template <typename Ring>
void ProduceFrom(Ring* ring) {
  std::vector<std::thread> threads;
  for (uint64_t self = 0; self < kProducers; ++self) {
    threads.emplace_back([ring, self] {
      for (uint64_t i = 0; i < kMessages; ++i) {
        const uint64_t words[2] = {self, i};
        while (ring->TryPush(3, Piece{words, sizeof(words)}) != PushResult::kDone) {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

// Checks what comes, in the order of each producer.
class Checker {
 public:
  void See(const RingMessage& m) {
    uint64_t words[2] = {};
    if (m.kind != 3 || m.length != sizeof(words)) {
      ++wrong_;
      return;
    }
    std::memcpy(words, m.data, sizeof(words));
    wrong_ += words[0] >= kProducers || words[1] != next_[words[0]]++;
    --left_;
  }
  uint64_t left() const { return left_; }
  uint64_t wrong() const { return wrong_; }

 private:
  uint64_t next_[kProducers] = {};
  uint64_t left_ = kProducers * kMessages;
  uint64_t wrong_ = 0;
};

uint64_t ConsumeBatches(LockConsumer ring) {
  Checker checker;
  while (checker.left() > 0 && checker.wrong() == 0 && !ring.corrupt()) {
    const auto some = ring.Fetch();
    if (!some.ok()) return 1;
    if (!*some) std::this_thread::yield();
    for (RingMessage m; ring.Next(&m);) {
      checker.See(m);
      ring.Release(m.end);
    }
  }
  return checker.wrong() + ring.corrupt();
}

uint64_t ConsumeOneByOne(FarmConsumer ring) {
  Checker checker;
  while (checker.left() > 0 && checker.wrong() == 0) {
    RingMessage m;
    const auto some = ring.Fetch(&m);
    if (!some.ok()) return 1;
    if (!*some) {
      std::this_thread::yield();
      continue;
    }
    checker.See(m);
    if (!ring.Release().ok()) return 1;
  }
  return checker.wrong();
}

template <typename Lock>
void ManyThreadsWithALock(MoverKind kind) {
  RealRing ring(kind, kShape.capacity);
  LockProducer<Lock> producer(ring.region.data(), kShape);
  std::thread host([&] { ProduceFrom(&producer); });
  EXPECT_EQ(ConsumeBatches(MakeLockConsumer(ring.mover.get(), kShape).value()), 0u);
  host.join();
}

TEST_P(RivalRingsTest, Mutex_ManyThreads_InOrder) { ManyThreadsWithALock<std::mutex>(GetParam()); }
TEST_P(RivalRingsTest, SpinLock_ManyThreads_InOrder) { ManyThreadsWithALock<SpinLock>(GetParam()); }

TEST_P(RivalRingsTest, Flags_ManyThreads_InOrder) {
  RealRing ring(GetParam(), RingBytes(kFarm));
  FarmProducer producer(ring.region.data(), kFarm);
  std::thread host([&] { ProduceFrom(&producer); });
  EXPECT_EQ(ConsumeOneByOne(MakeFarmConsumer(ring.mover.get(), kFarm).value()), 0u);
  host.join();
}

TEST_P(RivalRingsTest, Push_FullRing_SucceedsOnceFreed) {
  RealRing locked(GetParam(), kShape.capacity), flagged(GetParam(), RingBytes(kFarm));
  LockProducer<> lock_producer(locked.region.data(), kShape);
  auto lock_consumer = MakeLockConsumer(locked.mover.get(), kShape).value();
  FarmProducer farm_producer(flagged.region.data(), kFarm);
  auto farm_consumer = MakeFarmConsumer(flagged.mover.get(), kFarm).value();
  RingMessage m;
  for (int lap = 0; lap < 3; ++lap) {
    size_t n = 0;
    while (lock_producer.TryPush(1, {"12345678", 8}) == PushResult::kDone) ++n;
    EXPECT_EQ(n, kShape.limit / 16);
    while (lock_consumer.Fetch().value()) {
      for (; lock_consumer.Next(&m); --n) lock_consumer.Release(m.end);
    }
    EXPECT_EQ(n, 0u);

    while (farm_producer.TryPush(1, {"12345678", 8}) == PushResult::kDone) ++n;
    EXPECT_EQ(n, kFarm.slots);
    while (farm_consumer.Fetch(&m).value()) {
      EXPECT_EQ(std::string(m.data, m.length), "12345678");
      ASSERT_TRUE(farm_consumer.Release().ok());
      --n;
    }
    EXPECT_EQ(n, 0u);
  }
  EXPECT_EQ(farm_producer.TryPush(1, {"", FarmSlot::kPayload + 1}), PushResult::kRefused);
}

TEST_P(RivalRingsTest, Fetch_ImpossibleTailOrLength_IsDataLoss) {
  RealRing locked(GetParam(), kShape.capacity), flagged(GetParam(), RingBytes(kFarm));
  auto lock_consumer = MakeLockConsumer(locked.mover.get(), kShape).value();
  PointersOf(locked.region.data())->tail = kShape.limit + 8;
  EXPECT_TRUE(absl::IsDataLoss(lock_consumer.Fetch().status()));

  FarmProducer farm_producer(flagged.region.data(), kFarm);
  auto farm_consumer = MakeFarmConsumer(flagged.mover.get(), kFarm).value();
  ASSERT_EQ(farm_producer.TryPush(1, {"12345678", 8}), PushResult::kDone);
  reinterpret_cast<FarmSlot*>(flagged.region.data() + wire::kPage)->header.length = 49;
  RingMessage m;
  EXPECT_TRUE(absl::IsDataLoss(farm_consumer.Fetch(&m).status()));
  EXPECT_FALSE(MakeFarmConsumer(flagged.mover.get(), {.slots = 256}).ok());
  EXPECT_FALSE(MakeFarmConsumer(flagged.mover.get(), {.slots = 63}).ok());
}

TEST(RivalRingsProcessTest, Flags_VmReadAcrossProcesses_InOrder) {
  auto region = Region::CreatePrivate(RingBytes(kFarm));
  ASSERT_TRUE(region.ok());
  FarmProducer producer(region->data(), kFarm);
  const pid_t parent = getpid();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ProduceFrom(&producer);
    testing_util::StayUntilKilled(parent);  // its memory is needed until then
  }
  auto mover =
      Mover::CreateVmRead(child, reinterpret_cast<uintptr_t>(region->data()), RingBytes(kFarm));
  if (mover.ok()) {
    EXPECT_EQ(ConsumeOneByOne(MakeFarmConsumer(mover->get(), kFarm).value()), 0u);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (absl::IsPermissionDenied(mover.status())) GTEST_SKIP() << mover.status();
  ASSERT_TRUE(mover.ok()) << mover.status();
}

}  // namespace
}  // namespace pulse
