#include "channel/doorbell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/testing.h"

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
  Bell() {
    Doorbell::Ends ends = Doorbell::CreatePair().value();
    waker = Doorbell(std::move(ends.ring), &flag);
    bell = Doorbell(std::move(ends.sleep), &flag);
  }

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
  Doorbell waker;
  Doorbell bell;  // the sleeper's end
  int sleeps = 0;
};

// Runs `call`, and ends the test with a failure if it blocks.
template <typename Call>
void ExpectReturns(Call call) {
  std::atomic<bool> returned{false};
  std::thread thread([&] {
    call();
    returned = true;
  });
  const bool in_time = testing_util::Eventually([&] { return returned.load(); });
  if (!in_time) {
    ADD_FAILURE() << "blocks";
    std::fflush(nullptr);
    std::abort();  // the thread can be neither joined nor left
  }
  thread.join();
}

void MakeBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  ASSERT_EQ(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK), 0);
}

TEST(DoorbellTest, CreatePair_BothEnds_AreCloseOnExec) {
  const auto ends = Doorbell::CreatePair();
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_NE(fcntl(ends->ring.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(ends->sleep.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(DoorbellTest, CheckRingEnd_NotAUnixStreamSocket_IsRefused) {
  const auto ends = Doorbell::CreatePair();
  ASSERT_TRUE(ends.ok());
  EXPECT_TRUE(Doorbell::CheckRingEnd(ends->ring.get()).ok());
  const UniqueFd others[] = {UniqueFd(eventfd(0, EFD_CLOEXEC)),
                             UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)),
                             UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
                             UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), UniqueFd()};
  for (const UniqueFd& fd : others) {
    EXPECT_TRUE(absl::IsInvalidArgument(Doorbell::CheckRingEnd(fd.get()))) << fd.get();
  }
}

// The peer holds the same descriptor, and may change what both share: its status flags.
TEST(DoorbellTest, Bell_PeerMakesItBlocking_BlocksNeitherSide) {
  Bell b;
  MakeBlocking(b.waker.end());
  MakeBlocking(b.bell.end());
  ExpectReturns([&] { b.bell.FinishSleep(); });  // nothing to read
  ExpectReturns([&] {
    for (int i = 0; i < 100'000; ++i) b.waker.Kick();  // nobody reads: no room
  });
  EXPECT_TRUE(Readable(b.bell.fd()));
  ExpectReturns([&] {
    while (Readable(b.bell.fd())) b.bell.FinishSleep();
  });
}

TEST(DoorbellTest, FinishSleep_WakerGone_SaysHungUpAndHasNoFd) {
  Bell b;
  b.waker.Kick();
  b.waker = Doorbell();
  EXPECT_TRUE(Readable(b.bell.fd()));
  b.bell.FinishSleep();  // the wake-up
  b.bell.FinishSleep();  // the end
  EXPECT_TRUE(b.bell.hung_up());
  EXPECT_EQ(b.bell.fd(), -1) << "poll would report the end for ever";
  b.bell.FinishSleep();
}

TEST(DoorbellTest, Kick_SleeperGone_RaisesNoSignal) {
  Bell b;
  b.bell = Doorbell();
  b.waker.Kick();  // and no SIGPIPE
}

TEST(DoorbellTest, Ring_NobodySleeps_SendsNothing) {
  Bell b;
  for (int i = 0; i < 100; ++i) b.waker.Ring();
  EXPECT_FALSE(Readable(b.bell.fd()));
}

TEST(DoorbellTest, Ring_TwiceForOneSleeper_SendsOneWakeUp) {
  Bell b;
  b.bell.PrepareSleep();
  EXPECT_EQ(b.flag, 1u);
  b.waker.Ring();
  EXPECT_EQ(b.flag, 0u) << "the waker lowers the flag, so that the next Ring is cheap";
  b.waker.Ring();
  char wakes[8];
  EXPECT_EQ(recv(b.bell.fd(), wakes, sizeof(wakes), MSG_DONTWAIT), 1);
}

TEST(DoorbellTest, FinishSleep_RungOrNot_LowersFlagAndDrains) {
  Bell b;
  b.bell.PrepareSleep();
  b.waker.Ring();
  b.bell.FinishSleep();
  EXPECT_FALSE(Readable(b.bell.fd()));
  b.bell.PrepareSleep();
  b.bell.FinishSleep();
  EXPECT_EQ(b.flag, 0u);
  b.waker.Ring();
  EXPECT_FALSE(Readable(b.bell.fd()));
}

TEST(DoorbellTest, Kick_NobodySleeps_StillSendsAWakeUp) {
  Bell b;
  b.waker.Kick();
  EXPECT_TRUE(Readable(b.bell.fd()));
}

// Both sides at the same moment, over and over: "publish, then look" must not become "look, then
// publish" on either side, or the sleeper sees no work and the waker no sleeper.
TEST(DoorbellTest, RingAndSleep_AtTheSameMoment_LoseNoWakeUp) {
  constexpr uint32_t kRounds = 100'000;
  Bell b;
  alignas(64) std::atomic<uint32_t> work{0};
  alignas(64) std::atomic<uint32_t> start{0};
  alignas(64) std::atomic<uint32_t> rung{0};
  std::thread waker([&] {
    for (uint32_t i = 1; i <= kRounds; ++i) {
      SpinUntil([&] { return start.load(std::memory_order_acquire) >= i; });
      work.store(i, std::memory_order_release);
      b.waker.Ring();
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
TEST(DoorbellTest, TwoThreads_PingPong_LoseNoWakeUp) {
  constexpr uint64_t kRounds = 20'000;
  Bell ping, pong;
  alignas(64) std::atomic<uint64_t> sent{0};
  alignas(64) std::atomic<uint64_t> answered{0};
  std::thread peer([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      ping.SleepUntil([&] { return sent.load(std::memory_order_acquire) >= i; });
      answered.store(i, std::memory_order_release);
      pong.waker.Ring();
    }
  });
  for (uint64_t i = 1; i <= kRounds; ++i) {
    sent.store(i, std::memory_order_release);
    ping.waker.Ring();
    pong.SleepUntil([&] { return answered.load(std::memory_order_acquire) >= i; });
  }
  peer.join();
  EXPECT_EQ(answered, kRounds);
  EXPECT_GT(ping.sleeps + pong.sleeps, 0) << "nobody ever slept: nothing was tested";
}

TEST(DoorbellTest, SeveralWakers_OneSleeper_LoseNoWakeUp) {
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
        b.waker.Ring();
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
