// Worker with a small service, in embedded sessions: its loop, its sleep, and how it ends.
#include "agent/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "agent/test_host.h"
#include "base/testing.h"

namespace pulse {
namespace {

using agent_test::Echo;
using agent_test::Hooks;
using agent_test::TestHost;
using testing_util::Eventually;
using testing_util::OpenDescriptors;

using testing_util::Text;

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() { agent_test::g_hooks = &hooks_; }
  void Start() {
    WorkerOptions options;
    options.name = "pulse-test";
    auto worker = Worker::Start(options);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }
  // Embedded sessions work on memory of their host, which therefore goes last.
  TestHost& NewHost() {
    hosts_.push_back(std::make_unique<TestHost>(/*shared=*/false));
    return *hosts_.back();
  }
  void WaitForSleep(TestHost& host) {
    EXPECT_TRUE(Eventually([&] { return host.control()->agent_sleeping.value == 1; }))
        << "an idle agent does not sleep";
  }

  Hooks hooks_;
  std::vector<std::unique_ptr<TestHost>> hosts_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(WorkerTest, Requests_WorkerAsleep_WakeItAndAreEchoed) {
  TestHost& host = NewHost();
  Start();
  host.Embed(worker_.get());
  EXPECT_EQ(worker_->session_count(), 1u);
  PushAll(host, 500);
  ExpectEchoes(host, 500);
  for (int i = 0; i < 20; ++i) {
    WaitForSleep(host);
    PushAll(host, 3);
    ExpectEchoes(host, 3);
  }
}

TEST_F(WorkerTest, Post_SeveralFunctions_RunInOrderOnTheWorker) {
  Start();
  std::vector<int> order;
  std::thread::id id;
  for (int i = 0; i < 100; ++i) worker_->Post([&order, i] { order.push_back(i); });
  worker_->Run([&] { id = std::this_thread::get_id(); });
  EXPECT_NE(id, std::this_thread::get_id());
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST_F(WorkerTest, Start_BadCpusOrEngine_SaysWhy) {
  WorkerOptions options;
  options.cpus = {4000};
  EXPECT_TRUE(absl::IsInvalidArgument(Worker::Start(options).status()));
  options.cpus.clear();
  options.backend.factory = [](const IoBackendOptions&) {
    return absl::StatusOr<std::unique_ptr<IoBackend>>(absl::UnavailableError("no engine today"));
  };
  EXPECT_EQ(Text(Worker::Start(options).status()), "no engine today");
}

TEST_F(WorkerTest, EndSession_WorkUnderWay_DrainsThenTells) {
  TestHost& host = NewHost();
  Start();
  host.Embed(worker_.get());
  hooks_.drained = false;
  std::atomic<bool> freed{false};
  worker_->Run([&] { worker_->EndSession(host.session(), [&] { freed = true; }); });
  EXPECT_EQ(hooks_.shutdowns, 1);
  for (int i = 0; i < 20; ++i) worker_->Run([] {});  // rounds go by
  EXPECT_FALSE(freed);
  EXPECT_EQ(hooks_.alive, 1);
  hooks_.drained = true;
  EXPECT_TRUE(Eventually([&] { return freed.load(); }));
  EXPECT_EQ(hooks_.alive, 0);
  EXPECT_EQ(worker_->session_count(), 0u);
}

// The worker sees both queues' requests at the same moment; the order of service is what counts.
TEST_F(WorkerTest, ModestSession_OtherFloods_WaitsTwoRoundsAtMost) {
  TestHost& flood = NewHost();
  TestHost& modest = NewHost();
  Start();
  flood.Embed(worker_.get(), 2);
  modest.Embed(worker_.get());
  std::vector<Session*> order;
  hooks_.on_descriptor = [&](Session* s, SessionQueue* q, const wire::Descriptor& d) {
    order.push_back(s);
    Echo(q, d);
  };
  worker_->Run([&] {
    for (uint64_t i = 0; i < wire::kSubmissionSlots; ++i) {
      flood.Push(i, 0, 0);
      flood.Push(i, 0, 1);
    }
    for (uint64_t i = 0; i < 32; ++i) modest.Push(i);
  });
  flood.Ring();
  modest.Ring();
  modest.Take(32);
  EXPECT_EQ(flood.Take(wire::kSubmissionSlots, 0).size(), wire::kSubmissionSlots);
  EXPECT_EQ(flood.Take(wire::kSubmissionSlots, 1).size(), wire::kSubmissionSlots);
  worker_->Run([] {});  // `order` is complete, and the worker's no more
  size_t before_last = 0, modest_seen = 0;
  for (Session* s : order) {
    if (s == modest.session()) {
      ++modest_seen;
    } else if (modest_seen < 32) {
      ++before_last;
    }
  }
  // 32 requests are two batches of 16; the other session has two queues with a batch each a round.
  EXPECT_LE(before_last, 2u * 2 * 16);
}

// A session whose requests never end: each one served is followed by the next.
class EndlessTest : public WorkerTest {
 protected:
  void StartEndless() {
    Start();
    TestHost& host = NewHost();
    hooks_.on_descriptor = [this, &host](Session* s, SessionQueue* q, const wire::Descriptor& d) {
      Echo(q, d);
      if (s != host.session() || stop_) return;
      wire::Completion c;
      while (host.queue().ring.TryPop(&c)) {
      }
      host.Push(d.tag + 1);
    };
    host.Embed(worker_.get());
    worker_->Run([&host] {
      for (int i = 0; i < 100; ++i) host.Push(0);
    });
  }
  std::atomic<bool> stop_{false};
};

TEST_F(EndlessTest, EndlessSession_OthersHaveWork_StarvesNobody) {
  StartEndless();
  TestHost& other = NewHost();
  other.Embed(worker_.get());
  PushAll(other, 200);
  ExpectEchoes(other, 200);
  int ran = 0;
  for (int i = 0; i < 10; ++i) worker_->Run([&] { ++ran; });
  EXPECT_EQ(ran, 10);
  stop_ = true;
}

TEST_F(EndlessTest, EndlessSession_WorkerStops_DoesNotHoldItUp) {
  StartEndless();
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    worker_.reset();
    stopped = true;
  });
  const bool in_time = Eventually([&] { return stopped.load(); });
  EXPECT_TRUE(in_time) << "the agent goes on as long as its host has requests";
  stop_ = true;
  stopper.join();
}

TEST_F(WorkerTest, Completions_RingFull_ArriveOnceHostMakesRoom) {
  constexpr uint64_t kRequests = wire::kCompletionSlots + 900;  // below the limit of requests
  TestHost& host = NewHost();
  Start();
  host.Embed(worker_.get());
  PushAll(host, kRequests);
  EXPECT_TRUE(Eventually([&] { return hooks_.served == kRequests; }));
  WaitForSleep(host);  // with 900 completions that did not fit
  uint64_t next = 0;
  EXPECT_TRUE(Eventually([&] {
    wire::Completion c;
    while (host.queue().ring.TryPop(&c)) EXPECT_EQ(c.tag, next++);
    return next >= kRequests;
  })) << "only "
      << next << " of " << kRequests << " completions came";
}

TEST_F(WorkerTest, Destruction_SessionsNotDrained_WaitsForEachToDrain) {
  TestHost& a = NewHost();
  TestHost& b = NewHost();
  Start();
  a.Embed(worker_.get());
  b.Embed(worker_.get());
  PushAll(a, 100);
  hooks_.drained = false;
  std::atomic<bool> gone{false};
  std::thread stopper([&] {
    worker_.reset();
    gone = true;
  });
  EXPECT_TRUE(Eventually([&] { return hooks_.shutdowns == 2; }));
  EXPECT_EQ(hooks_.alive, 2);
  EXPECT_FALSE(gone);
  hooks_.drained = true;
  stopper.join();
  EXPECT_EQ(hooks_.alive, 0);
}

TEST_F(WorkerTest, Requests_AskedBeforeStop_AreStillServed) {
  for (int i = 0; i < 10; ++i) {
    TestHost& host = NewHost();
    Start();
    host.Embed(worker_.get());
    hooks_.served = 0;
    worker_->Run([&] {
      for (uint64_t k = 0; k < wire::kSubmissionSlots; ++k) host.Push(k);
    });
    worker_.reset();
    EXPECT_EQ(hooks_.served, wire::kSubmissionSlots);
    ExpectEchoes(host, wire::kSubmissionSlots);
  }
}

TEST_F(WorkerTest, Worker_Destroyed_LeavesNoDescriptorOpen) {
  const size_t descriptors = OpenDescriptors();
  Start();
  TestHost& host = NewHost();
  host.Embed(worker_.get(), 3);
  PushAll(host, 10);
  ExpectEchoes(host, 10);
  worker_.reset();
  hosts_.clear();
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

}  // namespace
}  // namespace pulse
