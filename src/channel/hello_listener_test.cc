#include "channel/hello_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/testing.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;
using testing_util::Eventually;

// Welcomes a hello by its first argument: 1 is answered and watched, all else refused.
class TestListenerHost : public HelloListener::Host {
 public:
  absl::Status Welcome(UniqueFd* socket, Received hello) override {
    if (hello.message.args[0] != 1) return absl::InvalidArgumentError("not this one");
    watched_.push_back(std::move(*socket));
    return SendMessage(watched_.back().get(), MakeMessage(wire::MessageType::kHelloAck), {},
                       /*wait=*/false);
  }
  void Refused(const absl::Status& /*why*/) override { ++refused; }
  void Watch(std::vector<pollfd>* fds) override {
    for (const UniqueFd& fd : watched_) fds->push_back({fd.get(), POLLIN, 0});
  }
  void Look(std::span<const pollfd> watched) override {
    ASSERT_EQ(watched.size(), watched_.size());
    std::vector<UniqueFd> kept;
    for (size_t i = 0; i < watched.size(); ++i) {
      ASSERT_EQ(watched[i].fd, watched_[i].get());
      if (watched[i].revents == 0) kept.push_back(std::move(watched_[i]));
    }
    watched_ = std::move(kept);
    count = watched_.size();
  }

  std::atomic<int> refused{0};
  std::atomic<size_t> count{0};  // that were watched when it looked last

 private:
  std::vector<UniqueFd> watched_;
};

class HelloListenerTest : public ::testing::Test {
 protected:
  void Open(int64_t hello_ms = 60'000) {
    auto opened = HelloListener::Open(
        &host_, {.path = path_.get(), .thread = "test", .who = "the test", .hello_ms = hello_ms});
    ASSERT_TRUE(opened.ok()) << opened.status();
    listener_ = *std::move(opened);
  }
  UniqueFd Connect() {
    auto socket = ConnectUnix(path_.get());
    EXPECT_TRUE(socket.ok()) << socket.status();
    return socket.ok() ? *std::move(socket) : UniqueFd();
  }
  // Says hello; the text of the refusal, empty for one that is welcome.
  static std::string Greet(const UniqueFd& socket, uint64_t number) {
    EXPECT_TRUE(SendMessage(socket.get(), MakeMessage(wire::MessageType::kHello, {number})).ok());
    return Answer(socket);
  }
  static std::string Answer(const UniqueFd& socket) {
    const auto answer = ReceiveMessage(socket.get());
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? TextOf(answer->message) : "";
  }

  testing_util::ScratchPath path_{"hello.sock"};
  TestListenerHost host_;
  std::unique_ptr<HelloListener> listener_;
};

TEST_F(HelloListenerTest, Hello_WelcomeOrNot_IsAnsweredOnce) {
  Open();
  const UniqueFd good = Connect();
  EXPECT_EQ(Greet(good, 1), "");
  const UniqueFd bad = Connect();
  EXPECT_THAT(Greet(bad, 2), HasSubstr("not this one"));
  EXPECT_TRUE(absl::IsUnavailable(ReceiveMessage(bad.get()).status())) << "and it ends";
  EXPECT_EQ(host_.refused, 1);
  char byte;
  EXPECT_LT(recv(good.get(), &byte, 1, MSG_DONTWAIT), 0) << "the other one goes on";
}

TEST_F(HelloListenerTest, Peer_BeforeTheStart_IsAnsweredAfterIt) {
  auto listener =
      HelloListener::Listen(&host_, {.path = path_.get(), .thread = "test", .who = "the test"});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const UniqueFd early = Connect();
  ASSERT_TRUE(SendMessage(early.get(), MakeMessage(wire::MessageType::kHello, {1})).ok());
  ASSERT_TRUE((*listener)->Start().ok());
  EXPECT_EQ(Answer(early), "");
}

TEST_F(HelloListenerTest, Watched_Socket_EndsWhenItsPeerDoes) {
  Open();
  UniqueFd a = Connect();
  const UniqueFd b = Connect();
  EXPECT_EQ(Greet(a, 1), "");
  EXPECT_EQ(Greet(b, 1), "");
  const UniqueFd other = Connect();  // so that it looks
  ASSERT_TRUE(Eventually([&] { return host_.count == 2; }));
  a.reset();
  EXPECT_TRUE(Eventually([&] { return host_.count == 1; }));
}

TEST_F(HelloListenerTest, SilentPeers_TooMany_TheOldestIsTold) {
  Open();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 65; ++i) silent.push_back(Connect());
  EXPECT_THAT(Answer(silent[0]), HasSubstr("said nothing"));
  EXPECT_EQ(Greet(silent[1], 1), "") << "the others may still speak";
}

TEST_F(HelloListenerTest, SilentPeer_TimeIsOver_IsTold) {
  Open(/*hello_ms=*/1);
  const UniqueFd silent = Connect();
  EXPECT_THAT(Answer(silent), HasSubstr("did not answer in time"));
  EXPECT_TRUE(Eventually([&] { return host_.refused == 1; }));
}

TEST_F(HelloListenerTest, Probe_ConnectsAndLeaves_IsNobody) {
  Open();
  Connect().reset();
  EXPECT_EQ(Greet(Connect(), 1), "");
  EXPECT_EQ(host_.refused, 0);
}

}  // namespace
}  // namespace pulse
