#include "services/kv/memory_shares.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "services/redis/commands/codec.h"

namespace pulse::kv {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kProgram = 20 * kMiB;

TEST(MemorySharesTest, AnyMemory_WithoutMaxValue_SetsAsideWhatItAlwaysDid) {
  // A memory file of before has the same size.
  for (const bool agents : {false, true}) {
    for (const uint64_t memory : {64 * kMiB, 512 * kMiB, 1024 * kMiB, 4096 * kMiB, 65536 * kMiB}) {
      EXPECT_EQ(DivideMemory(memory, 0, agents).set_aside, std::max(32 * kMiB, memory / 16));
    }
  }
}

TEST(MemorySharesTest, AnyMemoryAndValue_BuffersAndTwoCopiesOfARequest_FitIntoWhatIsSetAside) {
  for (const uint64_t memory : {64 * kMiB, 256 * kMiB, 1024 * kMiB, 16384 * kMiB}) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1000}, kMiB, 33 * kMiB, 480 * kMiB}) {
      const MemoryShares own = DivideMemory(memory, value, false);
      EXPECT_LE(kProgram + own.buffers + 2 * redis::LongestRequest(own.max_value), own.set_aside);
      EXPECT_GE(own.buffers, 6 * kMiB);
      const MemoryShares both = DivideMemory(memory, value, true);
      EXPECT_LE(kProgram + both.buffers + 4 * redis::LongestRequest(both.max_value),
                both.set_aside);
    }
  }
}

TEST(MemorySharesTest, MaxValue_NotGiven_FollowsFromTheMemory) {
  EXPECT_EQ(DivideMemory(256 * kMiB, 0, false).max_value, 3 * kMiB - redis::kAroundValue);
  EXPECT_EQ(DivideMemory(1024 * kMiB, 0, false).max_value, 11 * kMiB - redis::kAroundValue);
  EXPECT_EQ(DivideMemory(8192 * kMiB, 0, false).max_value, 32 * kMiB);
  EXPECT_LT(DivideMemory(1024 * kMiB, 0, true).max_value,
            DivideMemory(1024 * kMiB, 0, false).max_value);
}

TEST(MemorySharesTest, MaxValue_Given_TakesTwiceItsLengthFromTheKeys) {
  const MemoryShares usual = DivideMemory(1024 * kMiB, 0, false);
  const MemoryShares large = DivideMemory(1024 * kMiB, 480 * kMiB, false);
  EXPECT_EQ(large.max_value, 480 * kMiB);
  EXPECT_EQ(large.set_aside - usual.set_aside, 2 * (large.max_value - usual.max_value));
  EXPECT_EQ(large.buffers, usual.buffers);
  const MemoryShares small = DivideMemory(1024 * kMiB, kMiB, false);
  EXPECT_EQ(small.max_value, kMiB);
  EXPECT_EQ(small.set_aside, usual.set_aside);
  EXPECT_GT(small.buffers, usual.buffers);
}

}  // namespace
}  // namespace pulse::kv
