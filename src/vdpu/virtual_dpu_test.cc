// An agent that plays a card: it serves as ever, whatever calls the signals interrupt, and its
// movers have the profile's price.
#include "vdpu/virtual_dpu.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "agent/test_host.h"
#include "base/clock.h"
#include "base/testing.h"

namespace pulse::vdpu {
namespace {

using agent_test::Echo;
using agent_test::Hooks;
using agent_test::TestHost;
using testing_util::ScratchPath;

class VirtualDpuTest : public ::testing::Test {
 protected:
  VirtualDpuTest() { agent_test::g_hooks = &hooks_; }
  void Open(const Profile& profile) {
    auto dpu = VirtualDpu::Start(profile);
    ASSERT_TRUE(dpu.ok()) << dpu.status();
    dpu_ = *std::move(dpu);
    AgentOptions options;
    options.socket_path = path_.get();
    options.handshake_ms = 60'000;
    dpu_->Apply(&options);
    auto server = SocketServer::Open(options, agent_test::TestServices());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  Hooks hooks_;
  ScratchPath path_{"vdpu.sock"};
  std::unique_ptr<VirtualDpu> dpu_;
  std::unique_ptr<SocketServer> server_;
};

TEST_F(VirtualDpuTest, Server_ThreadsInterrupted_GoesOnServing) {
  Profile p;
  p.core_speed = 0.2;
  p.cores = 2;
  Open(p);
  std::vector<std::unique_ptr<TestHost>> hosts;
  for (int i = 0; i < 3; ++i) {
    hosts.push_back(std::make_unique<TestHost>(true));
    ASSERT_TRUE(hosts.back()->Connect(path_.get()).ok());
    ASSERT_TRUE(hosts.back()->Attach(hosts.back()->NewQueue()).ok());
  }
  // This process is the hosts, too: everything sleeps and wakes under the signals.
  int rounds = 0;
  const int64_t deadline = NowNanos() + int64_t{120} * 1'000'000'000;
  while ((rounds < 200 || dpu_->throttle().usage().slept == 0) && NowNanos() < deadline) {
    for (auto& h : hosts) PushAll(*h, 100);
    for (auto& h : hosts) ExpectEchoes(*h, 100);
    ++rounds;
  }
  EXPECT_GT(dpu_->throttle().usage().slept, 0);
}

TEST_F(VirtualDpuTest, Mover_FirstOrFurther_PaysForSetUpOrForChangingIt) {
  Profile p;
  p.dma_latency_us = 7;
  p.setup_ms = 9'000'000;  // hours, so that no slow machine comes near
  p.reconfigure_ms = 3'600'000;
  Open(p);
  struct Seen {
    std::atomic<int64_t> there_at{0};
  };
  Seen seen[2];
  hooks_.on_descriptor = [&](Session*, SessionQueue* q, const wire::Descriptor& d) {
    int64_t at = 0;
    EXPECT_TRUE(q->mover().StartPull(0, 4096, &at).ok());
    seen[d.tag].there_at = at;
    Echo(q, d);
  };
  const int64_t begin = NowNanos();
  TestHost host(true);
  ASSERT_TRUE(host.Connect(path_.get()).ok());
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(host.Attach(host.NewQueue()).ok());
    ASSERT_TRUE(host.Push(/*tag=*/i, 0, /*queue=*/i));
    host.Ring();
    EXPECT_TRUE(testing_util::Eventually([&] { return seen[i].there_at != 0; }));
  }
  const auto hours = [](double h) { return static_cast<int64_t>(h * 3600e9); };
  EXPECT_GE(seen[0].there_at, begin + hours(2.5));
  EXPECT_GE(seen[1].there_at, begin + hours(1));
  EXPECT_LT(seen[1].there_at, begin + hours(2.5));
}

// What a worker tells its pace: a round that did something is never among the looks in vain.
TEST_F(VirtualDpuTest, Worker_RoundThatFindsWork_EndsTheLooksInVain) {
  struct Pace : WorkerPace {
    std::atomic<bool> in_vain{false};
    std::atomic<int> vain_rounds{0};
    std::atomic<int> worked{0};
    std::atomic<int> worked_in_vain{0};
    void DidWork() override {
      ++worked;
      worked_in_vain += in_vain ? 1 : 0;
    }
    void FoundNoWork() override {
      in_vain = true;
      ++vain_rounds;
    }
    void StoppedLooking() override { in_vain = false; }
  };
  const auto pace = std::make_shared<Pace>();
  AgentOptions options;
  options.socket_path = path_.get();
  options.handshake_ms = 60'000;
  options.pace = pace;
  auto server = SocketServer::Open(options, agent_test::TestServices());
  ASSERT_TRUE(server.ok()) << server.status();
  TestHost host(true);
  ASSERT_TRUE(host.Connect(path_.get()).ok());
  ASSERT_TRUE(host.Attach(host.NewQueue()).ok());
  for (int i = 0; i < 200; ++i) {
    PushAll(host, 1);
    ExpectEchoes(host, 1);
  }
  EXPECT_TRUE(testing_util::Eventually([&] { return pace->vain_rounds > 0; }));
  EXPECT_GT(pace->worked, 0);
  EXPECT_EQ(pace->worked_in_vain, 0);
}

}  // namespace
}  // namespace pulse::vdpu
