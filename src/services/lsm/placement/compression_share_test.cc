#include "services/lsm/placement/compression_share.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/testing.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kMs = 1'000'000;

// The merging thread's CPU time.
std::atomic<int64_t> cpu{0};
int64_t Cpu() { return cpu.load(); }

class CompressionShareTest : public testing::Test {
 protected:
  void SetUp() override { cpu = 0; }
};

TEST_F(CompressionShareTest, BeforeOwnBlock_WithinItsPart_DoesNotWait) {
  CompressionShare share(Cpu);
  share.OnBlock(60 * kMs);
  cpu = 40 * kMs;  // of 100
  std::atomic<bool> done{false};
  std::thread merger([&] {
    share.BeforeOwnBlock();
    done = true;
  });
  merger.join();
  EXPECT_TRUE(done);
}

// So a place that is never given back stops nobody.
TEST_F(CompressionShareTest, BeforeOwnBlock_WorkersIdle_Ends) {
  CompressionShare share(Cpu);
  cpu = 100 * kMs;
  share.BeforeOwnBlock();
  share.OnBlock(1 * kMs);
  share.BeforeOwnBlock();
}

TEST_F(CompressionShareTest, BeforeOwnBlock_BeyondItsPart_WaitsForWorkers) {
  CompressionShare share(Cpu);
  // A block takes so long that the workers' silence is never taken for idleness here.
  share.OnBlock(20'000 * kMs);
  cpu = 20'000 * kMs;  // half of it
  std::atomic<bool> done{false};
  std::thread merger([&] {
    share.BeforeOwnBlock();
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  share.OnBlock(1 * kMs);  // not enough yet
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  share.OnBlock(10'000 * kMs);  // 20 of 50 now
  EXPECT_TRUE(testing_util::Eventually([&] { return done.load(); }));
  merger.join();
}

}  // namespace
}  // namespace pulse::lsm
