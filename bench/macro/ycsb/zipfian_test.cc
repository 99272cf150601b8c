#include "bench/macro/ycsb/zipfian.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/macro/workload.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kZipfianSeed = 20260722;

double DirectZeta(uint64_t n, double theta) {
  double sum = 0;
  for (uint64_t i = 1; i <= n; ++i) sum += std::pow(static_cast<double>(i), -theta);
  return sum;
}

// What the law says of the share of the first `items` of `n`.
double ShareOfFirst(uint64_t items, uint64_t n) {
  return DirectZeta(items, Zipfian::kYcsbTheta) / DirectZeta(n, Zipfian::kYcsbTheta);
}

TEST(ZipfianTest, Zeta_AnyCount_IsTheSum) {
  for (const double theta : {0.5, 0.9, 0.99}) {
    const Zipfian zipfian(theta);
    for (const uint64_t n : {1, 2, 1023, 1024, 1025, 1026, 5000, 1'000'000}) {
      const double expected = DirectZeta(n, theta);
      EXPECT_NEAR(zipfian.Zeta(n), expected, 1e-7 * expected) << "theta " << theta << " n " << n;
    }
  }
  // The constant that YCSB carries for its ten thousand million items.
  EXPECT_NEAR(Zipfian().Zeta(10'000'000'000), 26.46902820178302, 1e-6);
}

// Every rank of a small set, and those on both sides of where sums are no longer kept.
TEST(ZipfianTest, Rank_EveryRank_InvertsTheDistribution) {
  const Zipfian zipfian;
  for (const uint64_t n : {1, 2, 100, 1024, 1025, 3000, 100'000}) {
    const double zeta = zipfian.Zeta(n);
    EXPECT_EQ(zipfian.Rank(0, n, zeta), 0U);
    EXPECT_EQ(zipfian.Rank(std::nextafter(1.0, 0.0), n, zeta), n - 1);
    for (uint64_t k = 1; k <= std::min<uint64_t>(n, 3000); ++k) {
      const double middle = (zipfian.Zeta(k - 1) + zipfian.Zeta(k)) / 2;
      ASSERT_EQ(zipfian.Rank(middle / zeta, n, zeta), k - 1) << "n " << n;
    }
  }
}

TEST(ZipfianTest, Rank_ManyDraws_FollowTheLaw) {
  SCOPED_TRACE(testing::Message() << "seed " << kZipfianSeed);
  constexpr uint64_t kItems = 2000;
  constexpr double kDraws = 2'000'000;
  const Zipfian zipfian;
  const double zeta = zipfian.Zeta(kItems);
  std::vector<uint64_t> hits(kItems, 0);
  Random random(kZipfianSeed);
  for (int i = 0; i < static_cast<int>(kDraws); ++i) {
    const uint64_t rank = zipfian.Rank(random.Unit(), kItems, zeta);
    ASSERT_LT(rank, kItems);
    ++hits[rank];
  }
  double chi_square = 0;
  for (uint64_t k = 1; k <= kItems; ++k) {
    const double expected = kDraws / std::pow(static_cast<double>(k), 0.99) / zeta;
    const double off = static_cast<double>(hits[k - 1]) - expected;
    chi_square += off * off / expected;
  }
  // Four deviations around the mean of chi-square: too even would be wrong as well.
  constexpr double kFreedom = kItems - 1;
  EXPECT_LT(chi_square, kFreedom + 4 * std::sqrt(2 * kFreedom));
  EXPECT_GT(chi_square, kFreedom - 4 * std::sqrt(2 * kFreedom));
}

TEST(ZipfianTest, Rank_HottestItems_HaveTheirShare) {
  SCOPED_TRACE(testing::Message() << "seed " << kZipfianSeed);
  constexpr uint64_t kItems = 1'000'000;
  constexpr int kDraws = 1'000'000;
  const Zipfian zipfian;
  const double zeta = zipfian.Zeta(kItems);
  Random random(kZipfianSeed);
  int top = 0, top_percent = 0;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t rank = zipfian.Rank(random.Unit(), kItems, zeta);
    if (rank == 0) ++top;
    if (rank < kItems / 100) ++top_percent;
  }
  EXPECT_NEAR(static_cast<double>(top) / kDraws, ShareOfFirst(1, kItems), 0.001);
  EXPECT_NEAR(static_cast<double>(top_percent) / kDraws, ShareOfFirst(kItems / 100, kItems), 0.002);
}

// As many items as there are at the moment of each draw: nothing beyond them, and after growth the
// law of the larger set.
TEST(ZipfianTest, Rank_SetThatGrows_StaysWithinItAndFollowsTheLaw) {
  SCOPED_TRACE(testing::Message() << "seed " << kZipfianSeed);
  const Zipfian zipfian;
  Random random(kZipfianSeed);
  for (uint64_t n = 1; n < 5000; ++n) {
    ASSERT_LT(zipfian.Rank(random.Unit(), n, zipfian.Zeta(n)), n);
  }
  int last_half = 0;
  constexpr int kDraws = 200'000;
  const double zeta = zipfian.Zeta(5000);
  for (int i = 0; i < kDraws; ++i) last_half += zipfian.Rank(random.Unit(), 5000, zeta) >= 2500;
  EXPECT_NEAR(static_cast<double>(last_half) / kDraws, 1 - ShareOfFirst(2500, 5000), 0.005);
}

}  // namespace
}  // namespace pulse::bench
