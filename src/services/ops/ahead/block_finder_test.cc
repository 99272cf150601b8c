#include "services/ops/ahead/block_finder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/testing.h"
#include "services/ops/ahead/test_deflate.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;

TEST(FindBlock, EachBlockWithOwnCodesOfEachEncoder_IsFound) {
  size_t blocks = 0;
  for (const Kind kind : {Kind::kText, Kind::kMixed}) {
    const std::string data = MakeData(kind, 300'000, TestSeed());
    for (const Encoder& encoder : Encoders()) {
      const std::string bytes = Deflate(encoder, data);
      for (const BlockPlace& block : BlocksOf(bytes)) {
        if (!block.dynamic) continue;
        ++blocks;
        EXPECT_EQ(FindBlock(bytes, block.bit, block.bit + 1), block.bit) << Describe(encoder);
      }
    }
  }
  EXPECT_GT(blocks, 100u);
}

TEST(FindBlock, SearchFromAnywhere_FindsTheNextOneOrOneBefore) {
  std::mt19937_64 random(TestSeed());
  const std::string bytes =
      Deflate({Encoder::Library::kZlib, 6, 0, 3}, MakeData(Kind::kText, 500'000, TestSeed()));
  const std::vector<BlockPlace> blocks = BlocksOf(bytes);
  for (size_t i = 1; i + 1 < blocks.size(); ++i) {
    if (!blocks[i].dynamic) continue;
    const uint64_t before = blocks[i - 1].bit + 1;
    const uint64_t from = before + random() % (blocks[i].bit - before);
    const auto found = FindBlock(bytes, from, 8 * bytes.size());
    ASSERT_TRUE(found.has_value());
    EXPECT_GE(*found, from);
    // Nothing in compressed text looks like a header but a header, or hardly ever.
    EXPECT_LE(*found, blocks[i].bit);
    EXPECT_EQ(FindBlock(bytes, from, *found), std::nullopt) << "behind the range";
  }
}

TEST(FindBlock, HeaderThatIsCutOff_IsNotFound) {
  const std::string bytes =
      Deflate({Encoder::Library::kZlib, 6, 0, 8}, MakeData(Kind::kText, 100'000, TestSeed()));
  ASSERT_EQ(FindBlock(bytes, 0, 1), 0u);
  for (size_t size = 0; size < 20; ++size) {
    EXPECT_EQ(FindBlock(absl::string_view(bytes).substr(0, size), 0, 1), std::nullopt) << size;
  }
  EXPECT_EQ(FindBlock(absl::string_view(bytes).substr(0, kLongestBlockHeader), 0, 1), 0u);
}

TEST(FindBlock, ZerosAndOnes_HaveNoBlock) {
  EXPECT_EQ(FindBlock(std::string(100'000, '\0'), 0, 800'000), std::nullopt);
  EXPECT_EQ(FindBlock(std::string(100'000, '\xff'), 0, 800'000), std::nullopt);
}

}  // namespace
}  // namespace pulse::ops
