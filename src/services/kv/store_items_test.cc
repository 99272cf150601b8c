// Where a store's items lie: they move with the design, under load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu_list.h"
#include "base/testing.h"
#include "services/kv/store.h"
#include "services/redis/designs.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;

class StoreItemsTest : public testing::Test {
 protected:
  StoreItemsTest() {
    options_.memory_bytes = uint64_t{128} << 20;
    options_.partitions = 4;
    options_.designs = &designs_;
  }
  void Open() {
    auto store = KvStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  std::string Info() const {
    std::string info;
    store_->AddInfo("KV", &info);
    return info;
  }

  redis::Designs designs_{2, MyCpus(), MyCpus()};
  KvStoreOptions options_;
  std::unique_ptr<KvStore> store_;
};

// A client with keys of its own.
class ItemsClient {
 public:
  ItemsClient(KvStore* store, uint64_t seed, int number)
      : store_(store), random_(seed), prefix_(std::to_string(number) + ":") {}
  void Step() {
    const std::string key = prefix_ + std::to_string(random_() % 500);
    switch (random_() % 4) {
      case 0:
        store_->WithPartition(key, true, [&](Partition& partition, uint64_t hash) {
          EXPECT_EQ(partition.Erase(key, hash), items_.erase(key) > 0) << key;
        });
        break;
      case 1: {
        const std::string value(random_() % 50'000, static_cast<char>('a' + random_() % 26));
        store_->WithPartition(key, true, [&](Partition& partition, uint64_t hash) {
          Item* item = nullptr;
          if (partition.Put(key, hash, value.size(), {}, &item) != Partition::Result::kStored) {
            ADD_FAILURE() << key;
            return;
          }
          CopyValue(item->value_bytes(), value);
        });
        items_[key] = value;
        break;
      }
      default:
        Check(key);
    }
  }
  void CheckAll() {
    for (int i = 0; i < 500; ++i) Check(prefix_ + std::to_string(i));
  }

 private:
  void Check(const std::string& key) {
    store_->WithPartition(key, true, [&](Partition& partition, uint64_t hash) {
      const Item* item = partition.Find(key, hash);
      const auto it = items_.find(key);
      ASSERT_EQ(item != nullptr, it != items_.end()) << key;
      if (item != nullptr) {
        EXPECT_TRUE(item->value() == it->second) << key;
      }
    });
  }

  KvStore* const store_;
  std::mt19937_64 random_;
  const std::string prefix_;
  std::map<std::string, std::string> items_;
};

TEST_F(StoreItemsTest, DesignsChanged_UnderLoad_ItemsAgreeWithMaps) {
  const uint64_t seed = testing_util::TestSeed();
  SCOPED_TRACE(seed);
  Open();
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      ItemsClient client(store_.get(), seed + static_cast<uint64_t>(t), t);
      for (int step = 0; step < 2000 || !done; ++step) client.Step();
      client.CheckAll();
    });
  }
  for (int round = 0; round < 5; ++round) {
    for (const char* design : {"dpu", "shrd", "lat", "shrd", "dpu", "cpu"}) {
      EXPECT_EQ(store_->Configure("design", design), "");
    }
  }
  done = true;
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(Info(), HasSubstr("items_in:host"));
  EXPECT_THAT(Info(), HasSubstr("agent_items_bytes:0\r\nitems_moving:0\r\n"));
}

TEST_F(StoreItemsTest, DesignOfTheStart_PutsItemsWhereItNeedsThem) {
  ASSERT_TRUE(designs_.Set("dpu").ok());
  Open();
  EXPECT_THAT(Info(), HasSubstr("items_in:agent"));
  store_.reset();
  options_.agent_memory_bytes = uint64_t{127} << 20;
  EXPECT_THAT(std::string(KvStore::Open(options_).status().message()), HasSubstr("127 MiB"));
}

TEST_F(StoreItemsTest, TwoChangesAtATime_OneIsRefused) {
  Open();
  std::promise<void> begun;
  std::promise<void> end;
  std::thread holder([&] {
    store_->WithPartition("", true, [&](Partition&, uint64_t) {
      begun.set_value();
      end.get_future().wait();
    });
  });
  begun.get_future().wait();
  // Whichever comes second, as the first one cannot end.
  std::promise<std::string> refused;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  std::string last;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      const std::string reply = store_->Configure("design", "dpu");
      if (answered.fetch_add(1) == 0) {
        refused.set_value(reply);
      } else {
        last = reply;
      }
    });
  }
  EXPECT_THAT(refused.get_future().get(), HasSubstr("under way"));
  EXPECT_EQ(designs_.name(), "cpu");
  end.set_value();
  for (auto& thread : threads) thread.join();
  holder.join();
  EXPECT_EQ(last, "");
  EXPECT_EQ(designs_.name(), "dpu");
}

}  // namespace
}  // namespace pulse::kv
