#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/testing.h"

namespace pulse {
namespace {

TEST(Crc32c, KnownTexts_HaveTheirKnownSums) {
  // RFC 3720, B.4, and the check value of the catalogue of CRCs.
  EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff').data(), 32), 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending.push_back(c);
  EXPECT_EQ(Crc32c(ascending.data(), 32), 0x46dd794eu);
  EXPECT_EQ(Crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, AnyLengthAndCut_IsTheSameByBothWays) {
  std::mt19937_64 random(testing_util::TestSeed());
  std::string bytes(20'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (int i = 0; i < 300; ++i) {
    const size_t from = random() % 100;
    const size_t n = i < 100 ? static_cast<size_t>(i) : random() % (bytes.size() - from);
    const size_t cut = n == 0 ? 0 : random() % n;
    const char* p = bytes.data() + from;
    const uint32_t whole = Crc32c(p, n);
    EXPECT_EQ(whole, ExtendCrc32cPortable(0, p, n)) << n;
    EXPECT_EQ(whole, ExtendCrc32c(Crc32c(p, cut), p + cut, n - cut)) << n << " cut at " << cut;
    EXPECT_EQ(Crc32cOfLast(whole, Crc32c(p, cut), n - cut), Crc32c(p + cut, n - cut))
        << n << " cut at " << cut;
  }
}

}  // namespace
}  // namespace pulse
