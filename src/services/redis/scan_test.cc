// SCAN: complete under writes, its cursors, and patterns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/testing.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/cursors.h"
#include "services/redis/test_store.h"

namespace pulse::redis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Whatever is there from the begin of a scan to its end is found, once, though others come and go.
TEST(ScanTest, Scan_ConcurrentWrites_ReturnsStableKeysOnce) {
  TestStore store;
  std::mt19937_64 random(testing_util::TestSeed());
  std::set<std::string> stable;
  for (int i = 0; i < 500; ++i) {
    const std::string key = "k" + std::to_string(random() % 100000);
    if (stable.insert(key).second) store("SET " + key + " v");
  }
  std::multiset<std::string> found;
  std::string cursor = "0";
  do {
    Request request;
    const std::string line = "SCAN " + cursor + " COUNT " + std::to_string(1 + random() % 20);
    ASSERT_TRUE(request.Parse(line).ok());
    std::string out;
    ReplyWriter reply(&out, 2);
    CommandCounts counts;
    ASSERT_EQ(store->Run(*FindCommand("scan"), request.arguments(), true, &reply, &counts),
              Store::RunResult::kDone);
    // "*2 $n cursor *m $n key ..."
    std::vector<std::string> words;
    std::string word;
    for (const char c : PlainReply(out) + " ") {
      if (c != ' ') {
        word.push_back(c);
      } else {
        words.push_back(std::exchange(word, ""));
      }
    }
    cursor = words[2];
    for (size_t i = 5; i < words.size(); i += 2) found.insert(words[i]);
    for (int i = 0; i < 5; ++i) {
      store("SET other" + std::to_string(random() % 1000) + " v");
      store("DEL other" + std::to_string(random() % 1000));
      const auto some = std::next(stable.begin(), static_cast<long>(random() % stable.size()));
      store("SET " + *some + " w");
    }
  } while (cursor != "0");
  for (const std::string& key : stable) EXPECT_EQ(found.count(key), 1u) << key;
}

TEST(ScanTest, Scan_OptionsAndCursors_AreCheckedAndApplied) {
  TestStore store;
  store("MSET user:1 a user:2 b item:1 c");
  Play(store, {{"SCAN 0 MATCH user:*", "*2 $1 0 *2 $6 user:1 $6 user:2"},
               {"SCAN 0 MATCH *:1", "*2 $1 0 *2 $6 item:1 $6 user:1"},
               {"SCAN 0 TYPE string COUNT 100", "*2 $1 0 *3 $6 item:1 $6 user:1 $6 user:2"},
               {"SCAN 0 TYPE list", "*2 $1 0 *0"},
               {"SCAN x", "-ERR invalid cursor"},
               {"SCAN 1x", "-ERR invalid cursor"},
               {"SCAN -", "-ERR invalid cursor"},
               {"SCAN 18446744073709551616", "-ERR invalid cursor"},
               {"SCAN '' MATCH i*", "*2 $1 0 *1 $6 item:1"},
               {"SCAN +0 MATCH i*", "*2 $1 0 *1 $6 item:1"},
               {"SCAN 0 COUNT 0", "-ERR syntax error"},
               {"SCAN 0 COUNT", "-ERR syntax error"},
               {"SCAN 0 NEAR 1", "-ERR syntax error"}});
  EXPECT_THAT(store("SCAN 12345"), HasSubstr("begin again with 0"));
  EXPECT_THAT(store("SCAN -1"), HasSubstr("begin again with 0"));
  const uint64_t cursor = store->cursors().Put("item:2");
  const std::string again = "SCAN " + std::to_string(cursor);
  EXPECT_EQ(store(again), "*2 $1 0 *2 $6 user:1 $6 user:2");
  EXPECT_EQ(store(again), "*2 $1 0 *2 $6 user:1 $6 user:2");
  for (size_t i = 0; i < CursorTable::kMost; ++i) store->cursors().Put("k");
  EXPECT_THAT(store(again), HasSubstr("begin again with 0"));
}

// What has expired is passed in steps, too: a scan over much of it keeps no thread for long.
TEST(ScanTest, Scan_ManyExpiredKeys_SkippedInSteps) {
  TestStore store;
  for (int i = 0; i < 5000; ++i) store("SET a" + std::to_string(i) + " v PX 10");
  store("SET z 1");
  store.now_ms += 20;
  std::string cursor = "0";
  std::vector<std::string> found;
  int steps = 0;
  do {
    const std::string reply = store("SCAN " + cursor);
    const std::vector<std::string> words = absl::StrSplit(reply, ' ');
    ASSERT_GE(words.size(), 4u) << reply;
    cursor = words[2];
    if (words.size() > 5) found.push_back(words[5]);
    ++steps;
  } while (cursor != "0");
  EXPECT_GE(steps, 5);
  EXPECT_THAT(found, ElementsAre("z"));
  EXPECT_EQ(store("DBSIZE"), ":1");
}

// A scan of many steps takes no other scan's place, and each step can be repeated until the next.
TEST(ScanTest, Cursors_LongScan_LeavesOthersValid) {
  CursorTable table;
  std::string key;
  const uint64_t slow = table.Put("slow");
  uint64_t before = 0;
  uint64_t cursor = table.Put("fast");
  constexpr size_t kBack = 100;
  std::vector<uint64_t> steps;
  for (size_t i = 0; i < CursorTable::kMost + 10; ++i) {
    ASSERT_TRUE(table.Get(cursor, &key));
    steps.push_back(cursor);
    before = std::exchange(cursor, table.Put("fast" + std::to_string(i), cursor));
  }
  EXPECT_TRUE(table.Get(slow, &key));
  EXPECT_EQ(key, "slow");
  EXPECT_TRUE(table.Get(steps[kBack], &key));  // who goes back, where there is room
  EXPECT_EQ(key, "fast" + std::to_string(kBack - 1));
  // Its reply was lost.
  EXPECT_TRUE(table.Get(before, &key));
  const std::string last = "fast" + std::to_string(CursorTable::kMost + 9);
  EXPECT_EQ(table.Put(last, before), cursor);
  const uint64_t other = table.Put("other", before);  // with another COUNT
  EXPECT_NE(other, cursor);
  EXPECT_TRUE(table.Get(cursor, &key));  // whose client may have been told of it
  EXPECT_TRUE(table.Get(other, &key));
  EXPECT_EQ(key, "other");
}

TEST(ScanTest, Pattern_EachForm_MatchesAsInRedis) {
  const struct {
    const char* pattern;
    const char* text;
    bool matches;
  } cases[] = {{"*", "", true},
               {"*", "abc", true},
               {"a*c", "abbc", true},
               {"a*c", "abbd", false},
               {"?", "a", true},
               {"?", "", false},
               {"a?c", "abc", true},
               {"[abc]", "b", true},
               {"[^abc]", "b", false},
               {"[a-c]x", "bx", true},
               {"[c-a]x", "bx", true},
               {"[a-c", "b", true},
               {"\\*", "*", true},
               {"\\*", "a", false},
               {"*a*b*", "xxaxxbxx", true},
               {"*a*b*", "xxbxxaxx", false},
               {"abc", "abc", true},
               {"abc", "abcd", false},
               {"**", "a", true},
               {"[\\]]", "]", true},
               // A range takes any third character; an escaped one begins none.
               {"[Z-]]", "[", true},
               {"[Z-]]", "-", false},
               {"[Z-]", "[", true},
               {"[Z-]", "-", false},
               {"[\\a-c]", "b", false},
               {"[\\a-c]", "-", true},
               {"[X-\\Z]", "Y", true},
               {"[X-\\Z]", "Z", true},
               {"[X-\\Z]", "b", false},
               {"[]-a]", "]", false},
               {"[^]", "a", true},
               {"[a-", "-", true},
               {"[a\\", "\\", true},
               {"a\\", "a\\", true}};
  for (const auto& c : cases) {
    EXPECT_EQ(MatchesPattern(c.pattern, c.text), c.matches) << c.pattern << " on " << c.text;
  }
  // Bounded by a product, where trying everything would take for ever.
  EXPECT_FALSE(MatchesPattern("*a*a*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
  EXPECT_EQ(LiteralPrefix("user:*"), "user:");
  EXPECT_EQ(LiteralPrefix("a\\*"), "a");
}

}  // namespace
}  // namespace pulse::redis
