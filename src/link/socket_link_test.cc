// A link whose agent ends: each call says that the agent was lost, whichever way the socket tells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "link/agent_link.h"
#include "link/test_closing_agent.h"

namespace pulse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_link::ClosingAgent;
using testing_link::EndsAt;
using testing_util::Text;

LinkOptions OptionsFor(const ClosingAgent& agent) {
  return {.service = {200, 1}, .socket_path = agent.socket(), .answer_ms = 60'000};
}

TEST(SocketLink, AgentEndsInHandshake_IsLostAndAnotherMayDo) {
  for (const EndsAt step : {EndsAt::kHelloUnread, EndsAt::kHello}) {
    ClosingAgent agent(step);
    bool may_fall_back = false;
    const auto link = ConnectToAgent(OptionsFor(agent), -1, &may_fall_back);
    EXPECT_TRUE(absl::IsUnavailable(link.status())) << link.status();
    EXPECT_THAT(Text(link.status()),
                AllOf(StartsWith("the agent at " + agent.socket() + " was lost in the handshake ("),
                      HasSubstr("start it again")));
    EXPECT_TRUE(may_fall_back);
  }
}

TEST(SocketLink, AgentEndsAtQuestion_IsLost) {
  for (const EndsAt step : {EndsAt::kNextSend, EndsAt::kQuestionUnread, EndsAt::kQuestion}) {
    ClosingAgent agent(step);
    const auto link = ConnectToAgent(OptionsFor(agent), -1).value();
    const auto answer =
        link->Ask(MakeMessage(wire::MessageType::kService), {}, wire::MessageType::kServiceAck);
    EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
    EXPECT_THAT(Text(answer.status()),
                AllOf(StartsWith("the agent at " + agent.socket() + " was lost ("),
                      HasSubstr("start it again")));
  }
}

TEST(SocketLink, AgentEndsBeforeFile_IsLost) {
  ClosingAgent agent(EndsAt::kNextSend);
  const auto link = ConnectToAgent(OptionsFor(agent), -1).value();
  const auto sent = link->SendFile(1, STDIN_FILENO);
  EXPECT_TRUE(absl::IsUnavailable(sent.status())) << sent.status();
  EXPECT_THAT(Text(sent.status()), StartsWith("the agent at " + agent.socket() + " was lost ("));
}

}  // namespace
}  // namespace pulse
