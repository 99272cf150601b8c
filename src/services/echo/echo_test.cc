// The echo service over a real socket, its bad input, and the loss of its agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <string>

#include "agent/socket_server.h"
#include "services/echo/host_echo.h"
#include "services/echo/spec.h"

namespace pulse::echo {
namespace {

using ::testing::HasSubstr;

class EchoTest : public ::testing::Test {
 protected:
  void Serve(ServiceTable services = {{&kSpec, &CreateAgentService}}) {
    AgentOptions options;
    options.socket_path = path_;
    options.handshake_ms = 60'000;
    options.known_services = {&kSpec};
    server_ = SocketServer::Open(options, std::move(services)).value();
  }
  std::string RefusalBy(const ServiceSpec& offered) {
    Serve({{&offered, &CreateAgentService}});
    const auto host = Host::Open(path_);
    EXPECT_TRUE(absl::IsFailedPrecondition(host.status())) << host.status();
    return std::string(host.status().message());
  }

  const std::string path_ = "/tmp/pulse-echo-" + std::to_string(getpid()) + ".sock";
  std::unique_ptr<SocketServer> server_;
};

TEST_F(EchoTest, Send_AnyText_ComesBack) {
  Serve();
  const auto host = Host::Open(path_).value();
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  for (size_t size : {0, 1, 7, 8, 4095, 4096, 100'000, 262'144}) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(random());
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
