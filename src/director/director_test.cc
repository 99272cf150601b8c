#include "director/director.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "director/test_application.h"

namespace pulse::director {
namespace {

using test::LineApplication;
using test::TestClient;
using test::TestHost;
using testing_util::Eventually;
using testing_util::TestSeed;

class DirectorTest : public ::testing::TestWithParam<NetKind> {
 protected:
  void Open() {
    options_.application = &app_;
    options_.net = GetParam();
    auto director = Director::Open(options_);
    ASSERT_TRUE(director.ok()) << director.status();
    director_ = *std::move(director);
    EXPECT_EQ(director_->net(), GetParam());
  }
  void OpenWithHost() {
    host_ = std::make_unique<TestHost>();
    options_.host = host_->address();
    Open();
  }
  // A random mixture of requests, and the answers in order.
  std::pair<std::string, std::vector<std::string>> Mixture(std::mt19937_64* random, int n) {
    std::string bytes;
    std::vector<std::string> answers;
    for (int i = 0; i < n; ++i) {
      const std::string tail = absl::StrCat(i, std::string((*random)() % 40, 'x'));
      switch ((*random)() % 6) {
        case 0:
          absl::StrAppend(&bytes, "a", tail, "\n");
          answers.push_back(absl::StrCat("agenta", tail));
          break;
        case 1:
          absl::StrAppend(&bytes, "l", tail, "\n");
          answers.push_back(absl::StrCat("latel", tail));
          break;
        case 2:
          absl::StrAppend(&bytes, "b", tail, "\n");
          answers.push_back(absl::StrCat("agentb", tail));
          break;
        case 3:
          absl::StrAppend(&bytes, "n:3", tail, "\n");
          for (int k = 0; k < 3; ++k) answers.push_back(absl::StrCat("hostn:3", tail));
          break;
        case 4:
          absl::StrAppend(&bytes, "o", tail, "\n");
          break;
        default:
          absl::StrAppend(&bytes, "h", tail, "\n");
          answers.push_back(absl::StrCat("hosth", tail));
      }
    }
    return {bytes, answers};
  }

  LineApplication app_{TestSeed()};
  std::unique_ptr<TestHost> host_;
  DirectorOptions options_;
  std::unique_ptr<Director> director_;
};

TEST_P(DirectorTest, AServerAnswersWithoutAHost) {
  Open();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("a1"), "agenta1");
  EXPECT_EQ(client.Ask("b2"), "agentb2");
  EXPECT_EQ(client.Ask("l3"), "latel3");
  EXPECT_EQ(client.Ask("h4"), "-lost unsent");
}

TEST_P(DirectorTest, RepliesKeepTheOrderOfRandomPipelines) {
  OpenWithHost();
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 10; ++round) {
    TestClient client(director_->port());
    const auto [bytes, answers] = Mixture(&random, 500);
    std::thread sender([&, b = bytes] { EXPECT_TRUE(client.Send(b)); });
    for (const std::string& answer : answers) {
      const std::string line = client.Line();
      EXPECT_EQ(line, answer);
      if (line != answer) break;
    }
    sender.join();
  }
  EXPECT_EQ(director_->stats().requests, 5000u);
}

TEST_P(DirectorTest, AHalfClosedClientGetsWhatIsOutstanding) {
  OpenWithHost();
  TestClient client(director_->port());
  ASSERT_TRUE(client.Send("l1\nh2\na3\nincomplete"));
  client.EndSending();
  EXPECT_EQ(client.Line(), "latel1");
  EXPECT_EQ(client.Line(), "hosth2");
  EXPECT_EQ(client.Line(), "agenta3");
  EXPECT_EQ(client.Line(), "EOF");
  EXPECT_TRUE(Eventually([&] { return director_->stats().connections == 0; }));
  EXPECT_EQ(app_.flows, 0);
}

INSTANTIATE_TEST_SUITE_P(Nets, DirectorTest, ::testing::Values(NetKind::kEpoll, NetKind::kUring),
                         [](const auto& tested) {
                           return std::string(NetKindName(tested.param)) == "epoll" ? "epoll"
                                                                                    : "io_uring";
                         });

}  // namespace
}  // namespace pulse::director
