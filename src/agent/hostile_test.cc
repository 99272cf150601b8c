// Hosts that mean harm, against a server: none of them may stop the agent, wait it out, or take
// what is another session's.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/socket_server.h"
#include "agent/test_host.h"
#include "base/testing.h"

namespace pulse {
namespace {

using agent_test::Echo;
using agent_test::Hooks;
using agent_test::TestHost;
using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::OpenDescriptors;
using testing_util::ScratchPath;

using testing_util::Text;

class HostileTest : public ::testing::Test {
 protected:
  HostileTest() { agent_test::g_hooks = &hooks_; }
  void Open(AgentOptions options = {}) {
    options.socket_path = path_.get();
    options.handshake_ms = 60'000;
    auto server = SocketServer::Open(options, agent_test::TestServices());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void ConnectAndAttach(TestHost& host, int queues = 1) {
    const absl::Status st = host.Connect(path_.get());
    ASSERT_TRUE(st.ok()) << st;
    for (int i = 0; i < queues; ++i) {
      const absl::Status attached = host.Attach(host.NewQueue());
      ASSERT_TRUE(attached.ok()) << attached;
    }
  }
  void ExpectServes(TestHost& host, uint64_t n = 100) {
    for (uint64_t i = 0; i < n; ++i) ASSERT_TRUE(host.Push(i));
    host.Ring();
    ASSERT_EQ(host.Take(n).size(), n);
  }
  void ExpectServerWell() {
    TestHost host(/*shared=*/true);
    ConnectAndAttach(host);
    if (!HasFatalFailure()) ExpectServes(host);
  }

  Hooks hooks_;
  ScratchPath path_{"agent.sock"};
  std::unique_ptr<SocketServer> server_;
};

TEST_F(HostileTest, SilentPeers_Many_KeepNobodyOut) {
  Open();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 150; ++i) silent.push_back(ConnectUnix(path_.get()).value());
  TestHost host(true);
  ConnectAndAttach(host);
  ExpectServes(host);
  EXPECT_THAT(TextOf(ReceiveMessage(silent.front().get())->message),
              HasSubstr("said nothing, and others wait"));
}

TEST_F(HostileTest, Hello_HalfSent_IsRefusedAndHarmsNoOther) {
  Open();
  UniqueFd half = ConnectUnix(path_.get()).value();
  ASSERT_EQ(send(half.get(), "P", 1, 0), 1);
  ExpectServerWell();
  EXPECT_THAT(TextOf(ReceiveMessage(half.get())->message), HasSubstr("PulseDB's protocol"));
}

// What the host passes as its doorbell is rung by the worker, and must not be able to hold it.
TEST_F(HostileTest, Hello_DoorbellThatMightBlock_IsRefused) {
  Open();
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  const UniqueFd reader(pipe_ends[0]), writer(pipe_ends[1]);
  TestHost host(true);
  host.socket() = ConnectUnix(path_.get()).value();
  ASSERT_TRUE(SendMessage(host.socket().get(), MakeMessage(wire::MessageType::kHello),
                          {host.page().fd(), writer.get()})
                  .ok());
  EXPECT_THAT(Text(host.Answer(wire::MessageType::kHelloAck)), HasSubstr("doorbell"));
  ExpectServerWell();
}

// The host never reads its doorbell and takes non-blocking off it; the agent rings on.
TEST_F(HostileTest, Doorbell_HostNeverReadsIt_DoesNotHoldTheAgent) {
  Open();
  TestHost host(true);
  ConnectAndAttach(host);
  const int flags = fcntl(host.notify_ring(), F_GETFL);
  ASSERT_EQ(fcntl(host.notify_ring(), F_SETFL, flags & ~O_NONBLOCK), 0);
  TestHost other(true);
  ConnectAndAttach(other);
  wire::Completion c;
  for (uint64_t round = 0; round < 2000; ++round) {
    host.control()->host_waiting.value = 1;  // as if it slept, and it never wakes
    ASSERT_TRUE(host.Push(round));
    host.Ring();
    ASSERT_TRUE(Eventually([&] { return host.queue().ring.TryPop(&c); })) << "round " << round;
  }
  ExpectServes(other);
}

TEST_F(HostileTest, Doorbell_HostClosesIt_EndsOnlyItsSession) {
  Open();
  TestHost honest(true), broken(true);
  ConnectAndAttach(honest);
  ConnectAndAttach(broken);
  broken.kick() = Doorbell();
  EXPECT_TRUE(Eventually([&] { return broken.AgentHungUp(); }))
      << "a descriptor that is readable for ever keeps the agent awake";
  ExpectServes(honest);
}

TEST_F(HostileTest, Kicks_Flood_StarveNobody) {
  Open();
  TestHost flood(true), modest(true);
  ConnectAndAttach(flood);
  ConnectAndAttach(modest);
  std::atomic<bool> stop{false};
  std::thread kicker([&] {
    while (!stop) flood.kick().Kick();
  });
  for (int i = 0; i < 20; ++i) ExpectServes(modest, 50);
  stop = true;
  kicker.join();
}

// A session with many queues, all of them full, beside one with a few requests.
TEST_F(HostileTest, Flood_ManyFullQueues_DelaysAnotherByABoundedNumber) {
  constexpr int kQueues = 40;
  constexpr uint64_t kModest = 64;
  std::vector<Session*> order;
  std::atomic<bool> held{true};
  hooks_.on_descriptor = [&](Session* s, SessionQueue* q, const wire::Descriptor& d) {
    while (held) std::this_thread::yield();  // until both have asked for everything
    order.push_back(s);
    Echo(q, d);
  };
  Open();
  TestHost flood(true), modest(true);
  ConnectAndAttach(flood, kQueues);
  ConnectAndAttach(modest);
  for (int q = 0; q < kQueues; ++q) {
    for (uint64_t i = 0; i < wire::kSubmissionSlots; ++i) flood.Push(i, 0, static_cast<size_t>(q));
  }
  flood.Ring();
  for (uint64_t i = 0; i < kModest; ++i) ASSERT_TRUE(modest.Push(i));
  modest.Ring();
  held = false;
  ASSERT_EQ(modest.Take(kModest).size(), kModest);
  for (int q = 0; q < kQueues; ++q) {
    ASSERT_EQ(flood.Take(wire::kSubmissionSlots, static_cast<size_t>(q)).size(),
              wire::kSubmissionSlots);
  }
  server_.reset();  // `order` is complete
  // The modest one's name is the one that is seen as often as it asked.
  Session* const first = order.front();
  Session* other = nullptr;
  size_t of_first = 0;
  for (Session* s : order) {
    of_first += s == first;
    if (s != first) other = s;
  }
  Session* const modest_session = of_first == kModest ? first : other;
  size_t flood_seen = 0, modest_seen = 0;
  for (Session* s : order) {
    if (s == modest_session) {
      if (++modest_seen == kModest) break;
    } else {
      ++flood_seen;
    }
  }
  EXPECT_EQ(modest_seen, kModest);
  // 64 requests are 4 rounds of 16, and one round that had begun; the other gets 64 in each.
  EXPECT_LE(flood_seen, 6u * 64);
}

// Requests that do not end are counted: the session is made to wait, and no other.
TEST_F(HostileTest, RequestsInFlight_Flood_AreBoundedPerSession) {
  AgentOptions options;
  options.limits.max_requests = 100;
  std::vector<std::pair<SessionQueue*, wire::Descriptor>> kept;
  hooks_.on_descriptor = [&](Session*, SessionQueue* q, const wire::Descriptor& d) {
    if (d.opcode == 9) {
      kept.emplace_back(q, d);
    } else if (d.opcode == 10) {
      for (auto& [queue, descriptor] : kept) Echo(queue, descriptor);
      kept.clear();
      Echo(q, d);
    } else {
      Echo(q, d);
    }
  };
  Open(options);
  TestHost flood(true), modest(true);
  ConnectAndAttach(flood, 3);
  ConnectAndAttach(modest);
  for (size_t q = 0; q < 3; ++q) {
    for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(flood.Push(i, 9, q));
  }
  flood.Ring();
  EXPECT_TRUE(Eventually([&] { return hooks_.served == 100; }));
  ExpectServes(modest, 500);
  EXPECT_EQ(hooks_.served, 600u) << "the flood went on, or the other did not";
  // They end, and the rest is taken.
  uint64_t pokes = 0;
  const auto poke = [&] {
    EXPECT_TRUE(modest.Push(0, 10));
    modest.Ring();
    EXPECT_EQ(modest.Take(1).size(), 1u);
    ++pokes;
  };
  EXPECT_TRUE(Eventually([&] {
    poke();
    return hooks_.served - 500 - pokes == 600;
  }));
  poke();
  for (size_t q = 0; q < 3; ++q) EXPECT_EQ(flood.Take(200, q).size(), 200u);
  server_.reset();  // before `kept` goes
}

TEST_F(HostileTest, Memory_OfAllSessions_IsBoundedAndReleasedAtTheirEnd) {
  AgentOptions options;
  options.limits.max_total_bytes = 3 * TestHost::kArena;
  Open(options);
  TestHost last(true);
  {
    TestHost a(true), b(true);
    ConnectAndAttach(a, 2);
    ConnectAndAttach(b, 1);
    EXPECT_THAT(Text(b.Attach(b.NewQueue())), HasSubstr("raise --total-memory"));
    ExpectServes(a);
    ExpectServes(b);
    ConnectAndAttach(last, 0);
    EXPECT_THAT(Text(last.Attach(last.NewQueue())), HasSubstr("for all sessions"));
  }
  EXPECT_TRUE(Eventually([&] { return server_->session_count() == 1; }));
  EXPECT_TRUE(last.Attach(last.NewQueue()).ok());
}

// A host that forks and ends leaves its socket with the child; the session must not live on.
TEST_F(HostileTest, HostDies_ChildHoldsItsSocket_SessionEnds) {
  if (syscall(SYS_pidfd_open, getpid(), 0) < 0) GTEST_SKIP() << "no pidfd in this kernel";
  Open();
  int stay[2];
  ASSERT_EQ(pipe2(stay, O_CLOEXEC), 0);
  const UniqueFd reader(stay[0]);
  UniqueFd writer(stay[1]);
  const pid_t host = fork();
  if (host == 0) {
    writer.reset();
    TestHost h(true);
    if (!h.Connect(path_.get()).ok() || !h.Attach(h.NewQueue()).ok()) _exit(1);
    char c;
    if (fork() == 0) _exit(read(reader.get(), &c, 1) == 0 ? 0 : 1);  // until the test ends
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(host, &status, 0), host);
  ASSERT_EQ(status, 0) << "the host could not attach";
  EXPECT_TRUE(Eventually([&] { return server_->session_count() == 0; }))
      << "the session lives on in the child";
  ExpectServerWell();
}

TEST_F(HostileTest, Agent_WithoutDescriptors_RefusesAndGoesOn) {
  std::atomic<int> lost{0}, received{0};
  hooks_.on_file = [&](Session*, uint32_t, const UniqueFd& fd) {
    ++(fd.valid() ? received : lost);
  };
  Open();
  TestHost host(true);
  ConnectAndAttach(host);
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  auto& second = host.NewQueue();
  // The accepting thread lets go of what it passed a moment after the session has begun.
  testing_util::SettledValue(OpenDescriptors);
  {
    const testing_util::NoMoreFiles none;
    ASSERT_TRUE(host.SendFile(7, null.get()).ok());
    EXPECT_TRUE(Eventually([&] { return lost == 1; }));
    EXPECT_THAT(Text(host.Attach(second)), HasSubstr("ulimit -n"));
    EXPECT_EQ(host.last_answer().status, EMFILE);
  }
  ASSERT_TRUE(host.SendFile(8, null.get()).ok());
  EXPECT_TRUE(host.Attach(second).ok());
  EXPECT_EQ(received, 1);
  ExpectServes(host);
}

TEST_F(HostileTest, Open_LowLimitOfOpenFiles_RaisesIt) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_max / 2, before.rlim_cur);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Open();
  rlimit now;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(HostileTest, AttachAck_SuccessOrRefusal_NamesItsQueue) {
  Open();
  TestHost host(true);
  ConnectAndAttach(host, 3);
  EXPECT_EQ(host.last_answer().args[0], 2u);
  EXPECT_FALSE(host.Attach(host.NewQueue(), 1).ok());
  EXPECT_EQ(host.last_answer().args[0], 3u) << "a refusal, too";
}

// The socket's mode keeps other users out; should it be changed, their credentials still do.
TEST_F(HostileTest, OtherUser_AnySocketMode_IsKeptOut) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Open();
  const auto answer = [&]() -> int {  // of the agent to another user: 1 connected not, 2 refused
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
      auto fd = ConnectUnix(path_.get());
      if (!fd.ok()) _exit(1);
      auto r = ReceiveMessage(fd->get());
      const bool refused =
          r.ok() && r->message.status != 0 &&
          TextOf(r->message).find("run both as the same user") != std::string::npos;
      _exit(refused ? 2 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(answer(), 1);
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  const int open_to_all = answer();
  if (open_to_all == 1) GTEST_SKIP() << "the directory keeps other users out";
  EXPECT_EQ(open_to_all, 2);
  EXPECT_EQ(server_->session_count(), 0u);
  ExpectServerWell();
}

}  // namespace
}  // namespace pulse
