#include "services/redis/hot_tier.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "services/redis/test_store.h"

namespace pulse::redis {
namespace {

// What one Find says of a key: its value, or "(none)".
std::string FindOne(HotTier* tier, std::string_view key, HotTier::Probe* probe,
                    int64_t now_ms = 1) {
  std::string value = "(none)";
  tier->Find(&key, 1, now_ms, probe, [&](size_t, std::string_view found) { value = found; });
  return value;
}

std::unique_ptr<HotTier> OpenTier() {
  auto tier = HotTier::Open(uint64_t{16} << 20);
  EXPECT_TRUE(tier.ok()) << tier.status();
  return *std::move(tier);
}

TEST(HotTierTest, Keep_WithoutAWriter_IsFoundUntilItExpires) {
  auto tier = OpenTier();
  HotTier::Probe probe;
  EXPECT_EQ(FindOne(tier.get(), "a", &probe), "(none)");
  tier->Keep("a", probe, "value", 100);
  EXPECT_EQ(FindOne(tier.get(), "a", &probe), "value");
  EXPECT_EQ(FindOne(tier.get(), "a", &probe, 100), "(none)");
}

TEST(HotTierTest, Write_BetweenProbeAndKeep_KeepsNothing) {
  auto tier = OpenTier();
  HotTier::Probe before;
  FindOne(tier.get(), "a", &before);
  tier->BeginWrite({"a"});
  HotTier::Probe during;
  EXPECT_EQ(FindOne(tier.get(), "a", &during), "(none)");
  tier->Keep("a", before, "old", kNever);
  tier->Keep("a", during, "old or new", kNever);
  tier->EndWrite({"a"});
  tier->Keep("a", before, "old", kNever);
  tier->Keep("a", during, "old or new", kNever);
  HotTier::Probe after;
  EXPECT_EQ(FindOne(tier.get(), "a", &after), "(none)");
  tier->Keep("a", after, "new", kNever);
  EXPECT_EQ(FindOne(tier.get(), "a", &after), "new");
  tier->BeginWrite({"a"});
  EXPECT_EQ(FindOne(tier.get(), "a", &after), "(none)");
  tier->EndWrite({"a"});
  EXPECT_EQ(FindOne(tier.get(), "a", &after), "(none)");
}

TEST(HotTierTest, Write_WithAKeyNamedVeryOften_StaysAWrite) {
  auto tier = OpenTier();
  HotTier::Probe before;
  FindOne(tier.get(), "a", &before);
  const std::vector<std::string_view> keys(65'536, "a");
  tier->BeginWrite(keys);
  HotTier::Probe during;
  FindOne(tier.get(), "a", &during);
  tier->Keep("a", during, "old", kNever);
  tier->EndWrite(keys);
  HotTier::Probe after;
  EXPECT_EQ(FindOne(tier.get(), "a", &after), "(none)");
  EXPECT_FALSE(tier->IsUnchanged(before));
  EXPECT_TRUE(tier->IsUnchanged(after));
}

TEST(HotTierTest, Clear_OfAllKeys_KeepsNothing) {
  auto tier = OpenTier();
  HotTier::Probe probe;
  FindOne(tier.get(), "a", &probe);
  tier->Keep("a", probe, "value", kNever);
  FindOne(tier.get(), "b", &probe);
  tier->BeginClear();
  EXPECT_EQ(FindOne(tier.get(), "a", &probe), "(none)");
  tier->EndClear();
  EXPECT_EQ(FindOne(tier.get(), "a", &probe), "(none)");
  EXPECT_EQ(tier->numbers().items, 0u);
}

// The same with a number in the place of RocksDB, for ThreadSanitizer, too: several writers, each
// at a key of its own, of which some share a word.
TEST(HotTierTest, Tier_UnderReadersAndWriters_NeverShowsAnOldValue) {
  auto tier = OpenTier();
  constexpr int kKeys = 3;
  std::array<std::atomic<int64_t>, kKeys> database{};
  std::array<std::atomic<int64_t>, kKeys> acknowledged{};
  std::atomic<int> writing{kKeys};
  std::vector<std::thread> threads;
  for (int k = 0; k < kKeys; ++k) {
    threads.emplace_back([&, k] {
      const std::string key = "key" + std::to_string(k);
      for (int64_t i = 1; i <= 3000; ++i) {
        tier->BeginWrite({key});
        database[static_cast<size_t>(k)] = i;
        tier->EndWrite({key});
        acknowledged[static_cast<size_t>(k)] = i;
        if (i % 100 == 0) {
          tier->BeginClear();
          tier->EndClear();
        }
        if (i % 20 == 0) std::this_thread::yield();
      }
      --writing;
    });
  }
  std::atomic<uint64_t> hits{0};
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      std::array<int64_t, kKeys> last{};
      for (size_t n = 0; writing > 0; ++n) {
        const size_t k = n % kKeys;
        const std::string key = "key" + std::to_string(k);
        const int64_t least = acknowledged[k];
        HotTier::Probe probe;
        const std::string found = FindOne(tier.get(), key, &probe);
        const int64_t value = found == "(none)" ? database[k].load() : std::stoll(found);
        if (found == "(none)") {
          tier->Keep(key, probe, std::to_string(value), kNever);
        } else {
          ++hits;
        }
        ASSERT_GE(value, least);
        ASSERT_GE(value, last[k]);
        last[k] = value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Readers never see a counter go back, and see at least what its writer had been told before they
// began.
TEST(HotTierTest, Store_UnderReadersAndAWriter_NeverShowsAnOldValue) {
  if (testing_util::kThreadSanitizer) {
    GTEST_SKIP() << "RocksDB's readers read what its writers wrote, unseen by the sanitizer";
  }
  TestStore store;
  store("SET n 0");
  std::atomic<int64_t> acknowledged{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      Request request;
      ASSERT_TRUE(request.Parse("GET n\r\n").ok());
      int64_t last = 0;
      while (!done) {
        const int64_t least = acknowledged.load();
        std::string out;
        ReplyWriter reply(&out, 2);
        std::vector<size_t> ends;
        CommandCounts counts;
        ASSERT_EQ(store->RunGets(&request, 1, UINT64_MAX, true, &reply, &ends, &counts),
                  Store::RunResult::kDone);
        const std::string text = PlainReply(out);
        const int64_t value = std::stoll(text.substr(text.find(' ') + 1));
        ASSERT_GE(value, least);
        ASSERT_GE(value, last);
        last = value;
      }
    });
  }
  for (int i = 1; i <= 5000; ++i) {
    store(i % 3 == 0 ? "SET n " + std::to_string(i) : "INCR n");
    acknowledged = i;
    // Now and then, a while in which readers find it in the tier.
    if (i % 50 == 0) std::this_thread::yield();
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

TEST(HotTierTest, Store_AllWaysToWrite_AreSeenByTheNextGet) {
  TestStore store;
  const auto get = [&](const std::string& line) {
    Request request;
    EXPECT_TRUE(request.Parse(line + "\r\n").ok());
    std::string out;
    ReplyWriter reply(&out, 2);
    std::vector<size_t> ends;
    CommandCounts counts;
    EXPECT_EQ(store->RunGets(&request, 1, UINT64_MAX, true, &reply, &ends, &counts),
              Store::RunResult::kDone);
    return PlainReply(out);
  };
  for (const auto& [write, after] :
       std::vector<std::pair<std::string, std::string>>{{"SET a 1", "$1 1"},
                                                        {"INCR a", "$1 2"},
                                                        {"APPEND a 3", "$2 23"},
                                                        {"MSET b 1 a 5", "$1 5"},
                                                        {"SETBIT a 7 0", "$1 4"},
                                                        {"EXPIRE a 100", "$1 4"},
                                                        {"PERSIST a", "$1 4"},
                                                        {"RENAME b a", "$1 1"},
                                                        {"DEL a", "$-1"},
                                                        {"SETNX a 9", "$1 9"},
                                                        {"GETDEL a", "$-1"},
                                                        {"SET a 3 PX 1000", "$1 3"},
                                                        {"FLUSHALL", "$-1"},
                                                        {"SET a 4", "$1 4"}}) {
    store(write);
    EXPECT_EQ(get("GET a"), after) << write;
    EXPECT_EQ(get("GET a"), after) << write;  // from the tier
  }
  RunExec(store.get(), {"SET a in", "SET b exec"});
  EXPECT_EQ(get("GET a"), "$2 in");
  store("SET a x PX 50");
  EXPECT_EQ(get("GET a"), "$1 x");
  EXPECT_EQ(get("GET a"), "$1 x");
  store.now_ms += 50;
  EXPECT_EQ(get("GET a"), "$-1");
}

}  // namespace
}  // namespace pulse::redis
