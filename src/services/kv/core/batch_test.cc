#include "services/kv/core/batch.h"

#include <map>
#include <random>
#include <string>
#include <vector>

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

// Each set of instructions, with groups of several sizes, against a map: batches in which keys
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
      ExecuteBatch(&partition, requests.data(), count, 1 + random() % kLargestGroup, matcher.match,
                   &replies);
      ASSERT_EQ(replies.texts, expected) << "round " << round;
    }
    EXPECT_EQ(partition.numbers().items, model.size());
  }
}

}  // namespace
}  // namespace pulse::kv
