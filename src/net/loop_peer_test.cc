// A loop's peer beside its sockets: what it leaves is taken, whether the loop sleeps or looks.
#include <sys/eventfd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/unique_fd.h"
#include "net/test_director.h"

namespace pulse::net {
namespace {

// What the peer and the loop share.
struct Shared {
  std::atomic<uint64_t> left{0};
  std::atomic<uint64_t> taken{0};
  std::atomic<uint64_t> turns{0};
  std::atomic<bool> sleeps{false};
  std::atomic<bool> on_loop{true};  // all calls were on one thread
  UniqueFd bell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  // The peer's side: a system call only where the loop sleeps.
  void Leave() {
    left.fetch_add(1);
    if (sleeps.exchange(false)) eventfd_write(bell.get(), 1);
  }
};

class TestPeer final : public LoopPeer {
 public:
  TestPeer(EventLoop* loop, Shared* shared)
      : shared_(shared), watch_(loop->Watch(shared->bell.get(), [this] {
          Check();
          eventfd_t count;
          eventfd_read(shared_->bell.get(), &count);
        })) {}
  void Poll() override {
    Check();
    shared_->taken = shared_->left.load();
  }
  void EndTurn() override {
    Check();
    ++shared_->turns;
  }
  bool HasWork() override { return shared_->left != shared_->taken; }
  void BeginSleep() override { shared_->sleeps = true; }
  void EndSleep() override { shared_->sleeps = false; }

 private:
  void Check() {
    if (std::this_thread::get_id() != thread_) shared_->on_loop = false;
  }
  Shared* const shared_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const std::shared_ptr<void> watch_;
};

class PeerApplication final : public test::LineApplication {
 public:
  PeerApplication(uint64_t seed, Shared* shared) : LineApplication(seed), shared_(shared) {}
  std::unique_ptr<LoopPeer> NewLoopPeer(EventLoop* loop) override {
    return std::make_unique<TestPeer>(loop, shared_);
  }

 private:
  Shared* const shared_;
};

class LoopPeerTest : public test::DirectorTest {};

TEST_P(LoopPeerTest, WhatThePeerLeaves_IsTaken_AtAnyMoment) {
  Shared shared;
  PeerApplication application(testing_util::TestSeed(), &shared);
  options_.application = &application;
  options_.spin_nanos = spins() ? 50'000 : 0;
  auto director = Director::Open(options_);
  ASSERT_TRUE(director.ok()) << director.status();
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 2000; ++i) {
    shared.Leave();
    // Without a client nothing else wakes the loop: one that is not told sleeps for good.
    ASSERT_TRUE(testing_util::Eventually([&] { return shared.taken == shared.left; })) << i;
    for (uint64_t n = random() % 400; n > 0; --n)
      std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  EXPECT_TRUE(shared.on_loop.load());
  EXPECT_GT(shared.turns.load(), 0u);
  director->reset();
}

PULSE_SLEEPING_AND_SPINNING(LoopPeerTest);

}  // namespace
}  // namespace pulse::net
