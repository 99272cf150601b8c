#include "bench/macro/ycsb/key_chooser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace pulse::bench {
namespace {

constexpr uint64_t kChooserSeed = 20260722;
constexpr int kChooserDraws = 500'000;

std::map<uint64_t, int> DrawMany(KeyChooser* chooser, int draws = kChooserDraws) {
  std::map<uint64_t, int> hits;
  for (int i = 0; i < draws; ++i) ++hits[chooser->Next()];
  return hits;
}

uint64_t Hottest(const std::map<uint64_t, int>& hits) {
  return std::max_element(hits.begin(), hits.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

double Share(const std::map<uint64_t, int>& hits, uint64_t from, uint64_t to) {
  double sum = 0, all = 0;
  for (const auto& [record, count] : hits) {
    all += count;
    if (record >= from && record < to) sum += count;
  }
  return sum / all;
}

void AddRecord(InsertCounter* counter) { counter->Acknowledge(counter->Take()); }

class KeyChooserTest : public testing::TestWithParam<Distribution> {};

TEST_P(KeyChooserTest, Seed_SameOrOther_DecidesTheDraws) {
  const InsertCounter counter(1000);
  KeyChooser a(GetParam(), 1000, &counter, kChooserSeed);
  KeyChooser b(GetParam(), 1000, &counter, kChooserSeed);
  KeyChooser c(GetParam(), 1000, &counter, kChooserSeed + 1);
  int differing = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t drawn = a.Next();
    ASSERT_EQ(drawn, b.Next());
    differing += drawn != c.Next();
  }
  EXPECT_GT(differing, 500) << "seed " << kChooserSeed;
}

TEST_P(KeyChooserTest, Next_UnacknowledgedInserts_AreNotDrawn) {
  InsertCounter counter(100);
  KeyChooser chooser(GetParam(), 1000, &counter, kChooserSeed);
  const uint64_t slow = counter.Take();
  for (int i = 0; i < 99; ++i) AddRecord(&counter);
  for (int i = 0; i < 20'000; ++i) ASSERT_LT(chooser.Next(), 100U) << "seed " << kChooserSeed;
  counter.Acknowledge(slow);
  const auto hits = DrawMany(&chooser, 20'000);
  EXPECT_GT(Share(hits, 100, 200), 0.2) << "seed " << kChooserSeed;
  EXPECT_EQ(Share(hits, 200, 1000), 0) << "seed " << kChooserSeed;
}

INSTANTIATE_TEST_SUITE_P(Every, KeyChooserTest,
                         testing::Values(Distribution::kUniform, Distribution::kScrambledZipfian,
                                         Distribution::kLatest));

TEST(KeyChooserTest, Uniform_ManyDraws_EachEquallyOften) {
  const InsertCounter counter(100);
  KeyChooser chooser(Distribution::kUniform, 100, &counter, kChooserSeed);
  double chi_square = 0;
  const double expected = kChooserDraws / 100.0;
  const auto hits = DrawMany(&chooser);
  ASSERT_EQ(hits.size(), 100U);
  for (const auto& [record, count] : hits) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 99 + 4 * 14.07) << "seed " << kChooserSeed;
}

TEST(KeyChooserTest, ScrambledZipfian_HottestRecords_AreScattered) {
  constexpr uint64_t kRecords = 100'000;
  const InsertCounter counter(kRecords);
  KeyChooser chooser(Distribution::kScrambledZipfian, kRecords, &counter, kChooserSeed);
  const auto hits = DrawMany(&chooser);
  // The law's share of the hottest among kUniverse items, whose zeta is YCSB's constant.
  const uint64_t first = Hottest(hits);
  EXPECT_NEAR(Share(hits, first, first + 1), 1 / 26.46902820178302, 0.001)
      << "seed " << kChooserSeed;
  // The ten hottest lie all over the records: not all in one tenth of them.
  std::vector<std::pair<int, uint64_t>> order;
  for (const auto& [record, count] : hits) order.emplace_back(count, record);
  std::sort(order.rbegin(), order.rend());
  std::vector<uint64_t> hot;
  for (size_t i = 0; i < 10; ++i) hot.push_back(order[i].second);
  const auto [least, most] = std::minmax_element(hot.begin(), hot.end());
  EXPECT_GT(*most - *least, kRecords / 2);
  // The hundredth part that is hottest: at least what its ranks have by the law, sums over 1000
  // and over all; at most that and an even part of the rest.
  double share = 0;
  for (size_t i = 0; i < kRecords / 100; ++i) share += order[i].first;
  share /= kChooserDraws;
  const double law = Zipfian().Zeta(kRecords / 100) / 26.46902820178302;
  EXPECT_GT(share, law - 0.01) << "seed " << kChooserSeed;
  EXPECT_LT(share, law + 0.05) << "seed " << kChooserSeed;
}

TEST(KeyChooserTest, ScrambledZipfian_Inserts_DoNotMoveTheHottest) {
  // The hottest of these 20'000 is among the first 19'000.
  InsertCounter counter(19'000);
  KeyChooser chooser(Distribution::kScrambledZipfian, 20'000, &counter, kChooserSeed);
  const uint64_t before = Hottest(DrawMany(&chooser, 50'000));
  for (int i = 0; i < 1000; ++i) AddRecord(&counter);
  EXPECT_EQ(Hottest(DrawMany(&chooser, 50'000)), before) << "seed " << kChooserSeed;
}

TEST(KeyChooserTest, Latest_AfterInserts_PrefersTheNewest) {
  InsertCounter counter(10'000);
  KeyChooser chooser(Distribution::kLatest, 10'000, &counter, kChooserSeed);
  for (int i = 0; i < 1000; ++i) AddRecord(&counter);
  const auto hits = DrawMany(&chooser);
  const Zipfian zipfian;
  const double zeta = zipfian.Zeta(11'000);
  EXPECT_EQ(Hottest(hits), 10'999U);
  EXPECT_NEAR(Share(hits, 10'999, 11'000), 1 / zeta, 0.002) << "seed " << kChooserSeed;
  EXPECT_NEAR(Share(hits, 10'890, 11'000), zipfian.Zeta(110) / zeta, 0.003)
      << "seed " << kChooserSeed;
  // What was inserted since: the newest eleventh.
  EXPECT_NEAR(Share(hits, 10'000, 11'000), zipfian.Zeta(1000) / zeta, 0.003)
      << "seed " << kChooserSeed;
}

TEST(InsertCounterTest, Acknowledged_SlowestInsertOpen_WaitsForIt) {
  InsertCounter counter(5);
  EXPECT_EQ(counter.Take(), 5U);
  EXPECT_EQ(counter.Take(), 6U);
  EXPECT_EQ(counter.Take(), 7U);
  EXPECT_EQ(counter.acknowledged(), 5U);
  counter.Acknowledge(7);
  counter.Acknowledge(6);
  EXPECT_EQ(counter.acknowledged(), 5U);
  EXPECT_EQ(counter.Take(), 8U);
  counter.Acknowledge(5);
  EXPECT_EQ(counter.acknowledged(), 8U);
  counter.Acknowledge(8);
  EXPECT_EQ(counter.acknowledged(), 9U);
}

// Several threads insert, and each looks at what it may read: all of it is there.
TEST(InsertCounterTest, Acknowledged_SeveralThreads_HasOnlyWhatIsThere) {
  constexpr uint64_t kThreads = 4, kEach = 20'000;
  InsertCounter counter(0);
  const auto there = std::make_unique<std::atomic<bool>[]>(kThreads * kEach);
  std::atomic<int> missing{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      KeyChooser chooser(Distribution::kLatest, kThreads * kEach, &counter, kChooserSeed + t);
      for (uint64_t i = 0; i < kEach; ++i) {
        const uint64_t number = counter.Take();
        there[number].store(true, std::memory_order_relaxed);
        counter.Acknowledge(number);
        if (counter.acknowledged() != 0 && !there[chooser.Next()].load(std::memory_order_relaxed)) {
          ++missing;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missing, 0) << "seed " << kChooserSeed;
  EXPECT_EQ(counter.acknowledged(), kThreads * kEach);
}

}  // namespace
}  // namespace pulse::bench
