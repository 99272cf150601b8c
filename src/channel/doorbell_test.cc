#include "channel/doorbell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace pulse {
namespace {

bool Readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

// Spins, but lets go of a CPU that the other side may need.
template <typename Ready>
void SpinUntil(Ready ready) {
  for (int spins = 0; !ready(); ++spins) {
    if (spins > 500) std::this_thread::yield();
  }
}

struct Bell {
  Bell() : bell(Doorbell::CreateEventFd().value(), &flag) {}

  // Sleeps, without a limit, until `ready()`.
  template <typename Ready>
  void SleepUntil(Ready ready) {
    while (!ready()) {
      bell.PrepareSleep();
      if (!ready()) {
        pollfd p{bell.fd(), POLLIN, 0};
        poll(&p, 1, -1);
        ++sleeps;
      }
      bell.FinishSleep();
    }
  }

  std::atomic<uint32_t> flag{0};
  Doorbell bell;
  int sleeps = 0;
};

TEST(DoorbellTest, TheDescriptorIsNonBlockingAndCloseOnExec) {
  const auto fd = Doorbell::CreateEventFd();
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_NE(fcntl(fd->get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(DoorbellTest, RingDoesNothingWhenNobodySleeps) {
  Bell b;
  for (int i = 0; i < 100; ++i) b.bell.Ring();
  EXPECT_FALSE(Readable(b.bell.fd()));
}

TEST(DoorbellTest, RingWakesASleeperOnce) {
  Bell b;
  b.bell.PrepareSleep();
  EXPECT_EQ(b.flag, 1u);
  b.bell.Ring();
  EXPECT_EQ(b.flag, 0u) << "the waker lowers the flag, so that the next Ring is cheap";
  b.bell.Ring();
  uint64_t count = 0;
  ASSERT_EQ(read(b.bell.fd(), &count, sizeof(count)), static_cast<ssize_t>(sizeof(count)));
  EXPECT_EQ(count, 1u);
}

TEST(DoorbellTest, FinishSleepLowersTheFlagAndDrains) {
  Bell b;
  b.bell.PrepareSleep();
  b.bell.Ring();
  b.bell.FinishSleep();
  EXPECT_FALSE(Readable(b.bell.fd()));
  b.bell.PrepareSleep();
  b.bell.FinishSleep();
  EXPECT_EQ(b.flag, 0u);
  b.bell.Ring();
  EXPECT_FALSE(Readable(b.bell.fd()));
}

TEST(DoorbellTest, KickNeedsNoSleeper) {
  Bell b;
  b.bell.Kick();
  EXPECT_TRUE(Readable(b.bell.fd()));
}

TEST(DoorbellTest, KickNeverBlocksWhenTheCounterIsFull) {
  Bell b;
  const uint64_t most = ~uint64_t{0} - 1;
  ASSERT_EQ(write(b.bell.fd(), &most, sizeof(most)), static_cast<ssize_t>(sizeof(most)));
  b.bell.Kick();
  EXPECT_TRUE(Readable(b.bell.fd()));
}

// Both sides at the same moment, over and over: "publish, then look" must not become "look, then
// publish" on either side, or the sleeper sees no work and the waker no sleeper.
TEST(DoorbellTest, AtLeastOneSideSeesTheOther) {
  constexpr uint32_t kRounds = 100'000;
  Bell b;
  alignas(64) std::atomic<uint32_t> work{0};
  alignas(64) std::atomic<uint32_t> start{0};
  alignas(64) std::atomic<uint32_t> rung{0};
  std::thread waker([&] {
    for (uint32_t i = 1; i <= kRounds; ++i) {
      SpinUntil([&] { return start.load(std::memory_order_acquire) >= i; });
      work.store(i, std::memory_order_release);
      b.bell.Ring();
      rung.store(i, std::memory_order_release);
    }
  });
  uint32_t lost = 0;
  for (uint32_t i = 1; i <= kRounds; ++i) {
    start.store(i, std::memory_order_release);
    for (uint32_t spin = 0; spin < i % 64; ++spin) CpuPause();  // meet the waker at every distance
    b.bell.PrepareSleep();
    const bool saw_work = work.load(std::memory_order_acquire) == i;
    SpinUntil([&] { return rung.load(std::memory_order_acquire) >= i; });
    lost += !saw_work && !Readable(b.bell.fd());
    b.bell.FinishSleep();
  }
  waker.join();
  EXPECT_EQ(lost, 0u) << "of " << kRounds << " wake-ups";
}

// A wake-up that gets lost leaves both threads asleep: the test then hangs and ctest ends it.
TEST(DoorbellTest, NoWakeUpIsLostBetweenTwoThreads) {
  constexpr uint64_t kRounds = 20'000;
  Bell ping, pong;
  alignas(64) std::atomic<uint64_t> sent{0};
  alignas(64) std::atomic<uint64_t> answered{0};
  std::thread peer([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      ping.SleepUntil([&] { return sent.load(std::memory_order_acquire) >= i; });
      answered.store(i, std::memory_order_release);
      pong.bell.Ring();
    }
  });
  for (uint64_t i = 1; i <= kRounds; ++i) {
    sent.store(i, std::memory_order_release);
    ping.bell.Ring();
    pong.SleepUntil([&] { return answered.load(std::memory_order_acquire) >= i; });
  }
  peer.join();
  EXPECT_EQ(answered, kRounds);
  EXPECT_GT(ping.sleeps + pong.sleeps, 0) << "nobody ever slept: nothing was tested";
}

TEST(DoorbellTest, NoWakeUpIsLostWithSeveralWakers) {
  constexpr uint64_t kEach = 20'000;
  constexpr int kWakers = 3;
  Bell b;
  alignas(64) std::atomic<uint64_t> work{0};
  alignas(64) std::atomic<uint64_t> taken{0};
  std::vector<std::thread> wakers;
  for (int w = 0; w < kWakers; ++w) {
    wakers.emplace_back([&] {
      for (uint64_t i = 0; i < kEach; ++i) {
        work.fetch_add(1, std::memory_order_release);
        b.bell.Ring();
        // Now and then let the sleeper catch up, so that it sleeps again.
        while (i % 16 == 0 && taken.load(std::memory_order_acquire) + 64 < work.load()) {
          std::this_thread::yield();
        }
      }
    });
  }
  while (taken < kWakers * kEach) {
    b.SleepUntil([&] { return work.load(std::memory_order_acquire) > taken; });
    taken.store(work.load(std::memory_order_acquire), std::memory_order_release);
  }
  for (std::thread& t : wakers) t.join();
  EXPECT_EQ(taken, kWakers * kEach);
}

}  // namespace
}  // namespace pulse
