#include "services/kv/core/batch.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "gtest/gtest.h"

namespace pulse::kv {
namespace {

// What a batch said, request by request.
struct Replies {
  std::vector<std::string> texts;
  void Got(size_t i, const Item* item) {
    EXPECT_EQ(i, texts.size());
    texts.push_back(item == nullptr ? "(none)" : std::string(item->value()));
  }
  void Stored(size_t i, Partition::Result result) {
    EXPECT_EQ(i, texts.size());
    texts.push_back(result == Partition::Result::kStored ? "stored" : "refused");
  }
  void Deleted(size_t i, bool deleted) {
    EXPECT_EQ(i, texts.size());
    texts.push_back(deleted ? "deleted" : "absent");
  }
};

// Each set of instructions, against a map: batches in which keys
// repeat, on a small index with long chains.
TEST(BatchTest, RandomBatches_WithEachMatcher_DoWhatAMapDoes) {
  for (const Matcher& matcher : Matchers()) {
    if (!matcher.usable) continue;
    SCOPED_TRACE(matcher.name);
    PartitionOptions options;
    options.memory_bytes = uint64_t{32} << 20;
    auto opened = Partition::Open(options);
    ASSERT_TRUE(opened.ok());
    Partition& partition = **opened;
    partition.SetNow(1);
    std::map<std::string, std::string> model;
    std::mt19937_64 random(20261125);
    for (int round = 0; round < 800; ++round) {
      const size_t count = 1 + random() % 300;
      std::vector<std::string> keys(count);
      std::vector<std::string> values(count);
      std::vector<BatchRequest> requests(count);
      std::vector<std::string> expected;
      for (size_t i = 0; i < count; ++i) {
        keys[i] = std::string(random() % 3 * 7 + 1, 'k') + std::to_string(random() % 40'000);
        values[i] = std::string(random() % 24, static_cast<char>('a' + random() % 26));
        requests[i].key = keys[i];
        requests[i].hash = HashKey(keys[i]);
        requests[i].value = values[i];
        const uint64_t draw = random() % 10;
        if (draw < 5) {
          requests[i].op = Op::kGet;
          const auto it = model.find(keys[i]);
          expected.push_back(it == model.end() ? "(none)" : it->second);
        } else if (draw < 9) {
          requests[i].op = Op::kSet;
          model[keys[i]] = values[i];
          expected.emplace_back("stored");
        } else {
          requests[i].op = Op::kDelete;
          expected.emplace_back(model.erase(keys[i]) == 1 ? "deleted" : "absent");
        }
      }
      Replies replies;
      ExecuteBatch(&partition, requests.data(), count, matcher.match, &replies);
      ASSERT_EQ(replies.texts, expected) << "round " << round;
    }
    EXPECT_EQ(partition.numbers().items, model.size());
  }
}

// Batches that follow each other, whose hashes are known a batch ahead: all of them, or some are
// wrong, or none. Each request finds what a map has, also after the partition was cleared; where
// items are evicted, expire and move meanwhile, that or nothing.
class LookaheadTest : public testing::TestWithParam<Policy> {};
INSTANTIATE_TEST_SUITE_P(Policies, LookaheadTest,
                         testing::Values(Policy::kNoEviction, Policy::kLfu));

TEST_P(LookaheadTest, StreamOfBatches_WhateverTheHashesAhead_DoesWhatAMapDoes) {
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  const bool loses = GetParam() != Policy::kNoEviction;
  PartitionOptions options;
  options.memory_bytes = loses ? kLeastMemory : uint64_t{32} << 20;
  options.policy = GetParam();
  auto opened = Partition::Open(options);
  ASSERT_TRUE(opened.ok());
  Partition& partition = **opened;
  partition.SetNow(1);
  std::map<std::string, std::string> model;
  Lookahead lookahead;
  const auto draw = [&random](size_t count) {
    std::vector<std::string> keys(count);
    for (std::string& key : keys) key = std::to_string(random() % 20'000);
    return keys;
  };
  std::vector<std::string> next = draw(32);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> keys = std::move(next);
    next = draw(random() % 200);
    const uint64_t lies = random() % 3;  // of the hashes ahead: none, one in two, all are lies
    const size_t ahead = random() % 4 == 0 ? 0 : next.size();
    lookahead.Run(
        partition, keys.size(), ahead, BestMatch(),
        [&](size_t i) {
          if (i < keys.size()) return HashKey(keys[i]);
          return random() % 2 < lies ? random() : HashKey(next[i - keys.size()]);
        },
        [&](size_t i, const Candidate& c) {
          const uint64_t hash = HashKey(keys[i]);
          const uint64_t what = random() % 10;
          if (what < 4) {
            const Item* item = partition.FindAt(c.at, c.word, keys[i], hash);
            const auto it = model.find(keys[i]);
            ASSERT_TRUE(loses || (item != nullptr) == (it != model.end())) << "round " << round;
            if (item == nullptr) return;
            ASSERT_NE(it, model.end()) << "round " << round;
            ASSERT_EQ(item->value(), it->second) << "round " << round;
          } else if (what < 8) {
            const std::string value(random() % (loses ? 3000 : 24),
                                    static_cast<char>('a' + random() % 26));
            ItemFacts facts;
            if (loses && random() % 4 == 0) facts.expires_ms = partition.now_ms() + 50;
            Item* item = nullptr;
            ASSERT_EQ(partition.PutAt(c.at, c.word, keys[i], hash, value.size(), facts, &item),
                      Partition::Result::kStored);
            CopyValue(item->value_bytes(), value);
            model[keys[i]] = value;
          } else {
            const bool erased = partition.Erase(keys[i], hash);
            const bool was_there = model.erase(keys[i]) == 1;
            ASSERT_TRUE(erased == was_there || (loses && was_there)) << "round " << round;
          }
        });
    partition.SetNow(partition.now_ms() + 1);
    partition.Tick();
    if (random() % 50 == 0) {
      partition.Clear();
      model.clear();
    }
  }
  if (loses) {
    EXPECT_GT(partition.numbers().evicted, 0u);
    EXPECT_GT(partition.numbers().expired, 0u);
  } else {
    EXPECT_EQ(partition.numbers().items, model.size());
  }
}

// What it is for: the next batch's items are found before it comes; and none that a clear dropped.
TEST(LookaheadStreamTest, NextBatch_ItsSlotsAreKnown_UntilAClear) {
  PartitionOptions options;
  options.memory_bytes = uint64_t{32} << 20;
  auto opened = Partition::Open(options);
  ASSERT_TRUE(opened.ok());
  Partition& partition = **opened;
  const std::string key = "key";
  Item* item = nullptr;
  const auto put = [&] {
    ASSERT_EQ(partition.Put(key, HashKey(key), 0, {}, &item), Partition::Result::kStored);
  };
  put();
  Lookahead lookahead;
  int asked = 0;
  Candidate last{};
  const auto run = [&](size_t ahead) {
    asked = 0;
    lookahead.Run(
        partition, 1, ahead, BestMatch(), [&](size_t) { return ++asked, HashKey(key); },
        [&](size_t, const Candidate& c) { last = c; });
  };
  run(1);
  EXPECT_EQ(asked, 2);
  run(1);
  EXPECT_EQ(asked, 1) << "the first one's hash was asked for in the batch before";
  EXPECT_EQ(partition.FindAt(last.at, last.word, key, HashKey(key)), item);
  partition.Clear();
  run(1);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(last.at, nullptr);
  lookahead.Forget();
  run(0);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace pulse::kv
