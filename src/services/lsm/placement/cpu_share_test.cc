#include "services/lsm/placement/cpu_share.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/testing.h"
#include "services/lsm/placement/test_cpus.h"

namespace pulse::lsm {
namespace {

using std::chrono::milliseconds;
using test::BusyThreads;
using testing_util::Eventually;

constexpr milliseconds kBetweenLooks(50);

TEST(CpuShareTest, Of_OthersHaveMost_IsContended) {
  EXPECT_TRUE(CpuShare::Of(0.25, 0.75, 1).contended) << "one beside three others";
  EXPECT_NEAR(CpuShare::Of(0.25, 0.75, 1).each, 0.25, 1e-9);
  EXPECT_TRUE(CpuShare::Of(0.4, 1.6, 1).contended) << "two beside three others";
  EXPECT_TRUE(CpuShare::Of(0.5, 1.5, 4).contended) << "two beside six others on four CPUs";
  EXPECT_FALSE(CpuShare::Of(0.5, 0.5, 1).contended) << "one beside one other";
  EXPECT_FALSE(CpuShare::Of(1, 1, 1).contended) << "two alone";
  EXPECT_NEAR(CpuShare::Of(1, 1, 1).each, 0.5, 1e-9);
  EXPECT_FALSE(CpuShare::Of(2, 1, 2).contended) << "three alone on two CPUs";
  EXPECT_FALSE(CpuShare::Of(0.3, 0.7, 1, 0.6).contended) << "one beside what serves it";
  EXPECT_TRUE(CpuShare::Of(0.2, 0.8, 1, 0.1).contended) << "that is not the reason";
  EXPECT_FALSE(CpuShare::Of(0.4, 0.1, 1).contended) << "it mostly waits for something else";
  EXPECT_FALSE(CpuShare::Of(0, 0, 1).contended);
}

// sleep: the kernel's account of real threads is what is measured
void LetRun(milliseconds time) { std::this_thread::sleep_for(time); }

// On one CPU, as soon as there is one.
std::optional<CpuShare::Share> NextShare(CpuShare* share, const BusyThreads& threads) {
  std::optional<CpuShare::Share> taken;
  Eventually([&] { return (taken = share->Take(threads.tids(), 1)).has_value(); }, kBetweenLooks);
  return taken;
}

TEST(CpuShareTest, Take_ThreadBesideOthers_IsContended) {
  if (!CpuShare::IsSupported()) GTEST_SKIP() << "this kernel keeps no account of it (schedstat)";
  const int cpu = MyCpus().front();
  const BusyThreads mine(1, cpu);
  const BusyThreads others(4, cpu);
  CpuShare share;
  EXPECT_FALSE(share.Take(mine.tids(), 1)) << "nothing to compare with";
  const std::optional<CpuShare::Share> taken = NextShare(&share, mine);
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->contended) << taken->each;
  EXPECT_LT(taken->each, 0.45);
  EXPECT_GT(taken->each, 0);
}

// It waits for longer than a look takes, and the kernel adds a wait when it ends.
TEST(CpuShareTest, Take_StarvedThread_IsNotTakenForIdle) {
  if (!CpuShare::IsSupported()) GTEST_SKIP() << "this kernel keeps no account of it (schedstat)";
  const int cpu = MyCpus().front();
  const BusyThreads others(4, cpu);
  const BusyThreads mine(1, cpu, /*niceness=*/19);
  CpuShare share;
  for (int looks = 0; looks < 4; ++looks) {
    const std::optional<CpuShare::Share> taken = NextShare(&share, mine);
    ASSERT_TRUE(taken);
    EXPECT_TRUE(taken->contended) << taken->each;
    EXPECT_LT(taken->each, 0.45);
  }
}

// None is there for as long as a look takes. What they do elsewhere does not count.
TEST(CpuShareTest, Take_ShortThreads_AreMeasuredTogether) {
  if (!CpuShare::IsSupported()) GTEST_SKIP() << "this kernel keeps no account of it (schedstat)";
  const int cpu = MyCpus().front();
  const BusyThreads mine(1, cpu);
  auto others = std::make_unique<BusyThreads>(4, cpu);
  CpuShare share;
  std::optional<CpuShare::Share> taken;
  for (int i = 0; i < 100 && !taken; ++i) {
    const int64_t begin = NowNanos();
    share.Note(mine.tids());
    LetRun(milliseconds(100));
    taken = share.Take(mine.tids(), 1);
    if (i == 0 && NowNanos() - begin < 200'000'000) {
      EXPECT_FALSE(taken) << "too soon";
    }
    share.Note(mine.tids());
    share.Drop(mine.tids().front());
  }
  ASSERT_TRUE(taken);
  EXPECT_TRUE(taken->contended) << taken->each;
  // While nobody is there the others have it all, and then they are gone.
  LetRun(milliseconds(500));
  others.reset();
  EXPECT_FALSE(share.Take({}, 1)) << "nobody was there";
  // The first look has what is left of the last one; and other programs come and go.
  CpuShare::Share last = *taken;
  int looks = 0;
  EXPECT_TRUE(Eventually([&] {
    share.Note(mine.tids());
    LetRun(milliseconds(100));
    if (const auto now = share.Take(mine.tids(), 1)) {
      last = *now;
      ++looks;
    }
    share.Note(mine.tids());
    share.Drop(mine.tids().front());
    return looks > 1 && last.each > taken->each;
  })) << last.each
      << ", " << taken->each << " beside four others";
}

TEST(CpuShareTest, Take_EndedOrIdleThreads_AreIgnored) {
  CpuShare share;
  auto gone = std::make_unique<BusyThreads>(1, MyCpus().front());
  const std::vector<pid_t> tids = gone->tids();
  share.Take(tids, 1);
  gone.reset();
  share.Take(tids, 1);
  LetRun(milliseconds(250));
  EXPECT_FALSE(share.Take(tids, 1)) << "they are gone";
  EXPECT_FALSE(share.Take({}, 1));
  if (!CpuShare::IsSupported()) return;
  // A thread that looks itself has a share, however little it does.
  EXPECT_TRUE(Eventually([&] { return share.Take({gettid()}, 1).has_value(); }, kBetweenLooks));
  // But on a busy machine it waits for a CPU after each look; one that is idle does not.
  std::promise<pid_t> tid;
  std::promise<void> go;
  std::thread waits([&] {
    tid.set_value(gettid());
    go.get_future().wait();
  });
  const std::vector<pid_t> idle = {tid.get_future().get()};
  EXPECT_TRUE(Eventually(
      [&] {
        const auto taken = share.Take(idle, 1);
        return taken && !taken->contended;
      },
      kBetweenLooks))
      << "it wants nothing";
  go.set_value();
  waits.join();
}

}  // namespace
}  // namespace pulse::lsm
