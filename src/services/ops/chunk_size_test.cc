// How large chunks are, and that small inputs of zstd are for two processors, too.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/cpu_list.h"
#include "base/testing.h"
#include "services/ops/codecs.h"
#include "services/ops/compress.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(ChunkBytes, ZstdOfKnownSize_IsTwoFramesOrMore) {
  for (int level = kMinLevel; level <= kMaxLevel; ++level) {
    const size_t usual = ChunkBytes(Format::kZstd, level);
    const uint64_t least = level <= 6 ? kMiB : 2 * kMiB;
    for (const uint64_t total : {2 * least, 2 * least + 1, 3 * kMiB + 12345, 2 * usual - 1}) {
      if (total < 2 * least || total >= 2 * usual) continue;
      const size_t chunk = ChunkBytes(Format::kZstd, level, total);
      EXPECT_GE(chunk, least) << level << ", " << total;
      EXPECT_LE(chunk, usual) << level << ", " << total;
      EXPECT_EQ((total + chunk - 1) / chunk, 2U) << level << ", " << total;
    }
    // Less would cost size; more has several anyway.
    for (const uint64_t total :
         {uint64_t{0}, uint64_t{1}, 2 * least - 1, 2 * uint64_t{usual}, UINT64_MAX}) {
      EXPECT_EQ(ChunkBytes(Format::kZstd, level, total), usual) << level << ", " << total;
    }
  }
  for (const Format format : {Format::kGzip, Format::kZlib, Format::kBgzf, Format::kLz4}) {
    EXPECT_EQ(ChunkBytes(format, 6, 3 * kMiB), ChunkBytes(format, 6));
  }
}

TEST(ChunkBytes, ZstdOfASmallFile_CostsLittle_AndReadsBack) {
  const std::string data = MakeData(Kind::kMixed, 3 * kMiB, TestSeed());
  for (const int level : {1, 3, 6}) {
    CompressOptions options;
    options.format = Format::kZstd;
    options.level = level;
    const UniqueFd in = MemoryFile(data);
    const UniqueFd out = MemoryFile("");
    const auto stats = Compress(options, in.get(), "IN", out.get(), "OUT");
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(stats->chunks, 2U);
    options.chunk_bytes = 4 * kMiB;
    const auto one = CompressText(options, data);
    ASSERT_TRUE(one.ok()) << one.status();
    const std::string two = ContentOf(out);
    EXPECT_LE(two.size() * 100, one->size() * 102) << level;
    const Decompressed back = DecompressText(two);
    ASSERT_TRUE(back.status.ok()) << back.status;
    EXPECT_TRUE(back.data == data);
  }
}

TEST(ChunkBytes, Deterministic_DependsOnNothingButDataAndKnownSize) {
  const std::string data = MakeData(Kind::kText, 3 * kMiB, TestSeed());
  for (const bool pipe : {false, true}) {
    CompressOptions options;
    options.format = Format::kZstd;
    options.level = 3;
    options.deterministic = true;
    const auto first = CompressText(options, data, pipe);
    ASSERT_TRUE(first.ok()) << first.status();
    // Of one thread, and of more lanes than there are CPUs.
    options.processors.host_cpus = {MyCpus().front()};
    const auto second = CompressText(options, data, pipe);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_TRUE(*first == *second) << (pipe ? "pipe" : "file");
    options.processors.agent_cpus = {MyCpus().front(), MyCpus().back()};
    const auto third = CompressText(options, data, pipe);
    ASSERT_TRUE(third.ok()) << third.status();
    EXPECT_TRUE(*first == *third) << (pipe ? "pipe" : "file");
  }
}

}  // namespace
}  // namespace pulse::ops
