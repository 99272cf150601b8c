// The echo service over a real socket, its bad input, and the loss of its agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "agent/socket_server.h"
#include "services/echo/host_echo.h"
#include "services/echo/spec.h"

namespace pulse::echo {
namespace {

using ::testing::HasSubstr;

class EchoTest : public ::testing::Test {
 protected:
  void Serve(const ServiceSpec& offered = kSpec) {
    AgentOptions options;
    options.socket_path = path_;
    options.handshake_ms = 60'000;
    options.known_services = {&kSpec};
    server_ = SocketServer::Open(options, {{&offered, &CreateAgentService}}).value();
  }
  std::string RefusalBy(const ServiceSpec& offered) {
    Serve(offered);
    const absl::Status status = Host::Open(path_).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  }

  const std::string path_ = "/tmp/pulse-echo-" + std::to_string(getpid()) + ".sock";
  std::unique_ptr<SocketServer> server_;
};

TEST_F(EchoTest, Send_AnyLength_ReturnsTheSameText) {
  Serve();
  const auto host = Host::Open(path_).value();
  for (size_t size : {0, 1, 7, 8, 4095, 4096, 100'000, 262'144}) {
    std::string text;
    while (text.size() < size) text += static_cast<char>(text.size() * text.size() >> 4);
    EXPECT_EQ(host->Send(text).value(), text) << size;
  }
}

TEST_F(EchoTest, Send_TooLongOrAgentGone_Fails) {
  Serve();
  const auto host = Host::Open(path_).value();
  EXPECT_TRUE(absl::IsResourceExhausted(host->Send(std::string(1 << 20, 'x')).status()));
  server_.reset();
  EXPECT_FALSE(host->Send("hello").ok());
  EXPECT_TRUE(absl::IsNotFound(Host::Open(path_).status()));
}

TEST_F(EchoTest, Open_NotOffered_NamesWhatIs) {
  ServiceSpec other = kSpec;
  other.name = "other";
  other.id = 77;
  EXPECT_THAT(RefusalBy(other), AllOf(HasSubstr("does not offer the service echo"),
                                      HasSubstr("other"), HasSubstr("pulse agent --echo")));
}

TEST_F(EchoTest, Open_OtherVersion_NamesBoth) {
  ServiceSpec next = kSpec;
  next.version = kSpec.version + 1;
  EXPECT_THAT(RefusalBy(next), AllOf(HasSubstr("version 2"), HasSubstr("version 1")));
}

}  // namespace
}  // namespace pulse::echo
