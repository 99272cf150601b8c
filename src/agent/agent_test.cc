// SocketServer with a small service: sessions through a socket, and every way in which a peer may
// misbehave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/socket_server.h"
#include "agent/test_host.h"
#include "agent/worker.h"
#include "base/testing.h"

namespace pulse {
namespace {

using agent_test::Echo;
using agent_test::Hooks;
using agent_test::TestHost;
using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::MappingsNamed;
using testing_util::OpenDescriptors;
using testing_util::ScratchPath;

using testing_util::Text;

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { agent_test::g_hooks = &hooks_; }
  absl::Status Open(AgentOptions options = {}) {
    options.socket_path = path_.get();
    options.handshake_ms = handshake_ms_;
    auto server = SocketServer::Open(options, agent_test::TestServices());
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    return absl::OkStatus();
  }
  void ExpectServes(TestHost& host, uint64_t n = 100) {
    PushAll(host, n);
    ExpectEchoes(host, n);
  }
  void ConnectAndAttach(TestHost& host) {
    const absl::Status st = host.Connect(path_.get());
    ASSERT_TRUE(st.ok()) << st;
    const absl::Status attached = host.Attach(host.NewQueue());
    ASSERT_TRUE(attached.ok()) << attached;
  }
  // The server is fine: a new host is welcomed and served.
  void ExpectServerWell() {
    TestHost host(/*shared=*/true);
    ConnectAndAttach(host);
    if (!HasFatalFailure()) ExpectServes(host);
  }

  Hooks hooks_;
  ScratchPath path_{"agent.sock"};
  int64_t handshake_ms_ = 60'000;
  std::unique_ptr<SocketServer> server_;
};

TEST_F(ServerTest, Server_SeveralSessions_ServesAll) {
  AgentOptions options;
  options.workers = 2;
  ASSERT_TRUE(Open(options).ok());
  std::vector<std::unique_ptr<TestHost>> hosts;
  for (int i = 0; i < 5; ++i) {
    hosts.push_back(std::make_unique<TestHost>(true));
    ConnectAndAttach(*hosts.back());
  }
  EXPECT_TRUE(Eventually([&] { return server_->session_count() == 5; }));
  EXPECT_EQ(hosts[0]->last_answer().type, static_cast<uint32_t>(wire::MessageType::kAttachAck));
  std::vector<std::thread> threads;
  for (auto& h : hosts) threads.emplace_back([&] { ExpectServes(*h, 3000); });
  for (auto& t : threads) t.join();
  hosts.clear();
  EXPECT_TRUE(Eventually([&] { return server_->session_count() == 0; }));
  EXPECT_EQ(hooks_.alive, 0);
}

TEST_F(ServerTest, HelloAck_LimitsSet_SaysWhatTheAgentAllows) {
  AgentOptions options;
  options.limits.max_queues = 7;
  options.limits.max_arena_bytes = 1 << 20;
  options.engine = EngineKind::kThreads;
  ASSERT_TRUE(Open(options).ok());
  EXPECT_EQ(server_->engine_kind(), EngineKind::kThreads);
  TestHost host(true);
  ASSERT_TRUE(host.Connect(path_.get()).ok());
  const wire::Message& ack = host.last_answer();
  EXPECT_EQ(ack.version, wire::kProtocolVersion);
  EXPECT_EQ(ack.args[0], 7u);
  EXPECT_EQ(ack.args[1], uint64_t{1} << 20);
  EXPECT_EQ(ack.args[2], static_cast<uint64_t>(getpid()));
  EXPECT_EQ(ack.args[3], static_cast<uint64_t>(EngineKind::kThreads));
}

TEST_F(ServerTest, Hello_AsksForAMover_GetsIt) {
  ASSERT_TRUE(Open().ok());
  std::atomic<int> kind{-1};
  hooks_.on_descriptor = [&](Session*, SessionQueue* q, const wire::Descriptor& d) {
    kind = static_cast<int>(q->mover().kind());
    Echo(q, d);
  };
  for (uint64_t mover : {0u, 1u, 2u}) {
    TestHost host(true);
    host.socket() = ConnectUnix(path_.get()).value();
    wire::Message hello = MakeMessage(wire::MessageType::kHello);
    hello.args[2] = mover;
    ASSERT_TRUE(host.Hello(hello).ok());
    ASSERT_TRUE(host.Attach(host.NewQueue()).ok());
    PushAll(host, 1);
    host.Take(1);
    EXPECT_EQ(kind, static_cast<int>(mover == 2 ? MoverKind::kVmRead : MoverKind::kShared));
  }
}

TEST_F(ServerTest, Open_SocketInUse_IsRefused) {
  ASSERT_TRUE(Open().ok());
  AgentOptions options;
  options.socket_path = path_.get();
  options.backend_factory =
      [](const IoBackendOptions&) -> absl::StatusOr<std::unique_ptr<IoBackend>> {
    return absl::InternalError("a worker was started");
  };
  const absl::Status st = SocketServer::Open(options, agent_test::TestServices()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(st)) << st;
  EXPECT_THAT(Text(st), HasSubstr(path_.get()));
  ExpectServerWell();
}

TEST_F(ServerTest, Destructor_SuccessorHasThePath_LeavesItsSocket) {
  ASSERT_TRUE(Open().ok());
  ASSERT_EQ(unlink(path_.c_str()), 0);
  auto former = std::move(server_);
  ASSERT_TRUE(Open().ok());
  former.reset();
  ExpectServerWell();
}

TEST_F(ServerTest, Open_BadOptions_IsRefusedAndLeavesNoSocket) {
  for (int workers : {0, -1, 65}) {
    AgentOptions options;
    options.workers = workers;
    EXPECT_THAT(Text(Open(options)), HasSubstr("use a number from 1 to 64"));
  }
  struct stat st;
  EXPECT_NE(stat(path_.c_str(), &st), 0) << "no socket was left behind";
  AgentOptions options;
  options.cpus = {4000};
  EXPECT_FALSE(Open(options).ok());
  EXPECT_NE(stat(path_.c_str(), &st), 0) << "no socket was left behind";
}

TEST_F(ServerTest, Connect_BeyondTheSessionLimit_NamesTheRemedy) {
  AgentOptions options;
  options.limits.max_sessions = 1;
  options.workers = 2;
  ASSERT_TRUE(Open(options).ok());
  for (int i = 0; i < 20; ++i) {
    {
      TestHost first(true), second(true);
      const absl::Status welcomed = first.Connect(path_.get());
      ASSERT_TRUE(welcomed.ok()) << welcomed;
      const absl::Status refused = second.Connect(path_.get());
      EXPECT_THAT(Text(refused), HasSubstr("raise --max-sessions")) << "attempt " << i;
      EXPECT_TRUE(absl::IsUnavailable(ReceiveMessage(second.socket().get()).status()))
          << "and the connection ends";
    }
    ASSERT_TRUE(Eventually([&] { return server_->session_count() == 0; }));
  }
}

TEST_F(ServerTest, Attach_BeyondTheQueueLimit_IsRefusedAndSessionGoesOn) {
  AgentOptions options;
  options.limits.max_queues = 1;
  ASSERT_TRUE(Open(options).ok());
  TestHost host(true);
  ConnectAndAttach(host);
  EXPECT_THAT(Text(host.Attach(host.NewQueue())), HasSubstr("limit --max-queues"));
  ExpectServes(host);
}

TEST_F(ServerTest, Hello_OtherProtocolVersion_NamesTheRemedy) {
  ASSERT_TRUE(Open().ok());
  for (uint32_t version : {0u, wire::kProtocolVersion + 1, ~0u}) {
    TestHost host(true);
    host.socket() = ConnectUnix(path_.get()).value();
    wire::Message hello = MakeMessage(wire::MessageType::kHello);
    hello.version = version;
    const absl::Status st = host.Hello(hello);
    EXPECT_THAT(Text(st), HasSubstr("the plug-in version " + std::to_string(version)));
    EXPECT_THAT(Text(st), HasSubstr("same release"));
    EXPECT_EQ(host.last_answer().version, wire::kProtocolVersion);
  }
  ExpectServerWell();
}

TEST_F(ServerTest, FirstMessage_NotAHello_IsRefused) {
  ASSERT_TRUE(Open().ok());
  for (wire::MessageType type : {wire::MessageType::kAttachQueue, wire::MessageType::kFile,
                                 wire::MessageType::kHelloAck, wire::MessageType{77}}) {
    TestHost host(true);
    host.socket() = ConnectUnix(path_.get()).value();
    EXPECT_THAT(Text(host.Hello(MakeMessage(type))), HasSubstr("first message is not a hello"));
  }
  // A hello without its descriptors, and one that is not of this protocol at all.
  UniqueFd bare = ConnectUnix(path_.get()).value();
  ASSERT_TRUE(SendMessage(bare.get(), MakeMessage(wire::MessageType::kHello)).ok());
  EXPECT_NE(ReceiveMessage(bare.get())->message.status, 0);
  UniqueFd alien = ConnectUnix(path_.get()).value();
  ASSERT_EQ(send(alien.get(), "GET / HTTP/1.1\r\n", 16, 0), 16);
  EXPECT_THAT(TextOf(ReceiveMessage(alien.get())->message), HasSubstr("PulseDB's protocol"));
  EXPECT_EQ(server_->session_count(), 0u);
  ExpectServerWell();
}

TEST_F(ServerTest, Hello_InvalidControlPage_IsRefused) {
  ASSERT_TRUE(Open().ok());
  {
    TestHost host(true);
    host.control()->magic = 1;
    EXPECT_THAT(Text(host.Connect(path_.get())), HasSubstr("control page"));
  }
  TestHost host(true);
  host.socket() = ConnectUnix(path_.get()).value();
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(SendMessage(host.socket().get(), MakeMessage(wire::MessageType::kHello),
                          {null.get(), null.get()})
                  .ok());
  EXPECT_THAT(Text(host.Answer(wire::MessageType::kHelloAck)), HasSubstr("not a sealed memfd"));
  ExpectServerWell();
}

TEST_F(ServerTest, Hello_HostGoneBeforeTheAnswer_IsLoggedAsGone) {
  ASSERT_TRUE(Open().ok());
  testing::internal::CaptureStderr();
  {
    TestHost host(true);
    host.socket() = ConnectUnix(path_.get()).value();
    ASSERT_EQ(shutdown(host.socket().get(), SHUT_RD), 0);  // as of one that has ended
    EXPECT_FALSE(host.Hello(MakeMessage(wire::MessageType::kHello)).ok());
    ExpectServerWell();  // which the agent comes to later
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("had gone"));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("refused a session")));
}

TEST_F(ServerTest, SilentPeer_BesideOthers_KeepsNobodyOut) {
  handshake_ms_ = 5000;  // the others need less, also on a busy machine
  ASSERT_TRUE(Open().ok());
  TestHost served(true);
  ConnectAndAttach(served);
  UniqueFd silent = ConnectUnix(path_.get()).value();
  ExpectServes(served);  // while the server waits for the silent one
  ExpectServerWell();    // and after it gave up
  EXPECT_THAT(TextOf(ReceiveMessage(silent.get())->message), HasSubstr("did not answer in time"));
}

TEST_F(ServerTest, Peers_ConnectAndLeave_CostNoDescriptors) {
  ASSERT_TRUE(Open().ok());
  ExpectServerWell();
  ASSERT_TRUE(Eventually([&] { return server_->session_count() == 0; }));
  const size_t descriptors = OpenDescriptors();
  for (int i = 0; i < 100; ++i) ConnectUnix(path_.get()).value().reset();
  ExpectServerWell();
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= descriptors; }))
      << OpenDescriptors() << " open, " << descriptors << " before";
}

TEST_F(ServerTest, Session_HostDies_FreesEverything) {
  ASSERT_TRUE(Open().ok());
  ExpectServerWell();
  ASSERT_TRUE(Eventually([&] { return server_->session_count() == 0; }));
  const size_t descriptors = OpenDescriptors();
  const size_t mappings = MappingsNamed("pulse-region");
  for (int i = 0; i < 10; ++i) {
    TestHost host(true);
    ConnectAndAttach(host);
    ASSERT_TRUE(host.Attach(host.NewQueue()).ok());
    UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (uint32_t f = 0; f < 20; ++f) ASSERT_TRUE(host.SendFile(f, null.get()).ok());
    PushAll(host, 50);
    if (i % 2 == 0) ExpectEchoes(host, 50);
    EXPECT_GT(OpenDescriptors(), descriptors);
  }  // dies with messages unread and completions not taken
  EXPECT_TRUE(Eventually([&] { return server_->session_count() == 0; }));
  // Or fewer: what the server had before may have been on its way out.
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= descriptors; }))
      << OpenDescriptors() << " open, " << descriptors << " before";
  EXPECT_TRUE(Eventually([&] { return MappingsNamed("pulse-region") <= mappings; }))
      << MappingsNamed("pulse-region") << " mapped, " << mappings << " before";
  EXPECT_EQ(hooks_.alive, 0);
}

TEST_F(ServerTest, Session_HostDiesWithWork_IsFreedWhenItIsDone) {
  ASSERT_TRUE(Open().ok());
  hooks_.drained = false;
  {
    TestHost host(true);
    ConnectAndAttach(host);
  }
  EXPECT_TRUE(Eventually([&] { return hooks_.shutdowns == 1; }));
  EXPECT_EQ(server_->session_count(), 1u);
  ExpectServerWell();  // meanwhile others are served
  hooks_.drained = true;
  EXPECT_TRUE(Eventually([&] { return server_->session_count() == 0; }));
}

TEST_F(ServerTest, SubmissionCursor_Corrupted_EndsOnlyThatSession) {
  ASSERT_TRUE(Open().ok());
  TestHost honest(true), broken(true);
  ConnectAndAttach(honest);
  ConnectAndAttach(broken);
  ExpectServes(broken, 5);
  broken.header()->submission_tail.value = ~uint64_t{0};
  broken.Ring();
  EXPECT_TRUE(Eventually([&] { return broken.AgentHungUp(); })) << "the session goes on";
  ExpectServes(honest);
  EXPECT_TRUE(Eventually([&] { return server_->session_count() == 1; }));
  ExpectServerWell();
}

TEST_F(ServerTest, CompletionCursor_Corrupted_HurtsOnlyItsHost) {
  ASSERT_TRUE(Open().ok());
  TestHost honest(true), broken(true);
  ConnectAndAttach(honest);
  ConnectAndAttach(broken);
  broken.header()->completion_head.value = 1 << 30;
  PushAll(broken, wire::kCompletionSlots + 100);
  ExpectServes(honest);
  broken.socket().reset();
  EXPECT_TRUE(Eventually([&] { return server_->session_count() == 1; }));
}

TEST_F(ServerTest, Message_OutOfOrder_EndsOnlyThatSession) {
  ASSERT_TRUE(Open().ok());
  TestHost honest(true), broken(true);
  ConnectAndAttach(honest);
  ConnectAndAttach(broken);
  ASSERT_TRUE(SendMessage(broken.socket().get(), MakeMessage(wire::MessageType::kHello)).ok());
  EXPECT_TRUE(Eventually([&] { return broken.AgentHungUp(); }));
  ExpectServes(honest);
}

TEST_F(ServerTest, Destructor_WorkUnderWay_DrainsAndRemovesTheSocket) {
  ASSERT_TRUE(Open().ok());
  TestHost host(true);
  ConnectAndAttach(host);
  ExpectServes(host);
  hooks_.drained = false;
  std::atomic<bool> gone{false};
  std::thread stopper([&] {
    server_.reset();
    gone = true;
  });
  EXPECT_TRUE(Eventually([&] { return hooks_.shutdowns == 1; }));
  EXPECT_FALSE(gone);
  EXPECT_FALSE(ConnectUnix(path_.get()).ok()) << "nobody new is accepted";
  EXPECT_FALSE(host.AgentHungUp()) << "the host hears of the end when its work has ended";
  hooks_.drained = true;
  stopper.join();
  EXPECT_TRUE(host.AgentHungUp());
  struct stat st;
  EXPECT_NE(stat(path_.c_str(), &st), 0) << "the socket file is still there";
  EXPECT_EQ(hooks_.alive, 0);
  // The path is free again.
  EXPECT_TRUE(Open().ok());
  ExpectServerWell();
}

TEST_F(ServerTest, Server_OpenedAndClosed_LeavesNothingBehind) {
  const size_t descriptors = OpenDescriptors();
  const size_t mappings = MappingsNamed("pulse-region");
  {
    ASSERT_TRUE(Open().ok());
    TestHost a(true), b(true);
    ConnectAndAttach(a);
    ConnectAndAttach(b);
    ExpectServes(a);
    server_.reset();
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(MappingsNamed("pulse-region"), mappings);
}

}  // namespace
}  // namespace pulse
