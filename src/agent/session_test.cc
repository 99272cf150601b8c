// Session and SessionQueue by themselves, on one thread.
#include "agent/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "agent/test_host.h"
#include "base/clock.h"
#include "base/testing.h"

namespace pulse {
namespace {

using agent_test::Echo;
using agent_test::Hooks;
using agent_test::TestHost;
using ::testing::HasSubstr;
using testing_util::OpenDescriptors;

using testing_util::Text;

class SessionQueueTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kArena = wire::kMinArenaBytes;

  SessionQueueTest()
      : region_(Region::CreatePrivate(QueueRegionBytes(kArena)).value()),
        host_(HostQueue::Init(region_, 1, kArena).value()),
        queue_(1, AgentQueue::Attach(region_, kArena).value(), Region(),
               Mover::CreateShared(region_.data(), kArena), &count_, &origin_) {}

  uint64_t Track(uint64_t position) {
    uint64_t ticket = ~uint64_t{0};
    EXPECT_TRUE(queue_.Track(position, &ticket)) << position;
    return ticket;
  }
  void FillCompletions() {
    for (uint64_t i = 0; i < wire::kCompletionSlots; ++i) queue_.Complete({i, 0, 0, 0, 0});
  }

  RequestCount count_{100'000};
  IoScheduler scheduler_;
  IoOrigin origin_{&scheduler_};
  Region region_;
  HostQueue host_;
  SessionQueue queue_;
};

TEST_F(SessionQueueTest, InArena_HugeNumbers_DoNotOverflow) {
  EXPECT_TRUE(queue_.InArena(0, kArena));
  EXPECT_TRUE(queue_.InArena(kArena, 0));
  EXPECT_TRUE(queue_.InArena(kArena - 1, 1));
  EXPECT_FALSE(queue_.InArena(kArena, 1));
  EXPECT_FALSE(queue_.InArena(1, kArena));
  EXPECT_FALSE(queue_.InArena(~uint64_t{0}, 2));
  EXPECT_FALSE(queue_.InArena(2, ~uint64_t{0}));
  EXPECT_FALSE(queue_.InArena(~uint64_t{0}, ~uint64_t{0}));
}

TEST_F(SessionQueueTest, Untrack_OutOfOrder_GivesSpaceBackInOrder) {
  const uint64_t a = Track(1000), b = Track(5000), c = Track(kArena);
  queue_.Untrack(b);
  EXPECT_EQ(host_.reclaimed(), 0u) << "what comes before is still in use";
  queue_.Untrack(a);
  EXPECT_EQ(host_.reclaimed(), 5000u);
  queue_.Untrack(c);
  EXPECT_EQ(host_.reclaimed(), kArena);
  // Tickets go on over many laps.
  uint64_t position = kArena;
  for (int lap = 0; lap < 1000; ++lap) {
    const uint64_t first = Track(position += 4096), second = Track(position += 4096);
    queue_.Untrack(second);
    EXPECT_EQ(host_.reclaimed(), position - 8192);
    queue_.Untrack(first);
    EXPECT_EQ(host_.reclaimed(), position);
  }
}

TEST_F(SessionQueueTest, Track_ImpossiblePosition_IsRefused) {
  uint64_t ticket;
  EXPECT_FALSE(queue_.Track(kArena + 1, &ticket)) << "more than the arena holds";
  EXPECT_FALSE(queue_.Track(~uint64_t{0}, &ticket));
  const uint64_t a = Track(8192);
  EXPECT_FALSE(queue_.Track(8191, &ticket)) << "going back";
  EXPECT_FALSE(queue_.Track(kArena + 1, &ticket)) << "nothing was given back yet";
  queue_.Untrack(a);
  EXPECT_FALSE(queue_.Track(0, &ticket));
  EXPECT_FALSE(queue_.Track(8192 + kArena + 1, &ticket));
  queue_.Untrack(Track(8192 + kArena));
  EXPECT_EQ(host_.reclaimed(), 8192 + kArena);
}

TEST_F(SessionQueueTest, Complete_FullRing_IsKeptInOrder) {
  FillCompletions();
  EXPECT_TRUE(queue_.TakeNotify());
  EXPECT_FALSE(queue_.TakeNotify()) << "once";
  for (uint64_t i = 0; i < 100; ++i) queue_.Complete({100'000 + i, 0, 0, 0, 0});
  EXPECT_FALSE(queue_.TakeNotify());
  EXPECT_FALSE(queue_.FlushDeferred()) << "the ring is still full";
  wire::Completion c;
  for (uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(host_.TryPop(&c));
  EXPECT_TRUE(queue_.FlushDeferred());
  EXPECT_TRUE(queue_.TakeNotify());
  queue_.Complete({200'000, 0, 0, 0, 0});  // behind those that wait
  for (uint64_t i = 60; i < wire::kCompletionSlots; ++i) {
    ASSERT_TRUE(host_.TryPop(&c));
    ASSERT_EQ(c.tag, i);
  }
  EXPECT_TRUE(queue_.FlushDeferred());
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(host_.TryPop(&c));
    ASSERT_EQ(c.tag, 100'000 + i);
  }
  ASSERT_TRUE(host_.TryPop(&c));
  EXPECT_EQ(c.tag, 200'000u);
  EXPECT_FALSE(host_.TryPop(&c));
  EXPECT_FALSE(queue_.FlushDeferred());
}

TEST_F(SessionQueueTest, Untrack_CompletionNotVisible_GivesNoSpaceBack) {
  FillCompletions();
  const uint64_t ticket = Track(4096);
  queue_.Complete({1, 0, 0, 0, 0});
  queue_.Untrack(ticket);
  EXPECT_EQ(host_.reclaimed(), 0u);
  wire::Completion c;
  ASSERT_TRUE(host_.TryPop(&c));
  EXPECT_TRUE(queue_.FlushDeferred());
  EXPECT_EQ(host_.reclaimed(), 4096u);
}

// A session on this thread, with or without a socket.
class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    agent_test::g_hooks = &hooks_;
    engine_ = std::make_unique<FileEngine>(CreateThreadBackend({}).value());
  }
  void Start(bool with_socket, AgentLimits limits = {}) {
    host_ = std::make_unique<TestHost>(with_socket);
    UniqueFd agent_end;
    if (with_socket) {
      int fds[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
      host_->socket().reset(fds[0]);
      agent_end.reset(fds[1]);
    }
    session_ = host_->NewSession(engine_.get(), limits, std::move(agent_end));
  }
  absl::Status AttachBySocket(const TestHost::Queue& q, uint64_t arena = TestHost::kArena) {
    absl::Status st = host_->SendAttach(q, arena);
    if (!st.ok()) return st;
    if (!session_->HandleSocket()) return absl::AbortedError("session ended");
    return host_->Answer(wire::MessageType::kAttachAck);
  }

  Hooks hooks_;
  std::unique_ptr<FileEngine> engine_;
  std::unique_ptr<TestHost> host_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionTest, PollQueues_SeveralQueues_TakesTurnsInBatches) {
  Start(/*with_socket=*/false);
  std::vector<uint32_t> order;
  hooks_.on_descriptor = [&](Session*, SessionQueue* q, const wire::Descriptor& d) {
    order.push_back(q->id());
    Echo(q, d);
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(host_->AttachEmbedded(host_->NewQueue()).ok());
  EXPECT_EQ(session_->queue_count(), 3u);
  EXPECT_FALSE(session_->HasWork());
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(host_->Push(i, 0, 0));
  ASSERT_TRUE(host_->Push(0, 0, 2));
  EXPECT_TRUE(session_->HasWork());
  EXPECT_EQ(session_->PollQueues(4), 5u);
  EXPECT_THAT(order, ::testing::ElementsAre(0, 0, 0, 0, 2));
  EXPECT_EQ(session_->PollQueues(100), 6u);
  EXPECT_EQ(session_->PollQueues(100), 0u);
  EXPECT_TRUE(session_->Deliver());
  EXPECT_FALSE(session_->Deliver());
  EXPECT_GE(host_->control()->agent_progress.value, 11u);
  EXPECT_EQ(host_->Take(10).back().result, 27);
}

TEST_F(SessionTest, PollQueues_QueuesOfClasses_TakesThemByClass) {
  Start(/*with_socket=*/false);
  // By opcode: what the queue's next output is. As a service does with the request that begins one.
  std::vector<uint32_t> order;
  hooks_.on_descriptor = [&](Session*, SessionQueue* q, const wire::Descriptor& d) {
    if (d.opcode != 0) q->set_io_class(static_cast<IoClass>(d.opcode - 1));
    order.push_back(q->id());
    Echo(q, d);
  };
  const IoClass classes[] = {IoClass::kBackground, IoClass::kCritical, IoClass::kElevated,
                             IoClass::kUnknown};
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(host_->AttachEmbedded(host_->NewQueue()).ok());
    ASSERT_TRUE(host_->Push(0, 1 + static_cast<uint32_t>(classes[i]), i));
  }
  EXPECT_EQ(session_->PollQueues(16), 4u);
  order.clear();
  for (uint64_t i = 0; i < 3; ++i) {
    for (size_t q = 0; q < 4; ++q) ASSERT_TRUE(host_->Push(i, 0, q));
  }
  // Each class has its turn in each round.
  EXPECT_EQ(session_->PollQueues(2), 8u);
  EXPECT_THAT(order, ::testing::ElementsAre(1, 1, 2, 2, 0, 0, 3, 3));
  // One that changes its class ends its turn.
  order.clear();
  ASSERT_TRUE(host_->Push(0, 1 + static_cast<uint32_t>(IoClass::kBackground), 1));
  ASSERT_TRUE(host_->Push(0, 0, 1));
  EXPECT_EQ(session_->PollQueues(16), 6u);
  EXPECT_THAT(order, ::testing::ElementsAre(1, 1, 2, 1, 0, 3));
}

// A class that has much waiting for the device takes no more, and keeps nobody from being taken.
TEST_F(SessionTest, PollQueues_FullClass_WaitsInItsRings) {
  Start(/*with_socket=*/false);
  hooks_.on_descriptor = [&](Session*, SessionQueue* q, const wire::Descriptor& d) {
    if (d.opcode != 0) q->set_io_class(static_cast<IoClass>(d.opcode - 1));
    Echo(q, d);
  };
  for (size_t i = 0; i < 2; ++i) ASSERT_TRUE(host_->AttachEmbedded(host_->NewQueue()).ok());
  ASSERT_TRUE(host_->Push(0, 1 + static_cast<uint32_t>(IoClass::kBackground), 0));
  ASSERT_TRUE(host_->Push(0, 1 + static_cast<uint32_t>(IoClass::kCritical), 1));
  EXPECT_EQ(session_->PollQueues(16), 2u);
  std::vector<IoItem> waiting(IoScheduler::kMostWaiting);
  for (IoItem& item : waiting) {
    engine_->scheduler()->Push(&item, &session_->origin(), IoClass::kBackground, 1);
  }
  ASSERT_TRUE(host_->Push(0, 0, 0));
  EXPECT_FALSE(session_->HasWork()) << "the worker would not sleep";
  ASSERT_TRUE(host_->Push(0, 0, 1));
  EXPECT_TRUE(session_->HasWork());
  EXPECT_EQ(session_->PollQueues(16), 1u);
  IoItem* item = engine_->scheduler()->Next();
  engine_->scheduler()->Start(item);
  EXPECT_EQ(session_->PollQueues(16), 1u);
  engine_->scheduler()->Done(item);
}

// What the host says of its databases counts for some seconds; and whatever it says is bounded.
TEST_F(SessionTest, Pressure_SetOrMadeUp_IsLatchedAndFadesOrIsIgnored) {
  Start(/*with_socket=*/false);
  auto& word = host_->control()->pressure.value;
  session_->LatchUrgent();
  EXPECT_EQ(session_->pressure(), 0u);
  word = wire::PressureWord(wire::kPressureStopped, 1);
  const int64_t before = NowNanos();
  session_->LatchUrgent();
  EXPECT_EQ(session_->pressure(), 2u);
  const int64_t now = NowNanos();
  session_->LatchPressure(word, before + Session::kPressureNanos - 1);
  EXPECT_EQ(session_->pressure(), 2u);
  session_->LatchPressure(word, now + Session::kPressureNanos);
  EXPECT_EQ(session_->pressure(), 0u) << "no news for long";
  // The same level again is news.
  session_->LatchPressure(wire::PressureWord(wire::kPressureDelayed, 2), now + 9'000'000'000);
  EXPECT_EQ(session_->pressure(), 1u);
  session_->LatchPressure(wire::PressureWord(wire::kPressureNone, 3), now + 9'000'000'001);
  EXPECT_EQ(session_->pressure(), 0u);
  for (uint32_t lie : {~0u, 3u, 0x80000003u}) {
    session_->LatchPressure(lie, now + 10'000'000'000);
    EXPECT_EQ(session_->pressure(), 0u) << lie;
  }
}

TEST_F(SessionTest, Deliver_HostWaits_NotifiesIt) {
  Start(false);
  ASSERT_TRUE(host_->AttachEmbedded(host_->NewQueue()).ok());
  const auto deliver = [&] {
    EXPECT_TRUE(host_->Push(1));
    session_->PollQueues(16);
    EXPECT_TRUE(session_->Deliver());
  };
  deliver();
  EXPECT_EQ(host_->control()->host_waiting.value, 0u);
  host_->control()->host_waiting.value = 1;
  deliver();
  EXPECT_EQ(host_->control()->host_waiting.value, 0u) << "cleared by the agent, which rang";
}

TEST_F(SessionTest, Attach_BeyondTheLimits_NamesTheRemedy) {
  AgentLimits limits;
  limits.max_queues = 2;
  limits.max_arena_bytes = 4 * TestHost::kArena;
  limits.max_session_bytes = 5 * TestHost::kArena;
  Start(/*with_socket=*/true, limits);
  EXPECT_THAT(Text(AttachBySocket(host_->NewQueue(8 * TestHost::kArena), 8 * TestHost::kArena)),
              HasSubstr("use a smaller queue="));
  ASSERT_TRUE(AttachBySocket(host_->NewQueue(4 * TestHost::kArena), 4 * TestHost::kArena).ok());
  EXPECT_THAT(Text(AttachBySocket(host_->NewQueue(2 * TestHost::kArena), 2 * TestHost::kArena)),
              HasSubstr("exceeds the agent's limit"));
  ASSERT_TRUE(AttachBySocket(host_->NewQueue()).ok());
  EXPECT_THAT(Text(AttachBySocket(host_->NewQueue())), HasSubstr("limit --max-queues"));
  EXPECT_EQ(session_->queue_count(), 2u);
}

TEST_F(SessionTest, Attach_FalseSizes_IsRefusedAndSessionGoesOn) {
  Start(true);
  const size_t descriptors = OpenDescriptors();
  auto& q = host_->NewQueue();
  const absl::Status larger = AttachBySocket(q, 2 * TestHost::kArena);
  EXPECT_THAT(Text(larger), HasSubstr("were announced"));
  for (uint64_t arena : {uint64_t{0}, uint64_t{1}, TestHost::kArena - 1, TestHost::kArena / 2,
                         wire::kMaxArenaBytes + 1, ~uint64_t{0}, ~uint64_t{0} - wire::kMetaBytes}) {
    const absl::Status st = AttachBySocket(q, arena);
    EXPECT_TRUE(absl::IsFailedPrecondition(st)) << arena << ": " << st;
    EXPECT_FALSE(st.message().empty()) << arena;
  }
  const wire::Message no_descriptor = MakeMessage(wire::MessageType::kAttachQueue);
  ASSERT_TRUE(SendMessage(host_->socket().get(), no_descriptor).ok());
  EXPECT_TRUE(session_->HandleSocket());
  EXPECT_THAT(Text(host_->Answer(wire::MessageType::kAttachAck)),
              HasSubstr("exactly one descriptor"));
  EXPECT_EQ(host_->last_answer().status, EINVAL);
  EXPECT_EQ(session_->queue_count(), 0u);
  EXPECT_EQ(OpenDescriptors(), descriptors + 1) << "the queue's own; none that was refused";
  EXPECT_TRUE(AttachBySocket(q).ok());
}

TEST_F(SessionTest, Message_OutOfOrder_EndsTheSession) {
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto ends = [&](const wire::Message& m, const std::vector<int>& fds) {
    Start(true);
    EXPECT_TRUE(session_->HandleSocket());
    EXPECT_TRUE(SendMessage(host_->socket().get(), m, fds).ok());
    return !session_->HandleSocket();
  };
  EXPECT_TRUE(ends(MakeMessage(wire::MessageType::kHello), {}));
  EXPECT_TRUE(ends(MakeMessage(wire::MessageType::kAttachAck), {}));
  EXPECT_TRUE(ends(MakeMessage(static_cast<wire::MessageType>(99)), {null.get()}));
  EXPECT_TRUE(ends(MakeMessage(wire::MessageType::kFile), {}));
  EXPECT_TRUE(ends(MakeMessage(wire::MessageType::kFile), {null.get(), null.get()}));
  wire::Message garbage{};
  EXPECT_TRUE(ends(garbage, {}));
  Start(true);
  host_->socket().reset();
  EXPECT_FALSE(session_->HandleSocket()) << "the peer is gone";
}

TEST_F(SessionTest, HandleSocket_Files_ReachTheService) {
  Start(true);
  std::vector<uint32_t> files;
  hooks_.on_file = [&](Session*, uint32_t file, const UniqueFd& fd) {
    EXPECT_TRUE(fd.valid());
    files.push_back(file);
  };
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const size_t descriptors = OpenDescriptors();
  for (uint32_t i : {7u, 9u, 8u}) ASSERT_TRUE(host_->SendFile(i, null.get()).ok());
  EXPECT_TRUE(session_->HandleSocket());
  EXPECT_THAT(files, ::testing::ElementsAre(7, 9, 8));
  session_.reset();
  EXPECT_EQ(OpenDescriptors(), descriptors - 3) << "its files, doorbells and socket are closed";
}

TEST_F(SessionTest, SubmissionCursor_Corrupted_EndsTheSession) {
  Start(false);
  ASSERT_TRUE(host_->AttachEmbedded(host_->NewQueue()).ok());
  ASSERT_TRUE(host_->AttachEmbedded(host_->NewQueue()).ok());
  host_->header(0)->submission_tail.value = 1 << 20;
  EXPECT_TRUE(session_->HasWork()) << "it must be looked at";
  session_->PollQueues(16);
  EXPECT_TRUE(session_->shutting_down());
  EXPECT_EQ(hooks_.shutdowns, 1);
  ASSERT_TRUE(host_->Push(1, 0, 1));
  EXPECT_EQ(session_->PollQueues(16), 0u);
  EXPECT_FALSE(session_->HasWork());
  session_->BeginShutdown();
  EXPECT_EQ(hooks_.shutdowns, 1) << "once";
}

// A service that looks for a file reads the socket, where the next queue may be waiting.
TEST_F(SessionTest, PollQueues_QueuesArriveMeanwhile_AreServed) {
  Start(true);
  ASSERT_TRUE(AttachBySocket(host_->NewQueue()).ok());
  hooks_.on_descriptor = [&](Session* s, SessionQueue* q, const wire::Descriptor& d) {
    EXPECT_TRUE(s->HandleSocket());
    Echo(q, d);
  };
  constexpr size_t kMore = 20;
  for (size_t i = 0; i < kMore; ++i) {
    ASSERT_TRUE(host_->SendAttach(host_->NewQueue(), TestHost::kArena).ok());
  }
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(host_->Push(i));
  EXPECT_EQ(session_->PollQueues(16), 4u);
  EXPECT_EQ(session_->queue_count(), 1 + kMore);
  for (size_t i = 0; i < kMore; ++i) {
    EXPECT_TRUE(host_->Answer(wire::MessageType::kAttachAck).ok());
  }
  ASSERT_TRUE(host_->Push(9, 0, kMore));
  EXPECT_EQ(session_->PollQueues(16), 1u);
  EXPECT_EQ(host_->Take(4).size(), 4u);
}

TEST_F(SessionTest, HandleSocket_FloodOfMessages_DoesNotHoldTheWorker) {
  Start(true);
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  int sent = 0;
  hooks_.on_file = [&](Session*, uint32_t, const UniqueFd&) {
    // The peer is always faster: each message taken is followed by another.
    if (++sent >= 100'000) return;
    EXPECT_TRUE(host_->SendFile(1, null.get()).ok());
  };
  ASSERT_TRUE(host_->SendFile(1, null.get()).ok());
  EXPECT_TRUE(session_->HandleSocket());
  EXPECT_LT(sent, 100'000) << "only the end of the flood ended the call";
}

// The answers pile up until the socket is full; the agent must not wait for room.
TEST_F(SessionTest, HandleSocket_PeerReadsNoAnswers_DoesNotHoldTheWorker) {
  Start(true);
  std::atomic<bool> ended{false};
  std::thread peer([&] {
    const wire::Message bad = MakeMessage(wire::MessageType::kAttachQueue);
    for (int i = 0; i < 100'000 && SendMessage(host_->socket().get(), bad).ok(); ++i) {
    }
  });
  std::thread agent([&] {
    while (session_->HandleSocket()) std::this_thread::yield();
    ended = true;
    shutdown(session_->socket(), SHUT_RDWR);
  });
  EXPECT_TRUE(testing_util::Eventually([&] { return ended.load(); }))
      << "the agent waits for its peer";
  shutdown(host_->socket().get(), SHUT_RDWR);
  peer.join();
  agent.join();
}

TEST_F(SessionTest, Host_TakesNoCompletions_IsMadeToWait) {
  Start(false);
  ASSERT_TRUE(host_->AttachEmbedded(host_->NewQueue()).ok());
  constexpr uint64_t kMost = 2 * wire::kCompletionSlots + wire::kSubmissionSlots;
  uint64_t pushed = 0;
  for (bool more = true; more && pushed <= kMost;) {
    more = false;
    while (pushed <= kMost && host_->Push(pushed)) {
      ++pushed;
      more = true;
    }
    session_->PollQueues(1000);
    session_->Deliver();
  }
  EXPECT_LE(pushed, kMost) << "the agent keeps completions without bound";
  EXPECT_FALSE(session_->HasWork()) << "nothing to do until the host takes its completions";
  // It catches up, and nothing was lost.
  uint64_t next = 0;
  for (int i = 0; i < 1000 && next < pushed; ++i) {
    wire::Completion c;
    while (host_->queue().ring.TryPop(&c)) ASSERT_EQ(c.tag, next++);
    session_->Deliver();
    session_->PollQueues(1000);
  }
  EXPECT_EQ(next, pushed);
}

}  // namespace
}  // namespace pulse
