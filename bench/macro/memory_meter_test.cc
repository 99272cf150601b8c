#include "bench/macro/memory_meter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/testing.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

TEST(MemoryMeterTest, ParseMemoryUse_StatusAndMaps_AreRead) {
  const MemoryUse use = ParseMemoryUse(
      "Name:\tpulse\nVmPeak:\t  900000 kB\nVmRSS:\t    2048 kB\nRssAnon:\t    1024 kB\n",
      "7f0000000000-7f0002100000 rw-s 00000000 00:01 7   /memfd:pulse-region (deleted)\n"
      "7f1000000000-7f1002100000 rw-s 00000000 00:01 8   /memfd:pulse-region (deleted)\n"
      "7f2000000000-7f2004100000 rw-s 00000000 00:01 9   /memfd:pulse-region (deleted)\n"
      "7f3000000000-7f3000001000 rw-s 00000000 00:01 10  /memfd:pulse-region (deleted)\n"
      "7f4000000000-7f4010000000 rw-p 00000000 00:00 0 \n"
      "7f5000000000-7f5004000000 rw-s 00000000 00:01 11  /memfd:another (deleted)\n");
  EXPECT_EQ(use.resident, 2048U << 10);
  EXPECT_EQ(use.anonymous, 1024U << 10);
  EXPECT_EQ(use.queues, 2U);
  EXPECT_EQ(use.queue_bytes, 66U << 20);
  EXPECT_EQ(use.fetch_bytes, 65U << 20);
}

TEST(MemoryMeterTest, ParseMemoryUse_OddText_IsNothing) {
  const MemoryUse use = ParseMemoryUse("", "x /memfd:pulse-region\n-\n");
  EXPECT_EQ(use.resident + use.anonymous + use.queues + use.fetch_bytes, 0U);
}

TEST(MemoryMeterTest, MemoryMeter_ThisProcess_SeesWhatItTakes) {
  auto meter = MemoryMeter::Create(Variant{});
  ASSERT_TRUE(meter.ok());
  (*meter)->Start();
  constexpr size_t kBytes = size_t{64} << 20;
  {
    std::vector<char> memory(kBytes);
    std::memset(memory.data(), 1, kBytes);
    const uint64_t before = (*meter)->looks();
    EXPECT_TRUE(testing_util::Eventually([&] { return (*meter)->looks() >= before + 2; }));
    EXPECT_EQ(memory[kBytes / 2], 1);
  }
  nlohmann::json result;
  (*meter)->Stop(&result);
  EXPECT_GE(result.at("host_rss_mib").get<double>() - result.at("host_idle_rss_mib").get<double>(),
            60);
  EXPECT_GE(result.at("host_private_mib").get<double>(), 60);
  EXPECT_FALSE(result.contains("agent_rss_mib"));
}

}  // namespace
}  // namespace pulse::bench
