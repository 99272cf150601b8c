#include "services/redis/command_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/testing.h"

namespace pulse::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LatencyHistogramTest, Class_HoldsWhatIsPutIntoIt_ToASixteenth) {
  EXPECT_EQ(LatencyHistogram::ClassOf(~uint64_t{0}), LatencyHistogram::kClasses - 1);
  for (size_t i = 1; i < LatencyHistogram::kClasses; ++i) {
    const uint64_t last = LatencyHistogram::LastOf(i);
    ASSERT_EQ(LatencyHistogram::ClassOf(last), i);
    ASSERT_EQ(LatencyHistogram::ClassOf(LatencyHistogram::LastOf(i - 1) + 1), i);
  }
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t cycles = random() >> (23 + random() % 41);
    const uint64_t last = LatencyHistogram::LastOf(LatencyHistogram::ClassOf(cycles));
    ASSERT_GE(last, cycles);
    ASSERT_LE(last, cycles + cycles / 16);
  }
}

TEST(CommandStatsTest, Latencies_AreCountedUntilTheBoundsOfRedis) {
  // A measured rate would put what is near a bound on either side of it.
  constexpr double kCyclesPerNano = 2.4;
  CommandStats stats{CycleRate(kCyclesPerNano)};
  const auto add = [&](double micros, uint64_t calls) {
    // Calls that were carried out together.
    stats.Add(Command::kGet, calls, static_cast<uint64_t>(micros * 1e3 * kCyclesPerNano) * calls,
              false);
  };
  add(0, 1);
  add(0.5, 3);
  add(10, 64);
  add(400, 1);
  add(1000, 2);
  add(3e6, 1);  // the longest that there is
  CommandStats::Latencies latencies;
  ASSERT_TRUE(stats.ReadLatencies(Command::kGet, &latencies));
  EXPECT_EQ(latencies.calls, 72u);
  const std::vector<std::pair<int64_t, uint64_t>> expected = {
      {1, 4}, {16, 68}, {528, 69}, {1056, 71}, {1082130, 72}};
  EXPECT_EQ(latencies.until, expected);
  EXPECT_FALSE(stats.ReadLatencies(Command::kSet, &latencies));

  std::string info;
  stats.AppendLatencies(&info);
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
  ASSERT_EQ(sscanf(info.c_str(), "latency_percentiles_usec_get:p50=%lf,p99=%lf,p99.9=%lf\r\n", &p50,
                   &p99, &p999),
            3)
      << info;
  EXPECT_NEAR(p50, 10, 1.5);
  EXPECT_EQ(p99, 1e6);
  EXPECT_EQ(p999, 1e6);

  stats.KeepLatencies(false);
  add(1, 1);
  stats.AddWithin(Command::kGet);
  ASSERT_TRUE(stats.ReadLatencies(Command::kGet, &latencies));
  EXPECT_EQ(latencies.calls, 72u);
  info.clear();
  stats.Append(&info);
  EXPECT_THAT(info, HasSubstr("cmdstat_get:calls=74,"));
  stats.Reset();
  EXPECT_FALSE(stats.ReadLatencies(Command::kGet, &latencies));
  info.clear();
  stats.AppendLatencies(&info);
  EXPECT_EQ(info, "");
}

TEST(CommandStatsTest, ManyThreads_LoseNoCall) {
  constexpr int kThreads = 12;  // more than there are shards
  constexpr int kCalls = 20'000;
  CommandStats stats;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&stats, t] {
      for (int i = 0; i < kCalls; ++i) {
        stats.Add(t % 2 == 0 ? Command::kGet : Command::kSet, 1, static_cast<uint64_t>(i), false);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Command command : {Command::kGet, Command::kSet}) {
    CommandStats::Latencies latencies;
    ASSERT_TRUE(stats.ReadLatencies(command, &latencies));
    EXPECT_EQ(latencies.calls, uint64_t{kThreads / 2} * kCalls);
    EXPECT_EQ(latencies.until.back().second, latencies.calls);
  }
}

}  // namespace
}  // namespace pulse::redis
