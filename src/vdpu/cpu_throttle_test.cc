// Threads that really run slower. Times are compared with the threads' own CPU clocks and only from
// below: a busy machine makes everything later, and nothing earlier.
#include "vdpu/cpu_throttle.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <ctime>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/testing.h"
#include "vdpu/core_budget.h"

namespace pulse::vdpu {
namespace {

using testing_util::Eventually;

constexpr int64_t kMillisecond = 1'000'000;
// What may stay owed: too little to sleep for.
constexpr int64_t kUnpaid = 50'000;

int64_t ThreadCpu() {
  timespec ts;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

// Consumes at least `nanos` of CPU. Returns what it was.
int64_t Burn(int64_t nanos) {
  const int64_t begin = ThreadCpu();
  volatile uint64_t sink = 0;
  while (ThreadCpu() - begin < nanos) {
    for (int i = 0; i < 2000; ++i) sink = sink + static_cast<uint64_t>(i);
  }
  return ThreadCpu() - begin;
}

std::unique_ptr<CpuThrottle> MustStart(double speed, int cores = 0, bool every_thread = false) {
  CpuThrottle::Options options;
  options.speed = speed;
  options.cores = cores;
  options.every_thread = every_thread;
  auto t = CpuThrottle::Start(options);
  EXPECT_TRUE(t.ok()) << t.status();
  return t.ok() ? *std::move(t) : nullptr;
}

TEST(CpuThrottleTest, EnrolledThread_ConsumesTime_SleepsForIt) {
  for (const double speed : {0.8, 0.455, 0.2}) {
    auto throttle = MustStart(speed);
    ASSERT_NE(throttle, nullptr);
    std::thread([&] {
      const int64_t wall = NowNanos();
      const int64_t cpu = ThreadCpu();
      ASSERT_TRUE(throttle->Enroll().ok());
      Burn(60 * kMillisecond);
      throttle->Leave();
      const int64_t idle = (NowNanos() - wall) - (ThreadCpu() - cpu);
      const CpuThrottle::Usage u = throttle->usage();
      EXPECT_GE(u.consumed, 60 * kMillisecond);
      const int64_t due = SleepOwed(u.consumed, 0, speed);
      EXPECT_GE(u.slept, due - kUnpaid) << "speed " << speed;
      EXPECT_GE(idle, due - kUnpaid) << "speed " << speed;
    }).join();
  }
}

// Not only when it leaves: a thread that is never asked pays as it goes.
TEST(CpuThrottleTest, EnrolledThread_NeverLeaves_PaysWhileItRuns) {
  auto throttle = MustStart(0.5);
  ASSERT_NE(throttle, nullptr);
  std::thread([&] {
    ASSERT_TRUE(throttle->Enroll().ok());
    const int64_t deadline = NowNanos() + 60'000 * kMillisecond;
    while (throttle->usage().slept < 40 * kMillisecond && NowNanos() < deadline) Burn(kMillisecond);
    EXPECT_GE(throttle->usage().slept, 40 * kMillisecond);
  }).join();
}

TEST(CpuThrottleTest, OtherThreads_NotEnrolled_AreLeftAlone) {
  auto throttle = MustStart(0.1);
  ASSERT_NE(throttle, nullptr);
  std::thread([] { Burn(30 * kMillisecond); }).join();
  Burn(30 * kMillisecond);
  CpuThrottle::Settle();
  EXPECT_EQ(throttle->usage().consumed, 0);
  EXPECT_EQ(throttle->usage().slept, 0);
}

TEST(CpuThrottleTest, ExemptTime_Nested_CostsNothing) {
  auto throttle = MustStart(0.5);
  ASSERT_NE(throttle, nullptr);
  std::thread([&] {
    const int64_t before = ThreadCpu();
    ASSERT_TRUE(throttle->Enroll().ok());
    int64_t exempt = 0;
    for (int i = 0; i < 4; ++i) {
      const CpuThrottle::Exempt outer;
      exempt += Burn(10 * kMillisecond);
      const CpuThrottle::Exempt inner;
      exempt += Burn(10 * kMillisecond);
    }
    const int64_t paid = Burn(20 * kMillisecond);
    throttle->Leave();
    const int64_t all = ThreadCpu() - before;
    EXPECT_GE(throttle->usage().consumed, paid);
    EXPECT_LE(throttle->usage().consumed, all - exempt);
    EXPECT_GE(throttle->usage().slept, paid - kUnpaid);
  }).join();
}

// As a worker that polls: of a look only its end tells that it was in vain. The one that finds work
// after such looks is paid for.
TEST(CpuThrottleTest, LooksInVain_CostNothing_AndWorkAfterThemIsPaidFor) {
  auto throttle = MustStart(0.5);
  ASSERT_NE(throttle, nullptr);
  std::thread([&] {
    const int64_t before = ThreadCpu();
    ASSERT_TRUE(throttle->Enroll().ok());
    int64_t exempt = 0;
    CpuThrottle::Mark mark = CpuThrottle::Now();
    for (int i = 0; i < 4; ++i) {
      exempt += Burn(5 * kMillisecond);
      {
        const CpuThrottle::Exempt inner;  // is not exempt twice
        exempt += Burn(5 * kMillisecond);
      }
      mark = CpuThrottle::ExemptSince(mark);
    }
    const int64_t paid = Burn(20 * kMillisecond);
    throttle->Leave();
    const int64_t all = ThreadCpu() - before;
    EXPECT_GE(throttle->usage().consumed, paid - kUnpaid);
    EXPECT_LE(throttle->usage().consumed, all - exempt);
    EXPECT_GE(throttle->usage().slept, paid - kUnpaid);
  }).join();
}

TEST(CpuThrottleTest, EveryThread_StartedLater_PaysToo) {
  auto throttle = MustStart(0.5, 0, /*every_thread=*/true);
  ASSERT_NE(throttle, nullptr);
  std::thread([&] {
    const int64_t deadline = NowNanos() + 60'000 * kMillisecond;
    while (throttle->usage().slept < 20 * kMillisecond && NowNanos() < deadline) Burn(kMillisecond);
    CpuThrottle::Settle();
    EXPECT_GE(throttle->usage().slept, 20 * kMillisecond);
  }).join();
  const CpuThrottle::Usage after = throttle->usage();
  EXPECT_GE(after.slept, 20 * kMillisecond) << "what a thread paid is forgotten when it ends";
}

TEST(CpuThrottleTest, EveryThread_ManyHaveComeAndGone_StillPays) {
  auto throttle = MustStart(0.5, 4, /*every_thread=*/true);
  ASSERT_NE(throttle, nullptr);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([i] {
        Burn(i * kMillisecond);
        CpuThrottle::Settle();
      });
    }
    for (std::thread& t : threads) t.join();
  }
  Burn(5 * kMillisecond);  // this one is still there, and still pays
  EXPECT_TRUE(Eventually([&] {
    Burn(kMillisecond);
    return throttle->usage().slept > 0;
  }));
}

TEST(CpuThrottleTest, Threads_MoreThanCores_ShareThem) {
  auto throttle = MustStart(1, 1);
  ASSERT_NE(throttle, nullptr);
  const int64_t begin = NowNanos();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      ASSERT_TRUE(throttle->Enroll().ok());
      Burn(50 * kMillisecond);
      throttle->Leave();
    });
  }
  for (std::thread& t : threads) t.join();
  const int64_t consumed = throttle->usage().consumed;
  EXPECT_GE(consumed, 150 * kMillisecond);
  EXPECT_GE(NowNanos() - begin, consumed - CoreBudget::kSlackNanos - 3 * kUnpaid)
      << "three threads took more than one core";
}

TEST(CpuThrottleTest, Enroll_Twice_IsAsOnce) {
  auto throttle = MustStart(0.5);
  ASSERT_NE(throttle, nullptr);
  std::thread([&] {
    ASSERT_TRUE(throttle->Enroll().ok());
    ASSERT_TRUE(throttle->Enroll().ok());
    Burn(10 * kMillisecond);
    throttle->Leave();
    const int64_t slept = throttle->usage().slept;
    Burn(10 * kMillisecond);
    throttle->Leave();
    CpuThrottle::Settle();
    EXPECT_EQ(throttle->usage().slept, slept);
  }).join();
}

TEST(CpuThrottleTest, Start_WhileOneRuns_IsRefused) {
  auto throttle = MustStart(0.5);
  ASSERT_NE(throttle, nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(CpuThrottle::Start({}).status()));
  throttle.reset();
  EXPECT_TRUE(CpuThrottle::Start({}).ok());
}

TEST(CpuThrottleTest, Start_SpeedThatCannotBe_IsRefused) {
  for (const double speed : {0.0, -1.0, 1.5}) {
    CpuThrottle::Options options;
    options.speed = speed;
    EXPECT_TRUE(absl::IsInvalidArgument(CpuThrottle::Start(options).status())) << speed;
  }
  EXPECT_TRUE(CpuThrottle::Start({}).ok()) << "a refusal leaves something behind";
}

TEST(CpuThrottleTest, Destroy_ThreadStillEnrolled_LetsItRunOn) {
  std::atomic<bool> stop{false};
  std::thread busy;
  {
    auto throttle = MustStart(0.2);
    ASSERT_NE(throttle, nullptr);
    std::atomic<bool> enrolled{false};
    busy = std::thread([&] {
      EXPECT_TRUE(throttle->Enroll().ok());
      enrolled = true;
      while (!stop) Burn(kMillisecond);
    });
    EXPECT_TRUE(Eventually([&] { return enrolled.load(); }));
    EXPECT_TRUE(Eventually([&] { return throttle->usage().slept > 0; }));
  }
  std::thread([] { Burn(10 * kMillisecond); }).join();
  stop = true;
  busy.join();
}

TEST(CpuThrottleTest, Start_SignalInUse_IsRefused) {
  struct sigaction mine {};
  mine.sa_handler = [](int) {};
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGRTMIN + 5, &mine, &before), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(CpuThrottle::Start({}).status()));
  ASSERT_EQ(sigaction(SIGRTMIN + 5, &before, nullptr), 0);
}

}  // namespace
}  // namespace pulse::vdpu
