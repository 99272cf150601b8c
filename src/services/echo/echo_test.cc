// The echo service over a real socket, its bad input, and the loss of its agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
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

class Results : public HostMessageGroup::Taker {
 public:
  bool OnResponse(const TakenResponse& r, uint32_t /*slot*/) override {
    last = r.result;
    return false;
  }
  void OnLost(uint64_t /*id*/, uint32_t /*slot*/) override { last = -ECONNRESET; }
  int64_t last = 0;
};

// A host may have less room for answers than for requests.
TEST_F(EchoTest, Answer_LongerThanThereIsEverRoom_FailsAndOthersGoOn) {
  Serve();
  const LinkOptions link{.service = {kServiceId, kServiceVersion}, .socket_path = path_};
  const auto channel = MessageChannel::Open(link, "").value();
  const GroupShape shape = {uint64_t{1} << 20, kMinGroupRing, 16};
  const auto group = HostMessageGroup::Create(channel.get(), shape).value();
  Results results;
  const auto send = [&](size_t size) {
    Request request{};
    const uint32_t slot = group->TakeSlot(&request.id);
    const std::string text(size, 't');
    EXPECT_EQ(group->Submit(slot, request.id, kEcho, {&request, sizeof(request)},
                            {text.data(), text.size()}),
              absl::OkStatus());
    EXPECT_EQ(group->Wait(&results, 1, 60'000'000).value_or(0), 1u);
    return results.last;
  };
  constexpr size_t kMost = kMinGroupRing / 2;
  EXPECT_EQ(send(kMost), static_cast<int64_t>(kMost));
  EXPECT_EQ(send(kMost + 1), -EMSGSIZE);
  EXPECT_EQ(send(100), 100);
  channel->Close();
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
