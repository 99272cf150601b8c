// The doctor at an agent's socket: agents that are well, full, of another version, silent, absent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>

#include "agent/socket_server.h"
#include "apps/pulse/doctor/check.h"
#include "base/testing.h"
#include "channel/handshake.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/spec.h"

namespace pulse::doctor {
namespace {

using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::ScratchPath;

class AgentChecksTest : public ::testing::Test {
 protected:
  void Open(uint32_t max_sessions) {
    AgentOptions options;
    options.socket_path = path_.get();
    options.handshake_ms = 60'000;
    options.engine = EngineKind::kThreads;
    options.limits.max_sessions = max_sessions;
    auto server = SocketServer::Open(options, {{&lsm::kSpec, &lsm::CreateAgentService}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  Check Look() {
    const Checks checks = CheckAgentSocket(path_.get());
    EXPECT_EQ(checks.size(), 1u);
    EXPECT_EQ(checks[0].remedy.empty(), checks[0].verdict == Verdict::kOk);
    EXPECT_THAT(checks[0].found, HasSubstr(path_.get()));
    return checks[0];
  }
  // Looks at an agent that answers a hello with `answer`, or hangs up for none.
  Check LookAtFake(const wire::Message* answer) {
    auto listener = ListenUnix(path_.get());
    EXPECT_TRUE(listener.ok()) << listener.status();
    std::thread agent([&] {
      const UniqueFd peer(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
      auto hello = ReceiveMessage(peer.get());
      EXPECT_TRUE(hello.ok()) << hello.status();
      if (answer == nullptr) return;
      EXPECT_TRUE(SendMessage(peer.get(), *answer).ok());
    });
    const Check check = Look();
    agent.join();
    return check;
  }

  ScratchPath path_{"doctor.sock"};
  std::unique_ptr<SocketServer> server_;
};

TEST_F(AgentChecksTest, CheckAgentSocket_HealthyAgent_IsOkAndFreesItsSession) {
  Open(1);
  for (int i = 0; i < 5; ++i) {
    // The one session that there may be is free again, soon after the last look.
    Check c = Look();
    EXPECT_TRUE(Eventually([&] {
      if (c.verdict != Verdict::kOk) c = Look();
      return c.verdict == Verdict::kOk;
    })) << c.found;
    EXPECT_THAT(c.found, HasSubstr("threads"));
    EXPECT_TRUE(Eventually([&] { return server_->session_count() == 0; }));
  }
}

TEST_F(AgentChecksTest, CheckAgentSocket_FullAgent_NamesTheRemedy) {
  Open(0);
  const Check c = Look();
  EXPECT_EQ(c.verdict, Verdict::kFail);
  EXPECT_THAT(c.found, HasSubstr("0 sessions already"));
  EXPECT_THAT(c.remedy, HasSubstr("--max-sessions"));
}

TEST_F(AgentChecksTest, CheckAgentSocket_OtherVersion_NamesTheRemedy) {
  wire::Message m = MakeMessage(wire::MessageType::kHelloAck);
  m.version = wire::kProtocolVersion + 7;
  const Check c = LookAtFake(&m);
  EXPECT_EQ(c.verdict, Verdict::kFail);
  EXPECT_THAT(c.found, HasSubstr(std::to_string(wire::kProtocolVersion + 7)));
  EXPECT_THAT(c.remedy, HasSubstr("same release"));
}

TEST_F(AgentChecksTest, CheckAgentSocket_OtherAnswer_IsNoAgent) {
  const wire::Message m = MakeMessage(wire::MessageType::kFile);
  EXPECT_THAT(LookAtFake(&m).found, HasSubstr("no PulseDB agent"));
}

TEST_F(AgentChecksTest, CheckAgentSocket_PeerHangsUp_SaysSo) {
  const Check c = LookAtFake(nullptr);
  EXPECT_EQ(c.verdict, Verdict::kFail);
  EXPECT_THAT(c.found, HasSubstr("hangs up"));
}

TEST_F(AgentChecksTest, CheckAgentSocket_NobodyThere_NamesTheRemedy) {
  const Check c = Look();
  EXPECT_EQ(c.verdict, Verdict::kFail);
  EXPECT_THAT(c.remedy, HasSubstr("pulse agent --socket"));
}

}  // namespace
}  // namespace pulse::doctor
