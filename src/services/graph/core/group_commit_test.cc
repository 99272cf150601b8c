// Commits of several threads: they share a sync, and who needs the log to be quiet gets in between.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

constexpr int kWriters = 4;

class GroupCommitTest : public ::testing::Test {
 protected:
  GroupCommitTest() {
    StoreOptions options;
    options.files = &files_;
    options.background = false;
    store_ = GraphStore::Open("db", options).value();
    // A sync ends when all others commit the next one, so that there is always a queue.
    files_.OnSync([this] {
      ++syncs_;
      while (committing_ < writers_) std::this_thread::yield();
      // sleep: a device's sync takes its time, in which those queue
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    });
  }
  ~GroupCommitTest() override { files_.OnSync(nullptr); }

  // Until `done`, or so many commits.
  void Write(const std::atomic<bool>& done, int commits) {
    for (int i = 0; i < commits && !done; ++i) {
      auto tx = *store_->Begin();
      EXPECT_TRUE(tx->CreateNode({}, {}).ok());
      ++committing_;
      EXPECT_TRUE(tx->Commit().ok());
      --committing_;
    }
    --writers_;
  }
  std::vector<std::thread> StartWriters(const std::atomic<bool>& done, int commits) {
    writers_ = kWriters;
    std::vector<std::thread> threads;
    for (int i = 0; i < kWriters; ++i) threads.emplace_back([&, commits] { Write(done, commits); });
    return threads;
  }

  SimFiles files_;
  std::unique_ptr<GraphStore> store_;
  std::atomic<int> writers_{0}, committing_{0}, syncs_{0};
};

TEST_F(GroupCommitTest, ManyWriters_ShareSyncs) {
  const std::atomic<bool> never{false};
  const int before = syncs_;
  for (std::thread& t : StartWriters(never, 100)) t.join();
  EXPECT_EQ(store_->NodeCount(), 100u * kWriters);
  // What is not written by a sync is queued behind it: two commits for each, on average.
  EXPECT_LT(syncs_ - before, 100 * kWriters * 3 / 4);
}

TEST_F(GroupCommitTest, SchemaChange_WritersNeverPause_GetsItsTurn) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads = StartWriters(done, 1 << 30);
  while (syncs_ < 20) std::this_thread::yield();
  EXPECT_TRUE(store_->CreateIndex({.name = "i", .label = "L", .keys = {"k"}}).ok());
  done = true;
  for (std::thread& t : threads) t.join();
}

TEST_F(GroupCommitTest, SerializableTransaction_WritersNeverPause_GetsItsTurn) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads = StartWriters(done, 1 << 30);
  while (syncs_ < 20) std::this_thread::yield();
  auto tx = store_->BeginSerializable();
  ASSERT_TRUE(tx.ok());
  done = true;
  for (std::thread& t : threads) t.join();
}

TEST(CommitMemoryTest, NoMemoryForTheLog_IsAnErrorOfThatCommit) {
  SimFiles files;
  StoreOptions options;
  options.files = &files;
  options.background = false;
  auto store = GraphStore::Open("db", options).value();
  bool none_left = true;
  files.OnSync([&] {
    if (std::exchange(none_left, false)) throw std::bad_alloc();
  });
  for (const bool kept : {false, true, true}) {
    auto tx = *store->Begin();
    ASSERT_TRUE(tx->CreateNode({}, {}).ok());
    const absl::Status status = tx->Commit();
    EXPECT_EQ(status.ok(), kept) << status;
  }
  EXPECT_EQ(store->NodeCount(), 2u);
  store.reset();
  files.OnSync(nullptr);
  EXPECT_EQ(GraphStore::Open("db", options).value()->NodeCount(), 2u);
}

}  // namespace
}  // namespace pulse::graph
