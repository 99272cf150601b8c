// What Tracking keeps, without connections; and other parts of a server alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/testing.h"
#include "net/byte_budget.h"
#include "services/kv/test_executor.h"
#include "services/redis/pause.h"
#include "services/redis/tracking.h"

namespace pulse::kv {
namespace {

// Of this process: VmHWM is what is resident from now on at most. Where the kernel does not offer
// it, a test of it could not fail.
bool ResetMostMemory() {
  std::ofstream reset("/proc/self/clear_refs");
  return static_cast<bool>(reset << "5" << std::flush);
}

using testing_util::Eventually;

// Reads `keys` as a client of its own.
std::shared_ptr<redis::Told> Remember(redis::Tracking* tracking, uint64_t id,
                                      const std::vector<std::string>& keys) {
  auto told = std::make_shared<redis::Told>(id, redis::TrackingOptions(),
                                            [](const std::shared_ptr<redis::Told>&) {});
  EXPECT_TRUE(tracking->Start(told).ok());
  for (const std::string& key : keys) tracking->Remember(told, key);
  return told;
}

TEST(TrackingTest, ClientsThatAreGone_TakeNoRoomFromThoseThatStay) {
  redis::Tracking tracking(1'000'000);
  const auto stays = Remember(&tracking, 1, {"mine"});
  for (uint64_t id = 2; id < 30'000; ++id) {
    Remember(&tracking, id, {"k", "k" + std::to_string(id)});
    tracking.Stop(id);
  }
  tracking.Remember(stays, "k");
  EXPECT_THAT(stays->Take().keys, testing::IsEmpty());  // nor was it told early
  EXPECT_LT(tracking.numbers().items, 4096u);
  tracking.OnChange("k", /*by_client=*/true);
  tracking.OnChange("mine", /*by_client=*/true);
  EXPECT_THAT(stays->Take().keys, testing::ElementsAre("k", "mine"));
}

TEST(TrackingTest, Changes_ThatAreNotTaken_AreCountedAndFewWhereRoomIsShort) {
  const auto room = std::make_shared<net::ByteBudget>(uint64_t{1} << 20, 2048);
  redis::Tracking tracking;
  auto told = std::make_shared<redis::Told>(
      1, redis::TrackingOptions(), [](const std::shared_ptr<redis::Told>&) {}, room);
  const std::string key(100, 'k');
  const auto tell = [&] {
    for (int i = 0; i < 100; ++i) tracking.Tell(told, key);
  };
  tell();
  EXPECT_GT(room->held(), 100 * key.size());
  EXPECT_EQ(told->Take().keys.size(), 100u);
  EXPECT_EQ(room->held(), 0u);
  room->Take(uint64_t{1} << 20);
  tracking.Tell(told, key);
  EXPECT_FALSE(told->Take().all);
  tell();
  EXPECT_EQ(room->held(), uint64_t{1} << 20);
  EXPECT_TRUE(told->Take().all);
  room->Give(uint64_t{1} << 20);
  tell();
  EXPECT_GT(room->held(), 0u);
  told.reset();
  EXPECT_EQ(room->held(), 0u);
}

TEST(TrackingTest, NoRoom_OneIsToldAtOnce) {
  redis::Tracking tracking(100'000);
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("k" + std::to_string(i));
  const auto told = Remember(&tracking, 1, keys);
  const size_t early = told->Take().keys.size();
  EXPECT_GT(early, 0u);
  EXPECT_EQ(tracking.numbers().keys + early, 1000u);
  for (const std::string& key : keys) tracking.OnChange(key, /*by_client=*/true);
  EXPECT_EQ(told->Take().keys.size(), 1000 - early);
  tracking.Remember(told, "again");
  EXPECT_THAT(told->Take().keys, testing::IsEmpty());
}

TEST(TrackingTest, SameClientStartsAgain_IsToldOfWhatItHasReadBefore) {
  redis::Tracking tracking;
  const auto other = Remember(&tracking, 2, {"b"});
  Remember(&tracking, 1, {"a"});
  tracking.Stop(1);
  const auto told = Remember(&tracking, 1, {"b"});
  for (const char* key : {"a", "b"}) tracking.OnChange(key, /*by_client=*/true);
  EXPECT_THAT(told->Take().keys, testing::ElementsAre("a", "b"));
  EXPECT_THAT(other->Take().keys, testing::ElementsAre("b"));
  EXPECT_EQ(tracking.numbers().items, 0u);
}

TEST(TrackingTest, ClientOfARedirectionEnds_WhatItHasNotTakenIsAskedForAgain) {
  redis::Tracking tracking;
  redis::TrackingOptions options;
  options.redirect = 7;
  int notified = 0;
  auto told = std::make_shared<redis::Told>(
      1, options, [&](const std::shared_ptr<redis::Told>&) { ++notified; });
  EXPECT_TRUE(tracking.Start(told).ok());
  tracking.EndRedirection(7);
  EXPECT_EQ(notified, 0);
  tracking.Remember(told, "k");
  tracking.OnChange("k", /*by_client=*/true);
  EXPECT_EQ(notified, 1);
  tracking.EndRedirection(8);
  EXPECT_EQ(notified, 1);
  tracking.EndRedirection(7);
  EXPECT_EQ(notified, 2);
  EXPECT_EQ(told->Take().keys.size(), 1u);
  tracking.EndRedirection(7);
  EXPECT_EQ(notified, 2);
  tracking.Stop(1);
}

TEST(TrackingTest, LaterExpiryNotedAfterAnEarlierOne_DoesNotDelayIt) {
  redis::Tracking tracking;
  const auto told = Remember(&tracking, 1, {"k"});
  const int64_t now = WallMillis();
  tracking.NoteExpiry("k", now + 100);
  tracking.NoteExpiry("k", now + 3'600'000);
  tracking.NoteExpiry("k", 0);
  EXPECT_TRUE(Eventually([&] { return tracking.numbers().keys == 0; }));
  EXPECT_THAT(told->Take().keys, testing::ElementsAre("k"));
}

TEST(TrackingTest, KeysThatAreRead_TakeNothingFromTransactions) {
  TestExecutor test;
  test.session.facts.id = 7;
  test.session.notify = [](const std::shared_ptr<redis::Told>&) {};
  test.batch.Add(1, "client tracking on\r\n");
  test.batch.Add(2, "mget a b c\r\n");
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  EXPECT_EQ(test.facts.tracking.numbers().keys, 3u);
  EXPECT_EQ(test.facts.transactions.held(), 0u);
}

// Each is compared with each.
TEST(TrackingTest, ManyPrefixes_AreRefusedBeforeTheyAreCompared) {
  TestExecutor test;
  test.session.notify = [](const std::shared_ptr<redis::Told>&) {};
  std::string command = "client tracking on bcast";
  for (int i = 0; i < 257; ++i) command += " prefix same";
  test.batch.Add(1, command + "\r\n");
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  EXPECT_EQ(test.batch.out, "-ERR more than 256 prefixes\r\n");
}

// Each message to the client takes a copy of them.
TEST(TrackingTest, LongPrefixes_AreRefusedBeyondABound_AlsoThoseOfSeveralCommands) {
  TestExecutor test;
  test.session.notify = [](const std::shared_ptr<redis::Told>&) {};
  const std::string half(32'767, 'p');
  test.batch.Add(1, "client tracking on bcast prefix a" + half + "\r\n");
  test.batch.Add(2, "client tracking on bcast prefix b" + half + "\r\n");
  test.batch.Add(3, "client tracking on bcast prefix c\r\n");
  test.batch.Add(4, "client tracking off\r\n");
  test.batch.Add(5, "client tracking on bcast prefix a" + half + half + "xx\r\n");
  test.batch.Add(6, "client tracking on bcast prefix a" + half + half + "x\r\n");
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  const std::string error = "-ERR prefixes of more than 65536 bytes in all\r\n";
  EXPECT_EQ(test.batch.out, "+OK\r\n+OK\r\n" + error + "+OK\r\n" + error + "+OK\r\n");
}

TEST(PauseTest, WaiterThatIsForgotten_IsNotKeptOrCalled) {
  redis::Pause pause;
  EXPECT_TRUE(pause.Begin(1'000'000, false).ok());
  auto gone = std::make_shared<int>(0);
  auto stays = std::make_shared<int>(0);
  const uint64_t waiter = pause.Wait([gone] { ++*gone; });
  EXPECT_NE(waiter, 0u);
  EXPECT_NE(pause.Wait([stays] { ++*stays; }), waiter);
  EXPECT_EQ(gone.use_count(), 2);
  pause.Forget(waiter);
  EXPECT_EQ(gone.use_count(), 1);
  pause.End();
  EXPECT_EQ(*gone + *stays, 1);
  EXPECT_EQ(pause.Wait([stays] { ++*stays; }), 0u);
  EXPECT_EQ(*stays, 2);
}

// Of one byte with many: it takes the memory of the shorter one.
TEST(ExecutorTest, LcsOfValuesOfVeryDifferentSizes_TakesLittleMemory) {
  TestExecutor test(uint64_t{64} << 20);
  test.batch.Add(1, "setrange big 12000000 x\r\n");
  test.batch.Add(2, "set small x\r\n");
  ASSERT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  // From what is resident now on, and not what SETRANGE took.
  if (!ResetMostMemory()) GTEST_SKIP() << "the most memory cannot be reset here";
  const uint64_t before = testing_util::ProcessMemory("VmHWM");
  test.batch.Add(3, "lcs small big\r\n");
  test.batch.Add(4, "lcs nothing big len\r\n");
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  EXPECT_THAT(test.batch.out, testing::EndsWith("$1\r\nx\r\n:0\r\n"));
  EXPECT_LT(testing_util::ProcessMemory("VmHWM") - before, uint64_t{40} << 20);
}

TEST(ExecutorTest, OldValueThatIsNotNeeded_IsNotCopied) {
  TestExecutor test(uint64_t{128} << 20);
  test.batch.Add(1, "setrange big 32000000 x\r\n");
  test.batch.Add(2, "set other 1\r\n");
  ASSERT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  malloc_trim(0);  // what SETRANGE has freed would be taken again
  if (!ResetMostMemory()) GTEST_SKIP() << "the most memory cannot be reset here";
  const uint64_t before = testing_util::ProcessMemory("VmHWM");
  uint64_t ticket = 2;
  for (const char* line : {"set big x nx", "setnx big x", "msetnx new 1 big 1",
                           "renamenx other big", "copy other big", "rename big big"}) {
    test.batch.Add(++ticket, std::string(line) + "\r\n");
  }
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  EXPECT_THAT(test.batch.out, testing::EndsWith("+OK\r\n$-1\r\n:0\r\n:0\r\n:0\r\n:0\r\n+OK\r\n"));
  EXPECT_LT(testing_util::ProcessMemory("VmHWM") - before, uint64_t{24} << 20);
}

// Few are looked up at a time.
TEST(ExecutorTest, MgetOfManyKeys_TakesLittleMemory) {
  TestExecutor test;
  constexpr int kKeys = 500'000;
  std::string request = "*" + std::to_string(kKeys + 1) + "\r\n$4\r\nmget\r\n";
  for (int i = 0; i < kKeys; ++i) request += i % 1000 == 0 ? "$1\r\nb\r\n" : "$1\r\na\r\n";
  test.batch.Add(1, "set b 1\r\n");
  test.batch.Add(2, request);
  test.executor.Parse(&test.batch);
  test.batch.out.reserve(size_t{4} << 20);
  if (!ResetMostMemory()) GTEST_SKIP() << "the most memory cannot be reset here";
  const uint64_t before = testing_util::ProcessMemory("VmHWM");
  EXPECT_EQ(test.Run(), redis::Executor::Stop::kEnd);
  EXPECT_THAT(test.batch.out, testing::StartsWith("+OK\r\n*500000\r\n$1\r\n1\r\n$-1\r\n"));
  EXPECT_EQ(test.batch.out.size(), 5 + 9 + 500 * 7 + (kKeys - 500) * 5);
  [[maybe_unused]] const uint64_t grown = testing_util::ProcessMemory("VmHWM") - before;
#if !defined(__SANITIZE_THREAD__)  // which keeps several bytes of its own for each that is touched
  EXPECT_LT(grown, uint64_t{24} << 20);
#endif
}

}  // namespace
}  // namespace pulse::kv
