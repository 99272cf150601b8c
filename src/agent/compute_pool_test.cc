#include "agent/compute_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

namespace pulse {
namespace {

// Keeps a thread of the pool busy until it is let go.
class Gate {
 public:
  void PostTo(ComputePool* pool) {
    std::promise<void> entered;
    auto inside = entered.get_future();
    pool->Post(this, [this, &entered] {
      entered.set_value();
      open_.get_future().wait();
    });
    inside.wait();
  }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> open_;
};

TEST(ComputePool, OneThread_SeveralOwners_TakeTurnsInOrder) {
  std::string order;
  Gate gate;
  {
    ComputePool pool("test", 1);
    gate.PostTo(&pool);
    const int a = 0, b = 0;
    for (char c : std::string("123")) pool.Post(&a, [&order, c] { order += c; });
    for (char c : std::string("xy")) pool.Post(&b, [&order, c] { order += c; });
    gate.Open();
  }
  EXPECT_EQ(order, "1x2y3");
}

TEST(ComputePool, Destroyed_RunsWhatIsQueued) {
  std::atomic<int> done{0};
  {
    ComputePool pool("test", 3);
    for (int i = 0; i < 1000; ++i) pool.Post(&pool, [&done] { ++done; });
  }
  EXPECT_EQ(done, 1000);
}

TEST(ComputePool, WorkThatPosts_WhatItPosts_IsRun) {
  std::promise<void> last;
  ComputePool pool("test", 1);
  pool.Post(&pool, [&] { pool.Post(&pool, [&last] { last.set_value(); }); });
  last.get_future().wait();
}

TEST(ComputePool, TwoThreads_RunTogether) {
  ComputePool pool("test", 2);
  std::promise<void> first, second;
  // Each waits for the other: with one thread neither would end.
  std::promise<void> done;
  pool.Post(&first, [&] {
    first.set_value();
    second.get_future().wait();
    done.set_value();
  });
  pool.Post(&second, [&] {
    first.get_future().wait();
    second.set_value();
  });
  done.get_future().wait();
}

}  // namespace
}  // namespace pulse
