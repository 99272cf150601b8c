#include "services/graph/core/prefix_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/crc32c.h"
#include "base/testing.h"

namespace pulse::graph {
namespace {

TEST(PrefixSums, AscendingStretches_AnyWindow_HaveTheirChecksums) {
  std::mt19937_64 random(testing_util::TestSeed());
  std::string file(400'000, '\0');
  for (char& c : file) c = static_cast<char>(random());
  for (int round = 0; round < 20; ++round) {
    PrefixSums sums;
    uint64_t longest = 0;
    for (uint64_t begin = random() % 1000; begin < file.size() - 1;) {
      const uint64_t end = begin + 1 + random() % std::min<uint64_t>(file.size() - begin, 60'000);
      // A window that begins as late as it may, or somewhere before.
      const uint64_t before = PrefixSums::kStep + (random() % 2 == 0 ? 0 : random() % 100'000);
      const uint64_t at = begin - std::min(begin, before);
      ASSERT_EQ(sums.Of(std::string_view(file).substr(at, end - at), at, begin, end),
                Crc32c(file.data() + begin, end - begin))
          << "[" << begin << ", " << end << ") of a window from " << at;
      longest = std::max(longest, end);
      // Now and then far ahead of what was summed.
      begin += random() % 50 == 0 ? random() % 100'000 : random() % 40;
    }
    EXPECT_GT(longest, file.size() / 2);
  }
}

// Each byte once, and less than two steps for each stretch.
TEST(PrefixSums, LongStretches_AtEachPlace_CostTheirEnds) {
  const std::string file(200'000, 'x');
  PrefixSums sums;
  constexpr size_t kPlaces = 50'000;
  for (uint64_t begin = 0; begin < kPlaces; ++begin) {
    sums.Of(file, 0, begin, begin + 100'000);
  }
  EXPECT_LE(sums.summed(), file.size() + kPlaces * 2 * PrefixSums::kStep);
}

}  // namespace
}  // namespace pulse::graph
