// Who may do what at a server: passwords, users, addresses, and what an agent in front answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <utility>

#include "base/testing.h"
#include "net/director.h"
#include "services/redis/commands/codec.h"
#include "services/redis/test_server.h"

namespace pulse::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using ServerAccessTest = ServerTest;

TEST_F(ServerAccessTest, Password_Required_StrangersRefused) {
  options_.password = "secret";
  Open();
  BlockingClient client(port());
  EXPECT_THAT(client.Ask("get a"), StartsWith("-NOAUTH"));
  EXPECT_THAT(client.Ask("hello 3"), StartsWith("-NOAUTH"));
  EXPECT_THAT(client.Ask("auth nonsense"), StartsWith("-WRONGPASS"));
  EXPECT_THAT(client.Ask("auth default nonsense"), StartsWith("-WRONGPASS"));
  EXPECT_EQ(client.Ask("auth secret"), "+OK\r\n");
  EXPECT_EQ(client.Ask("get a"), "$-1\r\n");
  EXPECT_EQ(client.Ask("reset"), "+RESET\r\n");
  EXPECT_THAT(client.Ask("get a"), StartsWith("-NOAUTH"));
  EXPECT_THAT(client.Ask("hello 3 auth default secret"), StartsWith("%7\r\n"));
  EXPECT_EQ(client.Ask("get a"), "_\r\n");
  BlockingClient stranger(port());
  stranger.Send("*1\r\n$20000\r\n");
  EXPECT_THAT(stranger.Receive(), HasSubstr("unauthenticated bulk length"));
}

// What comes with the password may be as long as what comes after it; with a wrong one it may not.
TEST_F(ServerAccessTest, Auth_PipelinedLargeRequests_AcceptedOnlyIfRight) {
  options_.password = "secret";
  OpenWithAgent();
  std::string many;
  AppendRequest({"mset", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6"}, &many);
  std::string more = many;
  AppendRequest({"set", "long", std::string(20'000, 'v')}, &more);
  const auto ask = [&](BlockingClient* client) {
    client->Send("auth secret\r\n" + more);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client->Receive(), "+OK\r\n");
    client->Send("reset\r\nhello 2 auth default secret\r\n" + more);
    EXPECT_EQ(client->Receive(), "+RESET\r\n");
    EXPECT_THAT(client->Receive(), StartsWith("*14\r\n"));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(client->Receive(), "+OK\r\n");
  };
  BlockingClient client(port());
  ask(&client);
  BlockingClient direct(options_.host_socket);
  ask(&direct);
  // To the host alone, as an agent learns only by and by that there are passwords.
  BlockingClient stranger(options_.host_socket);
  stranger.Send("auth wrong\r\n" + many);
  EXPECT_THAT(stranger.Receive(), StartsWith("-WRONGPASS"));
  EXPECT_THAT(stranger.Receive(), StartsWith("-NOAUTH"));
  stranger.Send("*1\r\n$20000\r\n");
  EXPECT_THAT(stranger.Receive(), HasSubstr("unauthenticated bulk length"));
}

// A web page can have a browser send this.
TEST_F(ServerAccessTest, HttpRequest_AnyListener_ConnectionClosed) {
  OpenWithAgent();
  BlockingClient other(port());
  EXPECT_EQ(other.Ask("set k v"), "+OK\r\n");
  for (const char* head : {"POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"}) {
    for (const bool direct : {false, true}) {
      BlockingClient page = direct ? BlockingClient(options_.host_socket) : BlockingClient(port());
      page.Send(std::string(head) + "\r\nflushall\r\n");
      while (true) {
        const std::string reply = page.Receive();
        if (reply.empty()) break;
        EXPECT_THAT(reply, StartsWith("-"));
      }
    }
  }
  EXPECT_EQ(other.Ask("get k"), "$1\r\nv\r\n");
}

TEST_F(ServerAccessTest, Hello_FailedOption_ChangesNothing) {
  const testing_util::ScratchPath users("serve-users");
  std::ofstream(users.get()) << "user default on >d ~* +@all\nuser a on >a ~* +@read\n"
                                "user b on >b ~* +@all\n";
  options_.users_file = users.get();
  Open();
  BlockingClient client(port());
  EXPECT_THAT(client.Ask("hello 3 auth default d setname \"a b\""), HasSubstr("Client names"));
  EXPECT_THAT(client.Ask("get k"), StartsWith("-NOAUTH"));
  EXPECT_EQ(client.Ask("auth a a"), "+OK\r\n");
  EXPECT_THAT(client.Ask("hello 3 auth b b bad"), HasSubstr("Syntax error in HELLO option 'bad'"));
  EXPECT_THAT(client.Ask("hello 3 setname me auth b wrong"), StartsWith("-WRONGPASS"));
  EXPECT_THAT(client.Ask("set k v"), StartsWith("-NOPERM"));
  EXPECT_EQ(client.Ask("get k"), "$-1\r\n");  // and version 2
  EXPECT_EQ(client.Ask("client getname"), "$-1\r\n");
  EXPECT_THAT(client.Ask("hello 3 auth b b setname me"), StartsWith("%7\r\n"));
  EXPECT_EQ(client.Ask("client getname"), "$2\r\nme\r\n");
  EXPECT_EQ(client.Ask("set k v"), "+OK\r\n");
}

// The agent answers only who the host has let read since it last said who it is, also when that is
// in one pipeline with the read.
TEST_F(ServerAccessTest, AgentInFront_UserMayNotRead_DoesNotAnswer) {
  const testing_util::ScratchPath users("serve-users");
  std::ofstream(users.get()) << "user default on nopass ~* +@write\nuser all on >a ~* +@all\n"
                                "user writer on >w ~* +@write\n";
  options_.users_file = users.get();
  OpenWithAgent();
  ASSERT_NE(server_->agent(), nullptr);
  const uint64_t commands = server_->numbers().commands;
  const auto offloaded = [](BlockingClient* client) {
    EXPECT_EQ(client->Ask("auth all a"), "+OK\r\n");
    const std::string before = client->Ask("info offload");
    const std::string line = before.substr(before.find("offload_reads:"));
    EXPECT_TRUE(testing_util::Eventually([&] {
      EXPECT_EQ(client->Ask("get k"), "$1\r\nv\r\n");
      return client->Ask("info offload").find(line.substr(0, line.find('\r') + 1)) ==
             std::string::npos;
    }));
  };
  BlockingClient client(port());
  EXPECT_EQ(client.Ask("set k v"), "+OK\r\n");
  offloaded(&client);
  BlockingClient stranger(port());
  EXPECT_THAT(stranger.Ask("get k"), StartsWith("-NOPERM"));
  client.Send("auth writer w\r\nget k\r\n");
  EXPECT_EQ(client.Receive(), "+OK\r\n");
  EXPECT_THAT(client.Receive(), StartsWith("-NOPERM"));
  EXPECT_THAT(client.Ask("get k"), StartsWith("-NOPERM"));
  EXPECT_THAT(client.Ask("set k w nx get"), StartsWith("-NOPERM"));
  offloaded(&client);
  client.Send("reset\r\nget k\r\n");
  EXPECT_EQ(client.Receive(), "+RESET\r\n");
  EXPECT_THAT(client.Receive(), StartsWith("-NOPERM"));
  // What the agent answered is not among what the server counts.
  const ServerNumbers numbers = server_->numbers();
  const net::DirectorStats agent = server_->agent()->stats();
  EXPECT_GT(numbers.commands, commands);
  EXPECT_GE(numbers.errors, 4u);
  EXPECT_GE(numbers.connections, 2u);
  EXPECT_GT(numbers.loop_cpu_nanos, 0);
  EXPECT_GE(agent.requests, agent.forwarded + 2);
  EXPECT_EQ(agent.connections, 2u);
}

TEST_F(ServerAccessTest, Open_AnyAddressWithoutPassword_Refused) {
  options_.bind = "0.0.0.0";
  EXPECT_THAT(Server::Open(options_).status().message(), HasSubstr("--insecure"));
  options_.password = "secret";
  Open();
}

TEST_F(ServerAccessTest, Open_AnyAddressAndUserWithoutPassword_Refused) {
  const testing_util::ScratchPath users("serve-users");
  std::ofstream(users.get()) << "user default off\nuser eve off nopass +@all\n"
                                "user bob on nopass +@all\n";
  options_.users_file = users.get();
  options_.bind = "0.0.0.0";
  EXPECT_THAT(Server::Open(options_).status().message(), HasSubstr("user bob may"));
  for (const char* words : {"ON NOPASS +@all", "on >p NoPass +@all", "off reset nopass On"}) {
    std::ofstream(users.get()) << "user default off\nuser bob " << words << "\n";
    EXPECT_THAT(Server::Open(options_).status().message(), HasSubstr("user bob may")) << words;
  }
  options_.bind = "127.0.0.1";
  Open();
}

TEST_F(ServerAccessTest, Acl_TellsOfUsers_OnlyToWhoMayAdminister) {
  testing_util::ScratchPath users("users");
  std::ofstream(users.get()) << "user default on nopass ~* +@read\n"
                             << "user boss on >secret ~* +@all\n"
                             << "user none off #" << std::string(64, 'a') << " +@write\n";
  options_.users_file = users.get();
  Open();
  BlockingClient client(port());
  EXPECT_EQ(client.Ask("acl whoami"), "$7\r\ndefault\r\n");
  for (const char* sub : {"list", "users", "getuser boss", "dryrun boss get a", "setuser x"}) {
    EXPECT_THAT(client.Ask(std::string("acl ") + sub), StartsWith("-NOPERM this user has no"))
        << sub;
  }
  for (const char* sub : {"list", "kill user boss", "kill type normal skipme no"}) {
    EXPECT_THAT(client.Ask(std::string("client ") + sub), StartsWith("-NOPERM this user has no"))
        << sub;
  }
  EXPECT_THAT(client.Ask("client setname " + std::string(1025, 'n')), StartsWith("-ERR"));
  EXPECT_THAT(client.Ask("acl cat"), HasSubstr("keyspace"));
  EXPECT_THAT(client.Ask("acl cat transaction"), HasSubstr("multi"));
  EXPECT_THAT(client.Ask("acl cat odd"), HasSubstr("Unknown category 'odd'"));
  EXPECT_THAT(client.Ask("acl genpass"), StartsWith("$64\r\n"));
  EXPECT_THAT(client.Ask("acl genpass 5"), StartsWith("$2\r\n"));
  EXPECT_THAT(client.Ask("acl genpass 5000"), HasSubstr("up to 4096"));
  EXPECT_EQ(client.Ask("auth boss secret"), "+OK\r\n");
  EXPECT_EQ(client.Ask("acl users"), "*3\r\n$4\r\nboss\r\n$7\r\ndefault\r\n$4\r\nnone\r\n");
  const std::string list = client.Ask("acl list");
  EXPECT_THAT(list, HasSubstr("user default on nopass ~* &* -@all +@connection"));
  EXPECT_THAT(list, HasSubstr("+cluster +@read\r\n"));
  EXPECT_THAT(list, HasSubstr(" ~* &* +@all\r\n"));
  EXPECT_THAT(list, HasSubstr("user none off #" + std::string(64, 'a') + " %W~* &* -@all"));
  EXPECT_THAT(client.Ask("acl getuser none"), HasSubstr(std::string(64, 'a')));
  EXPECT_EQ(client.Ask("acl getuser nobody"), "$-1\r\n");
  EXPECT_EQ(client.Ask("acl dryrun default get a"), "+OK\r\n");
  EXPECT_THAT(client.Ask("acl dryrun default set a 1"), HasSubstr("has no permissions to run the"));
  EXPECT_THAT(client.Ask("acl dryrun nobody get a"), HasSubstr("User 'nobody' not found"));
  EXPECT_THAT(client.Ask("acl dryrun default fly"), HasSubstr("Command 'fly' not found"));
  EXPECT_THAT(client.Ask("acl dryrun default get"), HasSubstr("wrong number of arguments"));
  // An agent may come to the socket for agents.
  EXPECT_THAT(client.Ask("acl setuser x on"), HasSubstr("knows the users of the start"));
}

TEST_F(ServerTest, ClientKill_OfOneWithWork_NothingMoreIsCarriedOut) {
  Open();
  BlockingClient victim(port());
  const std::string id = victim.Ask("client id");
  std::string requests;
  for (int i = 0; i < 20'000; ++i) requests += "incr n\r\nkeys none*\r\n";
  victim.Send(requests);
  BlockingClient other(port());
  while (other.Ask("get n") == "$-1\r\n") {
  }
  EXPECT_EQ(other.Ask("client kill id " + id.substr(1, id.size() - 3)), ":1\r\n");
  // What was under way then may still be carried out, and nothing behind it.
  std::string n;
  EXPECT_TRUE(testing_util::Eventually(
      [&] {
        const std::string before = std::exchange(n, other.Ask("get n"));
        return n == before;
      },
      std::chrono::milliseconds(20)));
  EXPECT_NE(n, "$5\r\n20000\r\n");
}

}  // namespace
}  // namespace pulse::redis
