// DirtyTable against a simple model, and what its proof says, with threads.
#include "services/redis/offload/dirty_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"

namespace pulse::redis {
namespace {

TEST(DirtyTableTest, Key_MarkedAndSettled_IsDirtyUntilALaterCatchUp) {
  CatchUpClock clock;
  DirtyTable table(&clock, 1024, 1);
  const auto slot = table.SlotOf("key");
  ASSERT_TRUE(table.Check(slot).has_value());
  ASSERT_TRUE(table.Mark(slot));
  EXPECT_FALSE(table.Check(slot).has_value());
  const uint64_t before = clock.Begin();
  table.Settle(slot);
  EXPECT_FALSE(table.Check(slot).has_value());
  EXPECT_GT(table.wanted(), clock.finished());
  // One that had begun when the answer came may have missed the write.
  clock.Finish(before);
  EXPECT_FALSE(table.Check(slot).has_value());
  EXPECT_GT(table.wanted(), clock.finished());
  clock.Finish(clock.Begin());
  EXPECT_TRUE(table.Check(slot).has_value());
  EXPECT_EQ(table.wanted(), clock.finished());
}

TEST(DirtyTableTest, CatchUp_BegunAndNotFinished_CleansNothing) {
  CatchUpClock clock;
  DirtyTable table(&clock, 1024, 1);
  ASSERT_TRUE(table.Mark(3));
  table.Settle(3);
  clock.Begin();
  EXPECT_FALSE(table.Check(3).has_value());
  clock.Finish(clock.Begin());
  EXPECT_TRUE(table.Check(3).has_value());
}

TEST(DirtyTableTest, CleanWord_KeyMarkedSince_NeverMatchesAgain) {
  CatchUpClock clock;
  DirtyTable table(&clock, 1024, 1);
  const auto word = table.Check(7);
  ASSERT_TRUE(word.has_value());
  EXPECT_TRUE(table.Unchanged(7, *word));
  ASSERT_TRUE(table.Mark(7));
  EXPECT_FALSE(table.Unchanged(7, *word));
  table.Settle(7);
  EXPECT_FALSE(table.Unchanged(7, *word));
  clock.Finish(clock.Begin());
  EXPECT_FALSE(table.Unchanged(7, *word));
}

TEST(DirtyTableTest, Version_NextMark_EndsItForGood) {
  CatchUpClock clock;
  DirtyTable table(&clock, 2, 1);
  const auto first = table.VersionOf(0);
  DirtyTable::Version alone;
  ASSERT_TRUE(table.Mark(0, &alone));
  EXPECT_NE(table.VersionOf(0), first);
  EXPECT_EQ(table.VersionOf(0), alone);
  table.Settle(0);
  EXPECT_EQ(table.VersionOf(0), alone);
  EXPECT_EQ(table.VersionOf(1), first);
  // No catch-up begins meanwhile, so that the word comes back; the version does not.
  ASSERT_TRUE(table.Mark(0));
  table.Settle(0);
  EXPECT_NE(table.VersionOf(0), alone);
  // What may write any key changes all.
  const auto other = table.VersionOf(1);
  ASSERT_TRUE(table.Mark(table.everything()));
  EXPECT_NE(table.VersionOf(1), other);
  table.Settle(table.everything());
}

TEST(DirtyTableTest, MarkOfEverything_Refused_ChangesNothing) {
  CatchUpClock clock;
  DirtyTable table(&clock, 2, 1);
  const auto version = table.VersionOf(0);
  const auto word = table.Check(table.everything());
  ASSERT_TRUE(word.has_value());
  ASSERT_TRUE(table.Mark(table.everything()));
  EXPECT_FALSE(table.VersionOf(0).known());
  EXPECT_FALSE(table.Check(table.everything()).has_value());
  DirtyTable::Version alone;
  ASSERT_TRUE(table.Mark(1, &alone));
  EXPECT_FALSE(alone.known());
  table.Settle(1);
  table.Refuse(table.everything());
  EXPECT_EQ(table.VersionOf(0), version);
  EXPECT_EQ(table.Check(table.everything()), word);
  ASSERT_TRUE(table.Mark(table.everything()));
  table.Settle(table.everything());
  EXPECT_TRUE(table.VersionOf(0).known());
  EXPECT_NE(table.VersionOf(0), version);
  EXPECT_FALSE(table.Check(table.everything()).has_value());
  EXPECT_EQ(table.in_flight(), 0u);
  // One key: it ends what is known of that, refused or not.
  const auto before = table.VersionOf(0);
  ASSERT_TRUE(table.Mark(0));
  table.Refuse(0);
  EXPECT_NE(table.VersionOf(0), before);
}

TEST(DirtyTableTest, Writer_NoOtherUnderWay_IsAlone) {
  CatchUpClock clock;
  DirtyTable table(&clock, 2, 1);
  using Version = DirtyTable::Version;
  const auto alone = [&](DirtyTable::Slot slot) {
    Version version;
    EXPECT_TRUE(table.Mark(slot, &version));
    return version.slot != Version::kUnknown;
  };
  EXPECT_TRUE(alone(0));
  EXPECT_FALSE(alone(0));
  EXPECT_TRUE(alone(1));
  table.Settle(0);
  EXPECT_FALSE(alone(0));
  table.Settle(0);
  table.Settle(0);
  EXPECT_TRUE(alone(0));
  table.Settle(0);
  ASSERT_TRUE(table.Mark(table.everything()));
  EXPECT_FALSE(alone(0));
  table.Settle(0);
  table.Settle(table.everything());
  EXPECT_TRUE(alone(0));
}

TEST(DirtyTableTest, Everything_Marked_LeavesTheSlotsOfKeysClean) {
  CatchUpClock clock;
  DirtyTable table(&clock, 16, 1);
  ASSERT_TRUE(table.Mark(table.everything()));
  for (int i = 0; i < 1000; ++i) {
    const auto slot = table.SlotOf(std::to_string(i));
    ASSERT_NE(slot, table.everything());
    ASSERT_TRUE(table.Check(slot).has_value());
  }
  EXPECT_FALSE(table.Check(table.everything()).has_value());
  table.Settle(table.everything());
}

TEST(DirtyTableTest, Mark_MoreInFlightThanItCounts_IsRefused) {
  CatchUpClock clock;
  DirtyTable table(&clock, 1, 1);
  uint64_t marked = 0;
  while (table.Mark(0)) ++marked;
  EXPECT_EQ(marked, (uint64_t{1} << 20) - 1);
  for (uint64_t i = 0; i < marked; ++i) table.Settle(0);
  EXPECT_EQ(table.in_flight(), 0u);
  clock.Finish(clock.Begin());
  EXPECT_TRUE(table.Check(0).has_value());
}

TEST(DirtyTableTest, Table_RandomOperations_AgreesWithAModel) {
  std::mt19937_64 random(testing_util::TestSeed());
  CatchUpClock clock;
  DirtyTable table(&clock, 8, random());
  struct Word {
    int in_flight = 0;
    uint64_t until = 0;
    uint64_t changes = 0;
  };
  std::map<uint32_t, Word> model;
  std::vector<uint64_t> running;
  uint64_t finished = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto slot = static_cast<uint32_t>(random() % 9);
    Word& word = model[slot];
    switch (random() % 5) {
      case 0:
        ASSERT_TRUE(table.Mark(slot));
        ++word.in_flight;
        break;
      case 1:
        if (word.in_flight == 0) break;
        table.Settle(slot);
        --word.in_flight;
        word.until = clock.begun() + 1;
        break;
      case 2:
        running.push_back(clock.Begin());
        break;
      case 3:
        if (running.empty()) break;
        finished = running.back();
        running.clear();
        clock.Finish(finished);
        break;
      default:
        ASSERT_EQ(table.Check(slot).has_value(), word.in_flight == 0 && word.until <= finished);
    }
  }
}

// A primary, a secondary that copies it, and readers: what the header proves. `primary` is written
// between Mark and Settle; a catch-up takes what is there when it begins, or anything later.
TEST(DirtyTableTest, CleanRead_DuringWrites_IsNeverOldOrUnsettled) {
  CatchUpClock clock;
  DirtyTable table(&clock, 1, 1);
  std::atomic<uint64_t> primary{0};  // what the host would answer
  std::atomic<uint64_t> log{0};      // written before it
  std::atomic<uint64_t> secondary{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> clean_reads{0};
  std::thread writer([&] {
    for (uint64_t i = 1; !stop; ++i) {
      if (!table.Mark(0)) return;
      log = i;
      primary = i;
      table.Settle(0);
      while (clock.finished() < table.wanted() && !stop && i % 3 != 0) std::this_thread::yield();
      for (int wait = 0; wait < 50; ++wait) std::this_thread::yield();
    }
  });
  std::thread follower([&] {
    while (!stop) {
      const uint64_t number = clock.Begin();
      secondary = log.load();
      clock.Finish(number);
    }
  });
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      while (!stop) {
        const uint64_t before = primary;
        const auto word = table.Check(0);
        if (!word) continue;
        const uint64_t value = secondary;
        const bool unchanged = table.Unchanged(0, *word);
        const uint64_t after = primary;
        if (!unchanged) continue;
        ASSERT_GE(value, before);
        ASSERT_LE(value, after);
        ++clean_reads;
      }
    });
  }
  EXPECT_TRUE(testing_util::Eventually([&] { return clean_reads > 5000; }));
  stop = true;
  writer.join();
  follower.join();
  for (auto& reader : readers) reader.join();
}

}  // namespace
}  // namespace pulse::redis
