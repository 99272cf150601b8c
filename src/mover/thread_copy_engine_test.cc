#include "mover/thread_copy_engine.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/testing.h"

namespace pulse {
namespace {

std::vector<CopyCompletion> PollAll(CopyEngine* engine) {
  std::vector<CopyCompletion> all;
  testing_util::Eventually([&] {
    CopyCompletion some[7];
    const size_t n = engine->Poll(some, 7);
    all.insert(all.end(), some, some + n);
    return engine->in_flight() == 0;
  });
  return all;
}

TEST(ThreadCopyEngine, RandomItems_CompleteOnceWithAllTheirBytes) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (const int threads : {1, 3}) {
    const auto engine =
        CreateThreadCopyEngine({.threads = threads, .depth = 50, .stream_bytes = 2000}).value();
    std::vector<char> from(200'000), to(200'000, 0);
    for (char& c : from) c = static_cast<char>(random());
    std::vector<CopyItem> items;
    for (size_t at = 0; at < from.size();) {
      const size_t n = std::min<size_t>(random() % 20'000, from.size() - at);
      items.push_back({&from[at], &to[at], n, items.size()});
      at += n;
    }
    std::vector<int> completed(items.size(), 0);
    for (size_t next = 0; next < items.size();) {
      const size_t taken = engine->Submit(&items[next], items.size() - next);
      EXPECT_LE(engine->in_flight(), engine->depth());
      next += taken;
      for (const CopyCompletion& c : PollAll(engine.get())) {
        EXPECT_TRUE(c.status.ok());
        EXPECT_EQ(c.done, items[c.tag].length);
        ++completed[c.tag];
      }
    }
    EXPECT_EQ(completed, std::vector<int>(items.size(), 1));
    EXPECT_EQ(to, from);
  }
}

TEST(ThreadCopyEngine, InvalidItem_CompletesWithItsError) {
  const auto engine = CreateThreadCopyEngine({}).value();
  char bytes[10];
  const CopyItem items[] = {{bytes, bytes + 1, 5, 3}, {nullptr, bytes, 5, 4}, {bytes, bytes, 0, 5}};
  ASSERT_EQ(engine->Submit(items, 3), 3u);
  for (const CopyCompletion& c : PollAll(engine.get())) {
    EXPECT_EQ(c.status.ok(), c.tag == 5) << c.tag;
    EXPECT_EQ(c.done, 0u);
  }
}

TEST(ThreadCopyEngine, FullQueue_TakesTheFirstItemsOnly) {
  const auto engine = CreateThreadCopyEngine({.depth = 2}).value();
  std::vector<char> from(30, 'x'), to(30, 0);
  const CopyItem items[] = {
      {&from[0], &to[0], 10, 0}, {&from[10], &to[10], 10, 1}, {&from[20], &to[20], 10, 2}};
  EXPECT_EQ(engine->Submit(items, 3), 2u);
  EXPECT_EQ(engine->Submit(items + 2, 1), 0u) << "completions that were not polled count";
  EXPECT_EQ(PollAll(engine.get()).size(), 2u);
  EXPECT_EQ(to[20], 0);
  EXPECT_EQ(engine->Submit(items + 2, 1), 1u);
  PollAll(engine.get());
  EXPECT_EQ(to, from);
}

TEST(ThreadCopyEngine, DestroyedEarly_FinishesWhatItTook) {
  std::vector<char> from(1 << 20, 'y'), to(1 << 20, 0);
  {
    const auto engine = CreateThreadCopyEngine({.threads = 2}).value();
    const CopyItem item{from.data(), to.data(), from.size(), 1};
    ASSERT_EQ(engine->Submit(&item, 1), 1u);
  }
  EXPECT_EQ(to, from);
}

TEST(ThreadCopyEngine, OptionsOfNothing_AreRefused) {
  for (const ThreadCopyOptions& options :
       {ThreadCopyOptions{.threads = 0}, ThreadCopyOptions{.threads = 5000},
        ThreadCopyOptions{.depth = 0}, ThreadCopyOptions{.cpus = "none"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CreateThreadCopyEngine(options).status()));
  }
}

TEST(CopyPastCaches, AnyLengthAndAlignment_CopiesThoseBytesOnly) {
  std::mt19937_64 random(testing_util::TestSeed());
  std::vector<char> from(5000);
  for (char& c : from) c = static_cast<char>(random());
  for (int i = 0; i < 500; ++i) {
    const size_t at = random() % 100, to_at = random() % 100;
    const size_t n = i < 100 ? static_cast<size_t>(i) : random() % 4800;
    std::vector<char> to(5000, 0);
    CopyPastCaches(&to[to_at], &from[at], n);
    ASSERT_TRUE(std::equal(&from[at], &from[at] + n, &to[to_at])) << n;
    ASSERT_EQ(std::count(to.begin(), &to[to_at] - to.data() + to.begin(), 0),
              static_cast<std::ptrdiff_t>(to_at));
    ASSERT_TRUE(std::all_of(to.begin() + static_cast<std::ptrdiff_t>(to_at + n), to.end(),
                            [](char c) { return c == 0; }));
  }
}

}  // namespace
}  // namespace pulse
