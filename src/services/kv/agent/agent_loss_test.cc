// What a host or an agent leaves behind when it is lost, and what its clients learn of that.
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/kv/agent/test_agent.h"

namespace pulse::kv {
namespace {

using testing_util::Eventually;

TEST_F(AgentTest, NoHostYet_ClientsGetErrors_UntilItIsThere) {
  front_options_.host = socket_.get();
  OpenAgent();
  Client client(agent_port());
  EXPECT_EQ(client.Ask("GET k").substr(0, 8), "-LOADING");
  Client memcached(agent_port());
  memcached.Send("get k\r\n");
  EXPECT_EQ(memcached.ReadUntil("\r\n").substr(0, 12), "SERVER_ERROR");
  OpenHost();
  WaitForLanes();
  EXPECT_EQ(client.Ask("SET k v"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET k"), Bulk("v"));
  memcached.Send("get k\r\n");
  EXPECT_EQ(memcached.ReadUntil("END\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
}

TEST_F(AgentTest, HostLost_ClientsStay_AndTheirStateIsRepeated) {
  options_.password = "secret";
  OpenHost();
  OpenAgent();
  Client client(agent_port());
  EXPECT_EQ(client.Ask("AUTH secret"), "+OK\r\n");
  EXPECT_EQ(client.Ask("HELLO 3").substr(0, 1), "%");
  // Again: this one is repeated before HELLO, too, which needs it.
  EXPECT_EQ(client.Ask("AUTH secret"), "+OK\r\n");
  EXPECT_EQ(client.Ask("CLIENT SETNAME first"), "+OK\r\n");
  EXPECT_EQ(client.Ask("CLIENT SETNAME me"), "+OK\r\n");
  EXPECT_EQ(client.Ask("SET k v"), "+OK\r\n");
  Client stranger(agent_port());
  EXPECT_EQ(stranger.Ask("GET k").substr(0, 7), "-NOAUTH");
  LoseHost();
  EXPECT_EQ(client.Ask("GET k").substr(0, 8), "-LOADING");
  EXPECT_EQ(client.Ask("GET k").substr(0, 8), "-LOADING");
  BringHostBack();
  EXPECT_EQ(client.Ask("GET k"), Bulk("v"));
  EXPECT_EQ(client.Ask("GET none"), "_\r\n");
  EXPECT_EQ(client.Ask("CLIENT GETNAME"), Bulk("me"));
  EXPECT_EQ(stranger.Ask("GET k").substr(0, 7), "-NOAUTH");
  EXPECT_EQ(front_->counters().lost, 1u);
}

TEST_F(AgentTest, HostLost_EndsClientsThatTrackOrHaveNoReplies_AndNobodyElse) {
  OpenHost();
  OpenAgent();
  const auto open = [&](const std::vector<std::string>& lines) {
    auto client = std::make_unique<Client>(agent_port());
    for (const std::string& line : lines) client->Send(line + "\r\n");
    client->Send("GET k\r\n");
    return client;
  };
  const auto tracking = open({"CLIENT TRACKING ON"});
  const auto subscribed = open({"SUBSCRIBE __redis__:invalidate"});
  const auto silent = open({"CLIENT REPLY OFF"});
  const auto not_any_more = open({"CLIENT TRACKING ON", "CLIENT TRACKING OFF", "CLIENT REPLY SKIP",
                                  "PING", "CLIENT REPLY ON"});
  const auto reset = open({"CLIENT TRACKING ON", "CLIENT REPLY SKIP", "PING", "RESET"});
  const auto refused = open({"CLIENT TRACKING ON REDIRECT 9", "SUBSCRIBE other", "CLIENT REPLY x",
                             "WATCH", "CLIENT TRACKING x"});
  EXPECT_EQ(tracking->Receive(), "+OK\r\n");
  EXPECT_EQ(tracking->Receive(), "$-1\r\n");
  EXPECT_EQ(subscribed->Receive().substr(0, 2), "*3");
  EXPECT_EQ(subscribed->Receive().substr(0, 4), "-ERR");
  for (const char* reply : {"+OK\r\n", "+OK\r\n", "+OK\r\n", "$-1\r\n"}) {
    EXPECT_EQ(not_any_more->Receive(), reply);
  }
  for (const char* reply : {"+OK\r\n", "+RESET\r\n", "$-1\r\n"}) {
    EXPECT_EQ(reset->Receive(), reply);
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(refused->Receive().substr(0, 4), "-ERR");
  EXPECT_EQ(refused->Receive(), "$-1\r\n");
  ASSERT_TRUE(Eventually([&] { return host_->numbers().requests >= 28; }));
  LoseHost();
  EXPECT_EQ(tracking->ReadAll().substr(0, 22), "-ERR the host was lost");
  EXPECT_EQ(subscribed->ReadAll().substr(0, 22), "-ERR the host was lost");
  EXPECT_EQ(silent->ReadAll(), "");
  BringHostBack();
  EXPECT_EQ(not_any_more->Ask("GET k"), "$-1\r\n");
  EXPECT_EQ(reset->Ask("GET k"), "$-1\r\n");
  EXPECT_EQ(refused->Ask("GET k"), "$-1\r\n");
}

TEST_F(AgentTest, HostLostDuringATransaction_EndsItsClient_AndNobodyElse) {
  OpenHost();
  OpenAgent();
  Client idle(agent_port());
  EXPECT_EQ(idle.Ask("PING"), "+PONG\r\n");
  Client within(agent_port());
  EXPECT_EQ(within.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(within.Ask("SET k 1"), "+QUEUED\r\n");
  Client watching(agent_port());
  EXPECT_EQ(watching.Ask("WATCH k"), "+OK\r\n");
  Client done(agent_port());
  EXPECT_EQ(done.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(done.Ask("EXEC"), "*0\r\n");
  LoseHost();
  EXPECT_EQ(within.ReadAll(), "-ERR the host was lost during a transaction\r\n");
  EXPECT_EQ(watching.ReadAll(), "-ERR the host was lost during a transaction\r\n");
  BringHostBack();
  EXPECT_EQ(idle.Ask("PING"), "+PONG\r\n");
  EXPECT_EQ(done.Ask("GET k"), "$-1\r\n");
}

TEST_F(AgentTest, RequestsUnderWay_WhenTheHostIsLost_AreAnsweredOnce) {
  OpenHost();
  OpenAgent();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> good{0}, unknown{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Client client(agent_port());
      for (uint64_t i = 0; !stop.load(); ++i) {
        std::string bytes;
        for (int n = 0; n < 20; ++n) {
          bytes += Array({"SET", absl::StrCat(t), absl::StrCat(i * 20 + static_cast<uint64_t>(n))});
        }
        client.Send(bytes);
        for (int n = 0; n < 20; ++n) {
          const std::string reply = client.Receive();
          if (reply == "+OK\r\n") {
            ++good;
          } else if (reply.starts_with("-ERR the host was lost")) {
            ++unknown;
          } else {
            EXPECT_EQ(reply.substr(0, 8), "-LOADING") << reply;
            ++refused;
          }
        }
      }
      EXPECT_EQ(client.Ask("PING"), "+PONG\r\n");
    });
  }
  for (int round = 0; round < 10; ++round) {
    const uint64_t before = good.load();
    EXPECT_TRUE(Eventually([&] { return good.load() > before + 100; }));
    LoseHost();
    BringHostBack();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(good.load(), 0u);
}

TEST_F(AgentTest, AgentLost_ItsSessionsGo_AndAnotherOneAttaches) {
  OpenHost();
  OpenAgent();
  Client client(agent_port());
  EXPECT_EQ(client.Ask("SET k v"), "+OK\r\n");
  EXPECT_EQ(client.Ask("WATCH k"), "+OK\r\n");
  EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
  // Half of a request.
  client.Send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nxxx");
  Client own(port());
  EXPECT_EQ(own.Ask("PING"), "+PONG\r\n");
  front_.reset();
  EXPECT_TRUE(
      Eventually([&] { return host_->numbers().loops == 0 && host_->numbers().clients == 0; }));
  EXPECT_EQ(own.Ask("GET k"), Bulk("v"));
  const std::string list = own.Ask("CLIENT LIST");
  EXPECT_EQ(std::count(list.begin(), list.end(), '\n'), 3) << list;  // a bulk of one line
  OpenAgent();
  EXPECT_EQ(Client(agent_port()).Ask("GET k"), Bulk("v"));
}

}  // namespace
}  // namespace pulse::kv
