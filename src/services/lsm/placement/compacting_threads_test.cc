#include "services/lsm/placement/compacting_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "base/clock.h"
#include "base/testing.h"

namespace pulse::lsm {
namespace {

using testing_util::Eventually;
using Use = CompactingThreads::Use;

// What one look takes together.
constexpr std::chrono::milliseconds kMeasure(20);

TEST(ForegroundDemandTest, IdleCpus_Demand_IsTheirUse) {
  EXPECT_DOUBLE_EQ(ForegroundDemand(0.5, 1, {}), 0.5);
  EXPECT_DOUBLE_EQ(ForegroundDemand(0.75, 1, {0.25, 1}), 0.5);
  EXPECT_DOUBLE_EQ(ForegroundDemand(3, 4, {2, 2}), 1);
  EXPECT_DOUBLE_EQ(ForegroundDemand(1, 1, {}), 1);
  // Rounding in /proc/stat.
  EXPECT_DOUBLE_EQ(ForegroundDemand(0.2, 1, {0.25, 1}), 0);
}

TEST(ForegroundDemandTest, BusyCpus_MoreCompactions_DoNotShrinkDemand) {
  // One CPU and one writer that wants all of it, beside so many compactions.
  for (const int compactions : {0, 1, 2, 5}) {
    const double each = 1.0 / (compactions + 1);
    EXPECT_NEAR(ForegroundDemand(1, 1, {compactions * each, double(compactions)}), 1, 1e-9)
        << compactions;
  }
  // Four CPUs, two writers and six compactions: an eighth of all for each.
  EXPECT_NEAR(ForegroundDemand(4, 4, {3, 6}), 2, 1e-9);
  // A writer that wants a twentieth.
  EXPECT_NEAR(ForegroundDemand(1, 1, {0.95, 1}), 0.05, 1e-9);
  EXPECT_NEAR(ForegroundDemand(1, 1, {0.9, 5}), 0.1, 1e-9) << "less than each of five has";
  // A writer that shares its CPU with three of five compactions: more likely than not, all of one.
  const double writer = ForegroundDemand(2, 2, {1.75, 5});
  EXPECT_GT(writer, 0.3);
  EXPECT_LT(writer, 0.75);
  // Compactions alone.
  EXPECT_NEAR(ForegroundDemand(1, 1, {1, 3}), 0, 1e-9);
  // Never more than there is, and not by a thread that got nothing.
  EXPECT_DOUBLE_EQ(ForegroundDemand(1, 1, {0.001, 1}), 1);
}

// Works until told to stop.
class Worker {
 public:
  explicit Worker(CompactingThreads* threads, bool ends = true)
      : thread_([this, threads, ends] {
          threads->Begin();
          begun_ = true;
          while (!stop_) {
          }
          if (ends) threads->End();
        }) {
    while (!begun_) std::this_thread::yield();
  }
  ~Worker() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void WorkHere(int64_t nanos) {
  const int64_t until = ThreadCpuNanos() + nanos;
  while (ThreadCpuNanos() < until) {
  }
}

TEST(CompactingThreadsTest, Take_CompactingThreads_AreCounted) {
  CompactingThreads threads;
  threads.Take();
  threads.End();  // of nothing
  {
    Worker one(&threads), two(&threads);
    Use use;
    EXPECT_TRUE(Eventually([&] { return (use = threads.Take()).cpus > 0; }, kMeasure));
    EXPECT_GT(use.threads, use.cpus * 0.99);
    EXPECT_LE(use.threads, 2.01);
  }
  // What they did since.
  EXPECT_GT(threads.Take().threads, 0);
  WorkHere(5'000'000);  // this thread is none of them
  const Use none = threads.Take();
  EXPECT_EQ(none.cpus, 0);
  EXPECT_EQ(none.threads, 0);
}

TEST(CompactingThreadsTest, Take_EndedThread_IsForgotten) {
  CompactingThreads threads;
  { Worker gone(&threads, /*ends=*/false); }
  threads.Take();
  WorkHere(5'000'000);
  EXPECT_EQ(threads.Take().threads, 0);
}

// Its end was not told, perhaps.
TEST(CompactingThreadsTest, Take_WaitingThread_IsNotCounted) {
  CompactingThreads threads;
  std::promise<void> go;
  std::thread waits([&] {
    threads.Begin();
    go.get_future().wait();
    threads.End();
  });
  EXPECT_TRUE(Eventually([&] { return threads.Take().threads == 0; }, kMeasure));
  go.set_value();
  waits.join();
}

}  // namespace
}  // namespace pulse::lsm
