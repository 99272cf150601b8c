// The simulated copy engine: what it takes, how long that takes, and what goes wrong by its seed.
#include "vdpu/sim_copy_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing.h"

namespace pulse::vdpu {
namespace {

using testing_util::TestSeed;

std::string RandomBytes(std::mt19937_64* random, size_t n) {
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>((*random)());
  return bytes;
}

// Polls until `n` completions are there.
std::vector<CopyCompletion> PollAll(CopyEngine* engine, size_t n) {
  std::vector<CopyCompletion> all;
  CopyCompletion some[7];
  while (all.size() < n) {
    const size_t got = engine->Poll(some, std::size(some));
    all.insert(all.end(), some, some + got);
  }
  return all;
}

TEST(SimCopyEngine, CopyThatIsDone_TookItsTime) {
  const auto engine =
      CreateSimCopyEngine({.bandwidth_gb_s = 0.1, .latency_us = 500, .depth = 4}).value();
  const std::string from(1'000'000, 'x');
  std::string to(from.size(), '\0');
  const CopyItem item{from.data(), to.data(), from.size(), 7};
  const int64_t begin = NowNanos();
  ASSERT_EQ(engine->Submit(&item, 1), 1u);
  EXPECT_EQ(engine->in_flight(), 1u);
  const auto done = PollAll(engine.get(), 1);
  // A price is a lower bound: 10 ms for the bytes, and the latency.
  EXPECT_GE(NowNanos() - begin, 10'500'000);
  EXPECT_EQ(done[0].tag, 7u);
  EXPECT_EQ(done[0].done, from.size());
  EXPECT_TRUE(done[0].status.ok());
  EXPECT_EQ(to, from);
  EXPECT_EQ(engine->in_flight(), 0u);
}

TEST(SimCopyEngine, FullQueue_TakesWhatItsDepthAllows) {
  const auto engine = CreateSimCopyEngine({.depth = 3}).value();
  const std::string from(100, 'x');
  std::vector<std::string> to(5, std::string(100, '\0'));
  std::vector<CopyItem> items;
  for (size_t i = 0; i < to.size(); ++i) items.push_back({from.data(), to[i].data(), 100, i});
  EXPECT_EQ(engine->Submit(items.data(), items.size()), 3u);
  EXPECT_EQ(engine->Submit(items.data(), items.size()), 0u);
  PollAll(engine.get(), 3);
  EXPECT_EQ(engine->Submit(items.data() + 3, 2), 2u);
  PollAll(engine.get(), 2);
  for (const std::string& bytes : to) EXPECT_EQ(bytes, from);
}

TEST(SimCopyEngine, BadItem_CompletesWithTheReason) {
  const auto engine = CreateSimCopyEngine({}).value();
  char bytes[100] = {};
  const CopyItem items[] = {
      {nullptr, bytes, 5, 1}, {bytes, bytes + 2, 10, 2}, {bytes, bytes, 0, 3}};
  ASSERT_EQ(engine->Submit(items, 3), 3u);
  for (const CopyCompletion& done : PollAll(engine.get(), 3)) {
    EXPECT_EQ(absl::IsInvalidArgument(done.status), done.tag != 3) << done.tag;
    EXPECT_EQ(done.done, 0u);
  }
}

// What is said to be done is done, and nothing else is touched.
TEST(SimCopyEngine, FaultsBySeed_CompletionsReportThem) {
  std::mt19937_64 random(TestSeed());
  const auto engine = CreateSimCopyEngine({.bandwidth_gb_s = 100,
                                           .depth = 16,
                                           .seed = random(),
                                           .partial = 300,
                                           .failing = 300,
                                           .full = 500,
                                           .reorder = true})
                          .value();
  size_t partial = 0, failed = 0, out_of_order = 0, full = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<std::string> from, to;
    std::vector<CopyItem> items;
    for (uint64_t i = 0; i < 16; ++i) {
      from.push_back(RandomBytes(&random, 1 + random() % 5000));
      to.emplace_back(from.back().size(), '\0');
    }
    for (uint64_t i = 0; i < 16; ++i)
      items.push_back({from[i].data(), to[i].data(), from[i].size(), i});
    const size_t taken = engine->Submit(items.data(), items.size());
    full += taken < items.size() ? 1 : 0;
    const auto done = PollAll(engine.get(), taken);
    for (size_t i = 0; i < done.size(); ++i) {
      const CopyCompletion& one = done[i];
      out_of_order += one.tag != i ? 1 : 0;
      ASSERT_LT(one.tag, taken);
      const std::string &source = from[one.tag], &target = to[one.tag];
      EXPECT_EQ(target.substr(0, one.done), source.substr(0, one.done));
      EXPECT_EQ(target.substr(one.done), std::string(target.size() - one.done, '\0'));
      failed += one.status.ok() ? 0 : 1;
      partial += one.status.ok() && one.done < source.size() ? 1 : 0;
    }
  }
  EXPECT_GT(partial, 0u);
  EXPECT_GT(failed, 0u);
  EXPECT_GT(out_of_order, 0u);
  EXPECT_GT(full, 0u);
}

TEST(SimCopyEngine, Options_AreChecked) {
  EXPECT_TRUE(absl::IsInvalidArgument(CreateSimCopyEngine({.bandwidth_gb_s = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CreateSimCopyEngine({.latency_us = -1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CreateSimCopyEngine({.depth = 0}).status()));
}

}  // namespace
}  // namespace pulse::vdpu
