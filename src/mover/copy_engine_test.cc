#include "mover/copy_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/testing.h"
#include "mover/test_copy_engine.h"

namespace pulse {
namespace {

std::unique_ptr<CopyEngine> NewInline(size_t depth, uint64_t piece = ~uint64_t{0}) {
  return CreateInlineCopyEngine({.depth = depth, .piece = piece}).value();
}

std::vector<char> Numbered(size_t bytes) {
  std::vector<char> out(bytes);
  std::iota(out.begin(), out.end(), 1);
  return out;
}

TEST(InlineCopyEngine, Batch_CompletesWithItsTagsAndBytes) {
  const std::vector<char> from = Numbered(96);
  std::vector<char> to(96, 0);
  auto engine = NewInline(8);
  const CopyItem items[] = {{&from[0], &to[0], 10, 7}, {&from[10], &to[10], 86, 8}};
  ASSERT_EQ(engine->Submit(items, 2), 2u);
  EXPECT_EQ(engine->in_flight(), 2u);
  CopyCompletion done[4];
  ASSERT_EQ(engine->Poll(done, 4), 2u);
  EXPECT_EQ(done[0].tag + done[1].tag, 15u);
  EXPECT_EQ(done[0].done + done[1].done, 96u);
  EXPECT_TRUE(done[0].status.ok() && done[1].status.ok());
  EXPECT_EQ(to, from);
  EXPECT_EQ(engine->in_flight(), 0u);
  EXPECT_EQ(engine->Poll(done, 4), 0u);
}

TEST(InlineCopyEngine, FullQueue_TakesTheFirstItemsOnly) {
  const std::vector<char> from = Numbered(5);
  std::vector<char> to(5, 0);
  auto engine = NewInline(3);
  std::vector<CopyItem> items;
  for (uint64_t i = 0; i < 5; ++i) items.push_back({&from[i], &to[i], 1, i});
  ASSERT_EQ(engine->Submit(items.data(), 5), 3u);
  EXPECT_EQ(engine->Submit(items.data() + 3, 2), 0u);
  EXPECT_EQ(to, (std::vector<char>{1, 2, 3, 0, 0})) << "what was not taken is not copied";
  CopyCompletion one;
  ASSERT_EQ(engine->Poll(&one, 1), 1u);
  EXPECT_EQ(engine->Submit(items.data() + 3, 2), 1u) << "polling makes room";
  EXPECT_EQ(engine->in_flight(), engine->depth());
  std::vector<CopyCompletion> rest(5);
  EXPECT_EQ(engine->Poll(rest.data(), 5), 3u);
}

TEST(InlineCopyEngine, ItemLongerThanAPiece_CompletesInPart) {
  const std::vector<char> from = Numbered(10);
  std::vector<char> to(10, 0);
  auto engine = NewInline(2, 4);
  CopyItem item{from.data(), to.data(), 10, 1};
  for (const uint64_t expected : {4u, 4u, 2u}) {
    ASSERT_EQ(engine->Submit(&item, 1), 1u);
    CopyCompletion c;
    ASSERT_EQ(engine->Poll(&c, 1), 1u);
    EXPECT_TRUE(c.status.ok());
    EXPECT_EQ(c.done, expected);
    item = RestOf(item, c.done);
  }
  EXPECT_EQ(item.length, 0u);
  EXPECT_EQ(to, from);
}

TEST(InlineCopyEngine, OptionsOfNothing_AreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(CreateInlineCopyEngine({.depth = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CreateInlineCopyEngine({.piece = 0}).status()));
}

// Every engine's answer to items that cannot be, among good ones.
void ExpectHostileItemsAreRefused(CopyEngine* engine, void (*finish)(CopyEngine*)) {
  std::vector<char> memory = Numbered(64);
  const std::vector<char> before = memory;
  char* const m = memory.data();
  const auto last = reinterpret_cast<char*>(~uintptr_t{0} - 8);
  const CopyItem bad[] = {
      {m, m + 1, 2, 0},                   // overlaps by a byte
      {m + 1, m, 2, 0},                   // the other way round
      {m, m, 1, 0},                       // itself
      {nullptr, m, 1, 0},                 //
      {m, nullptr, 1, 0},                 //
      {m, m + 32, ~uint64_t{0}, 0},       // wraps
      {m + 32, m, uint64_t{1} << 63, 0},  // overlaps, by its size
      {last, m, 64, 0},                   // wraps
      {m, last, 64, 0},
  };
  for (const CopyItem& item : bad) {
    ASSERT_EQ(engine->Submit(&item, 1), 1u);
    CopyCompletion c;
    ASSERT_EQ(engine->Poll(&c, 1), 1u);
    EXPECT_TRUE(absl::IsInvalidArgument(c.status)) << c.status;
    EXPECT_EQ(c.done, 0u);
  }
  EXPECT_EQ(memory, before);
  const CopyItem good[] = {
      {nullptr, nullptr, 0, 1}, {m, m, 0, 2}, {m, m + 8, 8, 3}, {m + 24, m + 16, 8, 4}};
  for (const CopyItem& item : good) {
    ASSERT_EQ(engine->Submit(&item, 1), 1u);
    finish(engine);
    CopyCompletion c;
    ASSERT_EQ(engine->Poll(&c, 1), 1u);
    EXPECT_TRUE(c.status.ok()) << c.status;
    EXPECT_EQ(c.done, item.length);
    EXPECT_EQ(c.tag, item.tag);
  }
}

TEST(CopyEngine, HostileSizes_CompleteWithInvalidArgument) {
  ExpectHostileItemsAreRefused(NewInline(4).get(), [](CopyEngine*) {});
  FakeCopyEngine fake(4);
  ExpectHostileItemsAreRefused(
      &fake, [](CopyEngine* e) { static_cast<FakeCopyEngine*>(e)->FinishWell(0); });
}

// A caller that resumes what was done in part, as every caller must, against an engine that ends
// copies in any order, after any number of bytes, none included, and has room for few.
TEST(CopyEngine, PartialCompletionsInAnyOrder_CallerCopiesEverythingOnce) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const size_t items = 1 + random() % 12;
    const std::vector<char> from = Numbered(items * 100);
    std::vector<char> to(from.size(), 0);
    FakeCopyEngine engine(1 + random() % 4);
    std::vector<CopyItem> waiting;
    for (uint64_t i = 0; i < items; ++i) waiting.push_back({&from[i * 100], &to[i * 100], 100, i});
    std::vector<CopyItem> sent(items);
    size_t left = items;
    while (left > 0) {
      const size_t taken = engine.Submit(waiting.data(), waiting.size());
      ASSERT_LE(engine.in_flight(), engine.depth());
      for (size_t i = 0; i < taken; ++i) sent[waiting[i].tag] = waiting[i];
      waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(taken));
      ASSERT_FALSE(engine.open.empty());
      const size_t at = random() % engine.open.size();
      const uint64_t length = engine.open[at].length;
      engine.Finish(at, random() % 2 == 0 ? length : random() % (length + 1));
      CopyCompletion c;
      ASSERT_EQ(engine.Poll(&c, 1), 1u);
      const CopyItem rest = RestOf(sent[c.tag], c.done);
      if (rest.length > 0) {
        waiting.push_back(rest);
      } else {
        --left;
      }
    }
    EXPECT_EQ(to, from) << "round " << round;
    EXPECT_EQ(engine.in_flight(), 0u);
  }
}

TEST(FakeCopyEngine, ErrorAfterAPart_SaysHowMuchWasDone) {
  const std::vector<char> from = Numbered(8);
  std::vector<char> to(8, 0);
  FakeCopyEngine engine(1);
  const CopyItem item{from.data(), to.data(), 8, 5};
  ASSERT_EQ(engine.Submit(&item, 1), 1u);
  EXPECT_EQ(engine.Submit(&item, 1), 0u);
  CopyCompletion c;
  EXPECT_EQ(engine.Poll(&c, 1), 0u);
  EXPECT_EQ(to[0], 0) << "nothing arrives before the test says so";
  engine.Finish(0, 3, absl::UnavailableError("the engine is gone"));
  ASSERT_EQ(engine.Poll(&c, 1), 1u);
  EXPECT_TRUE(absl::IsUnavailable(c.status));
  EXPECT_EQ(c.done, 3u);
  EXPECT_EQ(to, (std::vector<char>{1, 2, 3, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace pulse
