// The embedded store (pulse/kv.h): random programs against a map, and several threads at once.
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "gmock/gmock.h"
#include "services/kv/test_embedded.h"

namespace pulse {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing_util::kThreadSanitizer;
using testing_util::TestSeed;

// --- Random programs.

class Model {
 public:
  explicit Model(uint64_t seed) : fixture_({.memory_bytes = 64 * kMiB, .partitions = 3}) {
    random_.seed(seed);
    owners_.resize(3);
  }

  void Step() {
    const std::string key = "k" + std::to_string(random_() % 300);
    KvCalls& calls = CallsFor(key);
    switch (random_() % 16) {
      case 0:
        fixture_.now_ms += static_cast<int64_t>(random_() % 50);
        std::erase_if(items_, [&](const auto& it) { return it.second.second <= fixture_.now_ms; });
        break;
      case 1:
        fixture_.store->Tick();
        break;
      case 2: {
        auto& owner = owners_[random_() % owners_.size()];
        const auto partition = static_cast<int>(&owner - owners_.data());
        if (owner != nullptr) {
          owner->Tick();
          owner.reset();
        } else {
          owner = *fixture_.store->Own(partition);
        }
        break;
      }
      case 3:
        ASSERT_EQ(calls.Delete(key).ok(), items_.erase(key) == 1);
        break;
      case 4:
        Expire(calls, key);
        break;
      case 5:
        Increment(calls, key);
        break;
      case 6: {
        auto [it, added] = items_.try_emplace(key, "", kKvNever);
        it->second.first += "+x";
        ASSERT_EQ(calls.Append(key, "+x").value(), it->second.first.size());
        break;
      }
      case 7:
      case 8:
        ASSERT_NO_FATAL_FAILURE(Gets());
        break;
      case 9:
        Sets();
        break;
      default:
        ASSERT_NO_FATAL_FAILURE(Set(calls, key));
    }
    ASSERT_NO_FATAL_FAILURE(Check(key));
  }

  void Finish() {
    for (auto& owner : owners_) owner.reset();
    std::map<std::string, std::pair<std::string, int64_t>> found;
    ASSERT_TRUE(fixture_.store
                    ->ForEach([&](const KvItem& item) {
                      found[std::string(item.key)] = {std::string(item.value), item.expires_ms};
                    })
                    .ok());
    EXPECT_EQ(found, items_);
    fixture_.now_ms += 1'000'000;
    std::erase_if(items_, [&](const auto& it) { return it.second.second <= fixture_.now_ms; });
    fixture_.store->Tick();
    EXPECT_EQ(fixture_.store->Stats().items, items_.size());
  }

 private:
  KvCalls& CallsFor(std::string_view key) {
    const auto& owner = owners_[static_cast<size_t>(fixture_.store->PartitionOf(key))];
    return owner != nullptr ? static_cast<KvCalls&>(*owner) : *fixture_.store;
  }
  KvSetOptions SomeOptions() {
    KvSetOptions options;
    if (random_() % 3 == 0) options.ttl_ms = static_cast<int64_t>(1 + random_() % 200);
    if (random_() % 8 == 0 && options.ttl_ms == 0) {
      options.expires_ms = fixture_.now_ms + static_cast<int64_t>(random_() % 5'000) - 10;
    }
    const uint64_t draw = random_() % 8;
    options.only_if_absent = draw == 0;
    options.only_if_present = draw == 1;
    return options;
  }
  std::string SomeValue() {
    return random_() % 4 == 0
               ? std::to_string(random_() % 1000)
               : std::string(random_() % 60, static_cast<char>('a' + random_() % 26));
  }
  // What the map does.
  StatusCode Apply(const std::string& key, const std::string& value, const KvSetOptions& options) {
    const bool exists = items_.contains(key);
    if (exists && options.only_if_absent) return StatusCode::kAlreadyExists;
    if (!exists && options.only_if_present) return StatusCode::kNotFound;
    const int64_t expires =
        options.ttl_ms > 0 ? fixture_.now_ms + options.ttl_ms : options.expires_ms;
    if (expires <= fixture_.now_ms) {
      items_.erase(key);
    } else {
      items_[key] = {value, expires};
    }
    return StatusCode::kOk;
  }
  void Set(KvCalls& calls, const std::string& key) {
    const KvSetOptions options = SomeOptions();
    const std::string value = SomeValue();
    ASSERT_EQ(calls.Set(key, value, options).code(), Apply(key, value, options));
  }
  void Sets() {
    const KvSetOptions options = SomeOptions();
    std::vector<std::pair<std::string, std::string>> texts(random_() % 100);
    for (auto& [key, value] : texts) {
      key = "k" + std::to_string(random_() % 300);
      value = SomeValue();
    }
    std::vector<KvPair> pairs;
    for (const auto& [key, value] : texts) pairs.push_back({key, value});
    std::vector<StatusCode> codes(pairs.size());
    const absl::Status status = fixture_.store->SetBatch(pairs, options, absl::MakeSpan(codes));
    size_t refused = 0;
    for (size_t i = 0; i < pairs.size(); ++i) {
      const bool owned = &CallsFor(texts[i].first) != fixture_.store.get();
      refused += owned;
      EXPECT_EQ(codes[i],
                owned ? StatusCode::kUnavailable : Apply(texts[i].first, texts[i].second, options));
    }
    EXPECT_EQ(status.code(), refused > 0 ? StatusCode::kUnavailable : StatusCode::kOk) << status;
  }
  void Gets() {
    std::vector<std::string> texts(random_() % 100);
    for (std::string& text : texts) text = "k" + std::to_string(random_() % 300);
    size_t visited = 0;
    size_t expected = 0;
    const std::vector<std::string_view> keys(texts.begin(), texts.end());
    const absl::Status status =
        fixture_.store->GetBatch(keys, [&](size_t i, std::optional<std::string_view> value) {
          ++visited;
          const auto it = items_.find(texts[i]);
          EXPECT_EQ(value.value_or("(none)"), it == items_.end() ? "(none)" : it->second.first);
        });
    for (const std::string& text : texts) expected += &CallsFor(text) == fixture_.store.get();
    ASSERT_EQ(visited, expected);
    ASSERT_EQ(absl::IsUnavailable(status), expected < texts.size());
  }
  void Expire(KvCalls& calls, const std::string& key) {
    const auto it = items_.find(key);
    const int64_t ms = static_cast<int64_t>(random_() % 300) - 20;
    const bool ok =
        (random_() % 2 == 0 ? calls.Touch(key, ms) : calls.SetExpiry(key, fixture_.now_ms + ms))
            .ok();
    EXPECT_EQ(ok, it != items_.end());
    if (it == items_.end()) return;
    it->second.second = fixture_.now_ms + ms;
    if (ms <= 0) items_.erase(it);
  }
  void Increment(KvCalls& calls, const std::string& key) {
    const auto it = items_.find(key);
    const auto sum = calls.Increment(key, 7);
    const bool number = it == items_.end() ||
                        (!it->second.first.empty() &&
                         it->second.first.find_first_not_of("0123456789") == std::string::npos);
    ASSERT_EQ(sum.ok(), number) << sum.status();
    if (!number) return;
    auto& item = items_.try_emplace(key, "0", kKvNever).first->second;
    item.first = std::to_string(std::stoll(item.first) + 7);
    EXPECT_EQ(std::to_string(*sum), item.first);
  }
  void Check(const std::string& key) {
    const auto it = items_.find(key);
    ASSERT_EQ(Value(CallsFor(key), key), it == items_.end() ? "(none)" : it->second.first);
    if (it != items_.end()) {
      ASSERT_EQ(CallsFor(key).GetExpiry(key).value(), it->second.second);
    }
  }

  Fixture fixture_;
  std::vector<std::unique_ptr<Kv::Owner>> owners_;  // destroyed before the store
  std::map<std::string, std::pair<std::string, int64_t>> items_;
  std::mt19937_64 random_;
};

TEST(KvTest, RandomPrograms_WithAMovingClock_DoWhatAMapDoes) {
  for (uint64_t round = 0; round < 10; ++round) {
    Model model(TestSeed() + round);
    for (int step = 0; step < 5'000; ++step) {
      SCOPED_TRACE(step);
      ASSERT_NO_FATAL_FAILURE(model.Step());
    }
    model.Finish();
  }
}

// --- Threads.

// Two owners count without locks, while other threads use what is left, iterate and tick.
TEST(KvTest, Threads_WithOwnersAndLocks_LoseNothing) {
  Fixture fixture({.memory_bytes = 64 * kMiB, .partitions = 4, .tick_interval_ms = 1});
  Kv& store = *fixture.store;
  const int rounds = kThreadSanitizer ? 1'000 : 10'000;
  std::atomic<int> working = 5;
  std::vector<std::thread> threads;
  for (int partition : {0, 1}) {
    threads.emplace_back([&, partition] {
      const std::string key = KeyIn(store, partition);
      auto owner = *store.Own(partition);
      for (int i = 0; i < rounds; ++i) {
        EXPECT_TRUE(owner->Increment(key).ok());
        EXPECT_TRUE(owner->SetBatch(std::vector<KvPair>{{key, std::to_string(i + 1)}}).ok());
        EXPECT_THAT(Batch(*owner, {key}), ElementsAre(std::to_string(i + 1)));
        if (i % 100 == 0) owner->Tick();
      }
      owner.reset();
      EXPECT_EQ(Value(store, key), std::to_string(rounds));
      --working;
    });
  }
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const std::string a = KeyIn(store, 2);
      const std::string b = KeyIn(store, 3);
      const std::string ends = KeyIn(store, 2, "ends");
      const std::string owned = KeyIn(store, 0);
      for (int round = 0; round < rounds; ++round) {
        EXPECT_TRUE(store.Increment(a).ok());
        EXPECT_TRUE(store.Increment(b).ok());
        EXPECT_TRUE(store.Set(ends, "v", {.ttl_ms = 1}).ok());
        std::string value;
        const absl::Status status = store.Get(owned, &value);
        EXPECT_TRUE(status.ok() || absl::IsUnavailable(status) || absl::IsNotFound(status));
        // In both orders, which must not lead to a deadlock.
        EXPECT_EQ(Batch(store, {b, a}).size(), 2u);
        EXPECT_EQ(Batch(store, {a, b}).size(), 2u);
        fixture.now_ms += 1;
      }
      --working;
    });
  }
  threads.emplace_back([&] {
    while (working > 0) {
      const absl::Status status =
          store.ForEach([](const KvItem& item) { EXPECT_FALSE(item.key.empty()); });
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status));
      EXPECT_LE(store.Stats().items, 6u);
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Value(store, KeyIn(store, 2)), std::to_string(3 * rounds));
  EXPECT_EQ(Value(store, KeyIn(store, 3)), std::to_string(3 * rounds));
}

}  // namespace
}  // namespace pulse
