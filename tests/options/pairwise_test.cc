#include "options/pairwise.h"

#include <gtest/gtest.h>

#include <set>

#include "base/testing.h"

namespace pulse::options_test {
namespace {

bool SameTen(size_t a, size_t b) { return a / 10 == b / 10 || a + b == 77; }

TEST(PairwiseTest, Rows_OfManyChoices_HoldEachPairThatMayBe) {
  constexpr size_t kChoices = 60;
  const auto rows = PairwiseRows(kChoices, 5, testing_util::TestSeed(), SameTen);
  std::set<std::pair<size_t, size_t>> seen;
  for (const auto& row : rows) {
    EXPECT_LE(row.size(), 5u);
    for (const size_t a : row) {
      for (const size_t b : row) {
        if (a < b) seen.emplace(a, b);
      }
    }
  }
  size_t wanted = 0;
  for (size_t a = 0; a < kChoices; ++a) {
    for (size_t b = a + 1; b < kChoices; ++b) {
      EXPECT_EQ(seen.count({a, b}) != 0, !SameTen(a, b)) << a << " and " << b;
      wanted += !SameTen(a, b);
    }
  }
  EXPECT_LT(rows.size(), wanted / 4) << "a row holds up to ten pairs";
}

TEST(PairwiseTest, Rows_OfTheSameSeed_AreTheSame) {
  EXPECT_EQ(PairwiseRows(40, 6, 17, SameTen), PairwiseRows(40, 6, 17, SameTen));
  EXPECT_NE(PairwiseRows(40, 6, 17, SameTen), PairwiseRows(40, 6, 18, SameTen));
}

}  // namespace
}  // namespace pulse::options_test
