#include "services/redis/slow_log.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace pulse::redis {
namespace {

void Add(SlowLog* log, const std::vector<std::string_view>& arguments) {
  log->Add(arguments, 1'000'000, "127.0.0.1:1", "me");
}

TEST(SlowLogTest, Entries_NewestFirst_OldOnesGo) {
  SlowLog log;
  log.SetLength(2);
  for (const char* key : {"a", "b", "c"}) Add(&log, {"get", key});
  const auto all = log.Newest(10);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].arguments, (std::vector<std::string>{"get", "c"}));
  EXPECT_EQ(all[0].id, 2);
  EXPECT_EQ(all[1].id, 1);
  EXPECT_EQ(all[0].peer, "127.0.0.1:1");
  EXPECT_GT(all[0].micros, 0);
  EXPECT_EQ(log.Newest(1).size(), 1u);
  log.SetLength(1);
  EXPECT_EQ(log.size(), 1u);
  log.Clear();
  EXPECT_EQ(log.size(), 0u);
  Add(&log, {"get", "d"});
  EXPECT_EQ(log.Newest(1)[0].id, 3) << "numbers are not given again";
  log.SetLength(0);
  Add(&log, {"get", "e"});
  EXPECT_EQ(log.size(), 0u);
}

TEST(SlowLogTest, LongArguments_AreCut) {
  SlowLog log;
  const std::string value(200, 'x');
  std::vector<std::string_view> many(40, "k");
  many[1] = value;
  Add(&log, many);
  const auto arguments = log.Newest(1)[0].arguments;
  ASSERT_EQ(arguments.size(), 32u);
  EXPECT_EQ(arguments[1], absl::StrCat(std::string(128, 'x'), "... (72 more bytes)"));
  EXPECT_EQ(arguments[31], "... (9 more arguments)");
}

TEST(SlowLogTest, ManyLongEntries_MemoryBounded) {
  SlowLog log;
  log.SetLength(1'000'000);
  const std::string value(1000, 'x');
  const std::vector<std::string_view> many(32, value);
  for (int i = 0; i < 3000; ++i) Add(&log, many);
  size_t bytes = 0;
  for (const auto& entry : log.Newest(SIZE_MAX)) bytes += entry.Bytes();
  EXPECT_LE(bytes, SlowLog::kMostBytes);
  EXPECT_GT(bytes, SlowLog::kMostBytes / 2);
  EXPECT_EQ(log.Newest(1)[0].id, 2999);
}

TEST(SlowLogTest, Limit_NothingAllAndBetween) {
  SlowLog log;
  EXPECT_FALSE(log.IsSlow(1));
  EXPECT_TRUE(log.IsSlow(uint64_t{1} << 50));
  log.SetLimit(0);
  EXPECT_TRUE(log.IsSlow(0));
  log.SetLimit(-1);
  EXPECT_FALSE(log.IsSlow(uint64_t{1} << 62));
  log.SetLimit(INT64_MAX);
  EXPECT_FALSE(log.IsSlow(uint64_t{1} << 62));
}

}  // namespace
}  // namespace pulse::redis
