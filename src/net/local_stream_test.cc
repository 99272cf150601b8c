// A host in the same process: what a director in front of it sees is what it sees of a socket.
#include "net/local_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "net/test_director.h"

namespace pulse::net::test {
namespace {

using testing_util::Eventually;
using testing_util::TestSeed;

// Answers lines as TestHost does; "n:K..." by K lines of `long_line` bytes. Holds its answers back
// while `frozen`, and hangs up at "hbye" and by HangUp, for which there is one connection.
class LocalHost : public Application {
 public:
  std::unique_ptr<Flow> NewFlow(Connection* connection) override;
  void HangUp() {
    const std::lock_guard lock(mutex_);
    remote_->Post([c = connection_] { c->Close(""); });
  }
  std::atomic<size_t> long_line{0};
  std::atomic<bool> frozen{false};
  std::atomic<uint64_t> lines{0};
  std::atomic<int> flows{0};

 private:
  std::mutex mutex_;
  Connection* connection_ = nullptr;  // the newest
  std::shared_ptr<Remote> remote_;
};

class LocalHostFlow : public Flow {
 public:
  LocalHostFlow(LocalHost* host, Connection* connection) : host_(host), connection_(connection) {
    ++host_->flows;
  }
  ~LocalHostFlow() override { --host_->flows; }
  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    const size_t end = bytes.find('\n');
    return end == std::string_view::npos ? 0 : end + 1;
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override { return bytes.size(); }
  void OnRequest(Ticket ticket, std::string_view bytes) override {
    const std::string line(bytes.substr(0, bytes.size() - 1));
    if (line == "hello") {
      connection_->Reply(ticket, "+preface\n");
      return;
    }
    ++host_->lines;
    if (line == "hbye") {
      connection_->Close("");
      return;
    }
    if (host_->frozen) return;  // as long as the connection lasts
    std::string answer;
    const int n = line[0] == 'n' ? line[2] - '0' : line[0] == 'o' ? 0 : 1;
    for (int i = 0; i < n; ++i) {
      absl::StrAppend(&answer, "host", line, std::string(host_->long_line, 'x'), "\n");
    }
    connection_->Reply(ticket, answer);
  }
  std::string OnHostLost(Ticket, bool) override { return ""; }
  std::string ErrorReply(const absl::Status& error) override {
    return absl::StrCat("-", error.message(), "\n");
  }

 private:
  LocalHost* const host_;
  Connection* const connection_;
};

std::unique_ptr<Flow> LocalHost::NewFlow(Connection* connection) {
  const std::lock_guard lock(mutex_);
  connection_ = connection;
  remote_ = connection->remote();
  return std::make_unique<LocalHostFlow>(this, connection);
}

class LocalStreamTest : public DirectorTest {
 protected:
  void OpenBoth() {
    behind_.application = &local_;
    behind_.limits.slow_ms = 0;
    app_.preface = preface_;
    auto host = Director::Open(behind_);
    ASSERT_TRUE(host.ok()) << host.status();
    behind_director_ = *std::move(host);
    options_.local_host = behind_director_->local_port();
    Open();
  }

  std::string preface_ = "hello\n";
  LocalHost local_;
  DirectorOptions behind_;
  std::unique_ptr<Director> behind_director_;
};

TEST_P(LocalStreamTest, RequestsAndReplies_SeveralClients_PassInOrder) {
  options_.threads = 2;
  if (TestSeed() % 2 == 0) preface_.clear();
  OpenBoth();
  std::vector<std::thread> clients;
  for (uint64_t c = 0; c < 8; ++c) {
    clients.emplace_back([this, c, seed = TestSeed() + c] {
      std::mt19937_64 random(seed);
      TestClient client(director_->port());
      for (int round = 0; round < 30; ++round) {
        std::string bytes;
        std::vector<std::string> answers;
        for (uint64_t i = random() % 40; i < 40; ++i) {
          const std::string line =
              absl::StrCat(i % 3 == 0   ? "a"
                           : i % 7 == 0 ? "o"
                                        : "h",
                           c, ".", round, ".", i, std::string(random() % 300, 'y'));
          absl::StrAppend(&bytes, line, "\n");
          if (line[0] != 'o') answers.push_back((line[0] == 'a' ? "agent" : "host") + line);
        }
        ASSERT_TRUE(client.Send(bytes));
        for (const std::string& answer : answers) ASSERT_EQ(client.Line(), answer);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(director_->stats().host_connections, 8u);
  EXPECT_EQ(behind_director_->stats().accepted, 8u);
  EXPECT_TRUE(Empty());
  EXPECT_TRUE(Eventually([&] { return behind_director_->stats().connections == 0; }));
  EXPECT_EQ(local_.flows, 0);
}

// More than there is room for on the way, and in the front's limit.
TEST_P(LocalStreamTest, RequestsAndReplies_LargerThanTheRoom_WaitForIt) {
  options_.limits.connection_bytes = 100'000;
  OpenBoth();
  local_.long_line = 150'000;
  TestClient client(director_->port());
  std::thread sender([&] {
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(client.Send(absl::StrCat("n:9", i, std::string(200'000, 'y'), "\n")));
    }
  });
  const size_t length = 4 + 3 + 200'000 + 150'000;
  for (int i = 0; i < 20 * 9; ++i) {
    const std::string line = client.Line();
    const std::string begin = absl::StrCat("hostn:9", i / 9, "y");
    ASSERT_TRUE(absl::StartsWith(line, begin)) << line.substr(0, 30);
    ASSERT_EQ(line.size(), length + (i / 9 > 9 ? 2 : 1));
  }
  sender.join();
}

TEST_P(LocalStreamTest, Client_Leaves_EndsItsConnectionToTheHost) {
  OpenBoth();
  local_.long_line = 200'000;
  for (int i = 0; i < 30; ++i) {
    TestClient client(director_->port());
    ASSERT_TRUE(client.Send("n:9\nn:9\nn:9\n"));
    if (i % 3 == 0) {
      ASSERT_NE(client.Line(), "EOF");
    }
    if (i % 2 == 0) client.Reset();
  }
  EXPECT_TRUE(Empty());
  EXPECT_TRUE(Eventually([&] { return local_.flows == 0; }));
}

TEST_P(LocalStreamTest, Host_HangsUp_IsConnectedToAgain) {
  OpenBoth();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("h1"), "hosth1");
  EXPECT_EQ(client.Ask("hbye"), "-lost sent");
  EXPECT_EQ(client.Ask("h2"), "hosth2");
  EXPECT_EQ(client.Ask("a3"), "agenta3");
  EXPECT_EQ(director_->stats().host_connections, 2u);
}

// The host's end and the next request come in one turn.
TEST_P(LocalStreamTest, Request_AsTheHostEnds_GoesToTheNextConnection) {
  OpenBoth();
  TestClient client(director_->port());
  ASSERT_NO_FATAL_FAILURE(InOneTurn(&client, "w\np2\n", [&] {
    local_.HangUp();
    ASSERT_TRUE(Eventually([&] { return local_.flows == 0; }));
  }));
  EXPECT_EQ(client.Line(), "hostp2");
  const std::lock_guard lock(app_.host_calls_mutex);
  EXPECT_EQ(app_.host_calls, "PCP");
}

TEST_P(LocalStreamTest, Request_HostEndsAndFlowCloses_IsNotSent) {
  app_.close_with_host = true;
  OpenBoth();
  TestClient client(director_->port());
  ASSERT_NO_FATAL_FAILURE(InOneTurn(&client, "w\np2\n", [&] {
    local_.HangUp();
    ASSERT_TRUE(Eventually([&] { return local_.flows == 0; }));
  }));
  EXPECT_EQ(client.Line(), "-closed");
  EXPECT_EQ(client.Line(), "EOF");
  client.EndSending();
  EXPECT_TRUE(Empty());
  EXPECT_EQ(TestClient(director_->port()).Ask("h4"), "hosth4");
  EXPECT_EQ(local_.lines, 2u);
}

TEST_P(LocalStreamTest, Client_HalfClosed_GetsOutstandingReplies) {
  OpenBoth();
  local_.long_line = 100'000;
  TestClient client(director_->port());
  ASSERT_TRUE(client.Send("n:9\na2\no3\n"));
  client.EndSending();
  for (int i = 0; i < 9; ++i) EXPECT_EQ(client.Line().size(), 7u + 100'000);
  EXPECT_EQ(client.Line(), "agenta2");
  EXPECT_EQ(client.Line(), "EOF");
  EXPECT_TRUE(Eventually([&] { return local_.lines == 2; }));
}

// As from a listener that is closed: nothing is sent, and it is not tried again and again.
TEST_P(LocalStreamTest, Host_Draining_TakesNoConnection) {
  behind_.limits.drain_ms = 1'000;
  preface_.clear();
  OpenBoth();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("h1"), "hosth1");
  local_.frozen = true;
  ASSERT_TRUE(client.Send("h2\n"));  // is not answered, and so drained for
  EXPECT_TRUE(Eventually([&] { return local_.lines == 2; }));
  local_.frozen = false;
  std::thread stops([&] { behind_director_->Stop(); });
  std::string answer;
  int sent = 0;
  EXPECT_TRUE(Eventually([&] {
    answer = TestClient(director_->port()).Ask("h3");
    sent += answer == "-lost sent" ? 1 : 0;
    return answer == "-lost unsent";
  }));
  EXPECT_LE(sent, 1);  // that had connected as it stopped
  stops.join();
  EXPECT_EQ(client.Line(), "-lost sent");
}

TEST_P(LocalStreamTest, Host_Stopped_ItsRequestsAreReportedLost) {
  behind_.limits.drain_ms = 20;
  OpenBoth();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("h1"), "hosth1");
  local_.frozen = true;
  ASSERT_TRUE(client.Send("h2\na3\n"));
  EXPECT_TRUE(Eventually([&] { return local_.lines == 2; }));
  behind_director_->Stop();
  EXPECT_EQ(client.Line(), "-lost sent");
  EXPECT_EQ(client.Line(), "agenta3");
  EXPECT_EQ(client.Ask("h4"), "-lost unsent");
  EXPECT_EQ(client.Ask("a5"), "agenta5");
  behind_director_.reset();
  EXPECT_EQ(client.Ask("h6"), "-lost unsent");
  TestClient another(director_->port());
  EXPECT_EQ(another.Ask("h7"), "-lost unsent");
}

TEST_P(LocalStreamTest, Host_AtItsConnectionLimit_RefusesUntilOneLeaves) {
  behind_.limits.connections = 2;
  OpenBoth();
  TestClient first(director_->port());
  TestClient second(director_->port());
  EXPECT_EQ(first.Ask("h1"), "hosth1");
  EXPECT_EQ(second.Ask("h1"), "hosth1");
  TestClient third(director_->port());
  EXPECT_EQ(third.Ask("h1"), "-lost unsent");
  EXPECT_EQ(first.Ask("h2"), "hosth2");
  EXPECT_EQ(behind_director_->stats().refused, 1u);
  first.Reset();
  EXPECT_TRUE(Eventually([&] { return third.Ask("h3") == "hosth3"; }));
}

TEST_P(LocalStreamTest, Requests_HostStopsMeanwhile_AreAnsweredOrReportedLost) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> answered{0};
    std::atomic<int> lost{0};
    behind_.limits.drain_ms = 10;
    options_.limits.drain_ms = 10;
    OpenBoth();
    std::atomic<bool> stop{false};
    std::vector<std::thread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([&] {
        while (!stop) {
          TestClient client(director_->port());
          for (int i = 0; i < 5; ++i) {
            const std::string answer = client.Ask("h1");
            ASSERT_TRUE(answer == "hosth1" || absl::StartsWith(answer, "-lost")) << answer;
            ++(answer == "hosth1" ? answered : lost);
          }
        }
      });
    }
    testing_util::RandomPause(&random, std::chrono::milliseconds(5));
    if (round % 2 == 0) {
      EXPECT_TRUE(Eventually([&] { return answered > 0; }));
    }
    behind_director_->Stop();
    EXPECT_TRUE(Eventually([&] { return lost > 0; }));
    stop = true;
    for (std::thread& client : clients) client.join();
    director_.reset();
    behind_director_.reset();
    EXPECT_EQ(local_.flows, 0);
  }
}

PULSE_SLEEPING_AND_SPINNING(LocalStreamTest);

}  // namespace
}  // namespace pulse::net::test
