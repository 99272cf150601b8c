// The server by its sockets: order, fences, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/testing.h"
#include "services/redis/commands/codec.h"
#include "services/redis/commands/command_suite.h"
#include "services/redis/commands/commands.h"
#include "services/redis/open_database.h"
#include "services/redis/test_server.h"

namespace pulse::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Commands that answer at once and commands that wait are mixed; replies come in their order, and
// each command sees what those before it have done.
TEST_F(ServerTest, Pipeline_MixedCommands_RepliesInOrder) {
  options_.threads = 2;
  Open();
  const uint64_t seed = testing_util::TestSeed();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(t));
      BlockingClient client(port());
      const std::string me = "k" + std::to_string(t);
      int64_t value = 0;
      for (int round = 0; round < 100; ++round) {
        std::string requests;
        std::vector<std::string> expected;
        const size_t count = 1 + random() % 40;
        for (size_t i = 0; i < count; ++i) {
          const std::string text = std::to_string(value);
          switch (random() % 6) {
            case 0:
              value = static_cast<int64_t>(random() % 1000);
              requests += "set " + me + " " + std::to_string(value) + "\r\n";
              expected.push_back("+OK\r\n");
              break;
            case 1:
              requests += "incr " + me + "\r\n";
              expected.push_back(":" + std::to_string(++value) + "\r\n");
              break;
            case 2:  // waits
              requests += "keys " + me + "\r\n";
              expected.push_back("*1\r\n$2\r\n" + me + "\r\n");
              break;
            case 3:
              requests += "multi\r\nincrby " + me + " 2\r\nexec\r\n";
              value += 2;
              expected.insert(expected.end(), {"+OK\r\n", "+QUEUED\r\n",
                                               "*1\r\n:" + std::to_string(value) + "\r\n"});
              break;
            case 4:
              requests += "\r\n";  // no reply
              break;
            default:
              requests += "get " + me + "\r\n";
              expected.push_back("$" + std::to_string(text.size()) + "\r\n" + text + "\r\n");
          }
          if (round == 0 && i == 0) {
            requests = "set " + me + " 0\r\n";
            expected = {"+OK\r\n"};
            value = 0;
          }
        }
        client.Send(requests);
        for (const std::string& reply : expected) ASSERT_EQ(client.Receive(), reply);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(ServerTest, BadRequest_OneClient_EndsOnlyItsConnection) {
  options_.limits.max_bulk = 1 << 20;
  Open();
  BlockingClient other(port());
  EXPECT_EQ(other.Ask("set a 1"), "+OK\r\n");
  for (const char* bad : {"*1\r\n$-5\r\n", "*x\r\n", "*1\r\n$1048577\r\n", "set 'a\r\n"}) {
    BlockingClient client(port());
    client.Send(std::string("get a\r\n") + bad);
    EXPECT_EQ(client.Receive(), "$1\r\n1\r\n");
    EXPECT_THAT(client.Receive(), StartsWith("-ERR Protocol error: "));
    EXPECT_EQ(client.Receive(), "");
  }
  EXPECT_EQ(other.Ask("get a"), "$1\r\n1\r\n");
}

TEST_F(ServerTest, HalfClose_CommandsQueued_AllAnswered) {
  Open();
  BlockingClient client(port());
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += "append a x\r\nkeys a\r\n";
  client.Send(requests + "strlen a\r\n");
  client.ShutDown();
  std::string last;
  for (std::string reply = client.Receive(); !reply.empty(); reply = client.Receive()) last = reply;
  EXPECT_EQ(last, ":500\r\n");
}

// A client that asks for much and reads nothing costs what the limits say, and nothing is lost.
TEST_F(ServerTest, Client_DoesNotRead_MemoryBounded) {
  Open();
  BlockingClient client(port());
  const std::string value(1 << 20, 'v');
  std::string set;
  AppendRequest({"set", "large", value}, &set);
  client.Send(set);
  ASSERT_EQ(client.Receive(), "+OK\r\n");
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += "get large\r\n";
  client.Send(requests);
  BlockingClient other(port());
  EXPECT_EQ(other.Ask("ping"), "+PONG\r\n");
  EXPECT_TRUE(testing_util::Eventually([&] { return server_->numbers().held_bytes > 0; }));
  uint64_t most = 0;
  testing_util::SettledValue(
      [&] {
        const uint64_t held = server_->numbers().held_bytes;
        most = std::max(most, held);
        return held;
      },
      100);
  EXPECT_LT(most, uint64_t{16} << 20);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(client.Receive().size(), value.size() + 12) << i;
}

// Large requests behind one that waits for the client are not read until there is room for them:
// here behind replies that it does not take, each large enough that they are made one by one.
TEST_F(ServerTest, Requests_BehindUnreadReplies_MemoryBounded) {
  Open();
  BlockingClient client(options_.host_socket);  // little room in the sockets' buffers
  const std::string value(300 << 10, 'v');
  std::string set;
  AppendRequest({"set", "large", value}, &set);
  client.Send(set);
  ASSERT_EQ(client.Receive(), "+OK\r\n");
  constexpr int kSlow = 20;
  constexpr int kLarge = 256;
  std::string slow;
  for (int i = 0; i < kSlow; ++i) slow += "getrange large 0 -1\r\n";
  client.Send(slow);
  std::string large;
  AppendRequest({"set", "large", std::string(256 << 10, 'w'), "nx"}, &large);
  AppendRequest({"incr", "n"}, &large);
  std::atomic<int> sent{0};
  std::thread sender([&] {
    for (int i = 0; i < kLarge; ++i) {
      client.Send(large);
      sent.fetch_add(1);
    }
  });
  // What waits is counted, and stays where it is.
  EXPECT_TRUE(testing_util::Eventually(
      [&] { return server_->numbers().held_bytes > (uint64_t{1} << 20); }));
  EXPECT_LT(testing_util::SettledValue([&] { return sent.load(); }, 50), kLarge);
  EXPECT_LT(server_->numbers().held_bytes, uint64_t{16} << 20);
  int wrong = 0;
  for (int i = 0; i < kSlow; ++i) wrong += client.Receive().size() != value.size() + 11;
  for (int i = 1; i <= kLarge; ++i) {
    wrong += client.Receive() != "$-1\r\n";
    wrong += client.Receive() != ":" + std::to_string(i) + "\r\n";
  }
  EXPECT_EQ(wrong, 0);
  sender.join();
  EXPECT_TRUE(testing_util::Eventually(
      [&] { return server_->numbers().held_bytes < (uint64_t{1} << 20); }));
}

// Nobody has to send an EXEC: what is kept until then has limits, and is free when its client is
// gone.
TEST_F(ServerTest, Multi_NeverExecuted_MemoryBounded) {
  Open();
  std::string large = "multi\r\n";
  AppendRequest({"set", "k", std::string(31 << 20, 'v')}, &large);
  AppendRequest({"set", "k", std::string(31 << 20, 'v')}, &large);
  const auto hoard = [&](BlockingClient* client) {
    client->Send(large);
    EXPECT_EQ(client->Receive(), "+OK\r\n");
    int queued = 0;
    for (int i = 0; i < 2; ++i) {
      const std::string reply = client->Receive();
      if (reply == "+QUEUED\r\n") {
        ++queued;
      } else {
        EXPECT_THAT(reply, HasSubstr("hold too many bytes"));
      }
    }
    return queued;
  };
  std::vector<std::unique_ptr<BlockingClient>> clients;
  int queued = 0;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<BlockingClient>(port()));
    queued += hoard(clients.back().get());
  }
  // Of 31 MiB, in 256; a transaction that lacks one keeps none.
  EXPECT_EQ(queued, 8 + 2);
  EXPECT_THAT(clients.back()->Ask("exec"), StartsWith("-EXECABORT"));
  // Small ones go on.
  EXPECT_EQ(clients.back()->Ask("watch k"), "+OK\r\n");
  EXPECT_EQ(clients.back()->Ask("multi"), "+OK\r\n");
  EXPECT_EQ(clients.back()->Ask("set k v"), "+QUEUED\r\n");
  EXPECT_EQ(clients.back()->Ask("exec"), "*1\r\n+OK\r\n");
  clients.erase(clients.begin(), clients.begin() + 2);
  EXPECT_TRUE(testing_util::Eventually([&] {
    BlockingClient client(port());
    return hoard(&client) == 2;
  }));
}

TEST_F(ServerTest, Watch_TooManyKeys_Refused) {
  Open();
  BlockingClient client(port());
  const auto watch = [&](size_t first, size_t count) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back("k" + std::to_string(first + i));
    std::vector<std::string_view> arguments = {"watch"};
    arguments.insert(arguments.end(), keys.begin(), keys.end());
    std::string request;
    AppendRequest(arguments, &request);
    client.Send(request);
    return client.Receive();
  };
  EXPECT_EQ(watch(0, 9'999), "+OK\r\n");
  EXPECT_EQ(watch(10'000, 1), "+OK\r\n");
  EXPECT_THAT(watch(20'000, 1), HasSubstr("more than 10000 watched keys"));
  BlockingClient other(port());
  EXPECT_EQ(other.Ask("set k7 v"), "+OK\r\n");
  EXPECT_EQ(client.Ask("multi"), "+OK\r\n");
  EXPECT_EQ(client.Ask("exec"), "*-1\r\n");
  EXPECT_EQ(watch(0, 10'000), "+OK\r\n");
  EXPECT_EQ(client.Ask("unwatch"), "+OK\r\n");
  EXPECT_THAT(client.Ask("info stats"), HasSubstr("watched_keys:0\r\n"));
}

TEST_F(ServerTest, Transactions_TwoConnections_AreIndependent) {
  Open();
  BlockingClient a(port());
  BlockingClient b(port());
  EXPECT_EQ(a.Ask("exec"), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(a.Ask("watch k"), "+OK\r\n");
  EXPECT_EQ(b.Ask("set k b"), "+OK\r\n");
  EXPECT_EQ(a.Ask("multi"), "+OK\r\n");
  EXPECT_EQ(a.Ask("multi"), "-ERR MULTI calls can not be nested\r\n");
  EXPECT_EQ(a.Ask("set k a"), "+QUEUED\r\n");
  EXPECT_EQ(a.Ask("exec"), "*-1\r\n");
  EXPECT_EQ(a.Ask("multi"), "+OK\r\n");
  EXPECT_THAT(a.Ask("nonsense"), StartsWith("-ERR unknown command 'nonsense'"));
  EXPECT_THAT(a.Ask("exec"), StartsWith("-EXECABORT"));
  EXPECT_EQ(a.Ask("multi"), "+OK\r\n");
  EXPECT_EQ(a.Ask("client setname me"), "+QUEUED\r\n");
  EXPECT_EQ(a.Ask("discard"), "+OK\r\n");
  EXPECT_EQ(a.Ask("client getname"), "$-1\r\n");
  EXPECT_EQ(a.Ask("get k"), "$1\r\nb\r\n");
}

TEST_F(ServerTest, Fence_ConnectionsWithWork_WaitsForTheirEnd) {
  options_.password = "secret";
  Open();
  BlockingClient stranger(port());
  EXPECT_THAT(stranger.Ask("pulse.fence a"), HasSubstr("unknown command"));
  BlockingClient fence(options_.host_socket);
  const std::string digest = " " + CommandsDigest();
  const std::string run_id = fence.Ask("pulse.fence a" + digest);
  EXPECT_EQ(run_id.size(), 5u + 40 + 2);
  BlockingClient mine(options_.host_socket);
  EXPECT_EQ(mine.Ask("pulse.hello a" + digest), run_id);
  EXPECT_EQ(mine.Ask("auth secret"), "+OK\r\n");
  BlockingClient another(options_.host_socket);
  EXPECT_EQ(another.Ask("pulse.hello b" + digest), run_id);
  // Agents of other releases.
  for (const char* other : {"pulse.hello c", "pulse.hello c 0000000000000000", "pulse.hello c 0 0",
                            "pulse.fence a", "pulse.fence a 0"}) {
    EXPECT_THAT(another.Ask(other), HasSubstr("run both from the same release")) << other;
  }
  // One that reads another database.
  BlockingClient reader(options_.host_socket);
  EXPECT_THAT(reader.Ask("pulse.hello c" + digest + " x: 1:1"), HasSubstr("another database"));
  const std::string directory = DirectoryIdentity(options_.db);
  EXPECT_EQ(reader.Ask("pulse.hello c" + digest + " x: " + directory), run_id);
  // Work that is still going on when the connection ends.
  std::string requests;
  for (int i = 0; i < 2000; ++i) requests += "incr n\r\nkeys *\r\n";
  mine.Send(requests);
  EXPECT_EQ(fence.Ask("pulse.fence a" + digest), run_id);
  EXPECT_EQ(fence.Ask("auth secret"), "+OK\r\n");
  // Nothing of `a` is carried out after its fence.
  const std::string n = fence.Ask("get n");
  EXPECT_EQ(fence.Ask("keys nope"), "*0\r\n");
  EXPECT_EQ(fence.Ask("get n"), n);
  EXPECT_EQ(another.Ask("auth secret"), "+OK\r\n");  // `b` was left alone
  EXPECT_THAT(another.Ask("client info"), HasSubstr(" addr=unix:"));
  EXPECT_EQ(another.Ask("pulse.hello b" + digest + " 192.0.2.1:99"), run_id);
  EXPECT_THAT(another.Ask("client info"), HasSubstr(" addr=192.0.2.1:99 "));
  // Of all others than those of one agent.
  BlockingClient third(options_.host_socket);
  EXPECT_EQ(third.Ask("pulse.hello agent:1" + digest), run_id);
  EXPECT_EQ(third.Ask("auth secret"), "+OK\r\n");
  EXPECT_EQ(another.Ask("pulse.hello other:1" + digest), run_id);
  EXPECT_EQ(fence.Ask("pulse.fence !agent:" + digest), run_id);
  EXPECT_EQ(another.Receive(), "");
  EXPECT_EQ(third.Ask("ping"), "+PONG\r\n");
}

// As redis-server 7.0.15 says it.
TEST_F(ServerTest, Command_FlagsOfKeysAndUnknownNames_AsRedis) {
  Open();
  BlockingClient client(port());
  const auto flags = [&](const std::string& line) {
    std::string reply = PlainReply(client.Ask("command getkeysandflags " + line));
    return reply.substr(reply.find('*', 1));
  };
  EXPECT_EQ(flags("set a b"), "*2 $1 a *2 +OW +update");
  EXPECT_EQ(flags("set a b get"), "*2 $1 a *3 +RW +access +update");
  EXPECT_EQ(flags("copy a b"), "*2 $1 a *2 +RO +access *2 $1 b *2 +OW +update");
  EXPECT_EQ(flags("bitfield a get u8 0"), "*2 $1 a *2 +RO +access");
  EXPECT_EQ(flags("bitfield a get u8 0 set u8 0 1"), "*2 $1 a *3 +RW +access +update");
  EXPECT_EQ(flags("bitop and a b"), "*2 $1 a *2 +OW +update *2 $1 b *2 +RO +access");
  EXPECT_EQ(flags("rename a b"), "*2 $1 a *3 +RW +access +delete *2 $1 b *2 +OW +update");
  EXPECT_EQ(flags("getdel a"), "*2 $1 a *3 +RW +access +delete");
  EXPECT_EQ(flags("append a b"), "*2 $1 a *2 +RW +insert");
  EXPECT_EQ(flags("exists a"), "*2 $1 a *1 +RO");
  EXPECT_EQ(client.Ask("command info nosuch"), "*1\r\n$-1\r\n");
  EXPECT_THAT(client.Ask("command info set"), HasSubstr("+write\r\n+denyoom\r\n"));
  EXPECT_THAT(client.Ask("command info rename"), Not(HasSubstr("denyoom")));
}

TEST_F(ServerTest, ClientList_Filters_ShowMatchingClients) {
  Open();
  BlockingClient a(port());
  BlockingClient b(port());
  EXPECT_EQ(a.Ask("client setname first"), "+OK\r\n");
  EXPECT_EQ(b.Ask("client setname second"), "+OK\r\n");
  const auto id = [](BlockingClient& client) {
    const std::string reply = client.Ask("client id");
    return reply.substr(1, reply.size() - 3);
  };
  const std::string first = id(a), second = id(b);
  EXPECT_THAT(a.Ask("client info"), HasSubstr("id=" + first + " addr=127.0.0.1:"));
  for (const std::string& all : {std::string("client list"), std::string("client list type normal"),
                                 "client list id " + second + " " + first}) {
    const std::string list = a.Ask(all);
    EXPECT_THAT(list, HasSubstr("name=first ")) << all;
    EXPECT_THAT(list, HasSubstr("name=second ")) << all;
  }
  const std::string one = a.Ask("client list id " + second);
  EXPECT_THAT(one, Not(HasSubstr("name=first ")));
  EXPECT_THAT(one, HasSubstr("name=second "));
  EXPECT_THAT(one, HasSubstr(" laddr=127.0.0.1:" + std::to_string(port()) + " "));
  EXPECT_THAT(one, HasSubstr(" ssub=0 "));
  EXPECT_THAT(one, HasSubstr(" cmd=client "));
  EXPECT_EQ(a.Ask("client list type replica"), "$0\r\n\r\n");
  EXPECT_THAT(a.Ask("client list type odd"), HasSubstr("Unknown client type 'odd'"));
  EXPECT_THAT(a.Ask("client list id 0"), HasSubstr("Invalid client ID"));
  EXPECT_THAT(a.Ask("client list id"), HasSubstr("syntax error"));
  EXPECT_THAT(a.Ask("client list first"), HasSubstr("syntax error"));
}

// Of a key that has expired, when a command looks for it; and once, though it stays in the
// database.
TEST_F(ServerTest, BroadcastTracking_KeyThatHasExpired_IsToldOfWhenItIsLookedFor) {
  Open();
  BlockingClient client(port());
  BlockingClient writer(port());
  EXPECT_THAT(client.Ask("hello 3"), StartsWith("%7"));
  EXPECT_EQ(client.Ask("client tracking on bcast prefix ax"), "+OK\r\n");
  const std::string invalid = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nax\r\n";
  for (const char* const look : {"get ax", "exists ax", "mget other ax", "ttl ax"}) {
    writer.Ask("set ax 1 px 5");
    const int64_t set_ms = WallMillis();
    EXPECT_EQ(client.Receive(), invalid) << look;
    EXPECT_TRUE(testing_util::Eventually([&] { return WallMillis() > set_ms + 5; }));
    writer.Ask(look);
    EXPECT_EQ(client.Receive(), invalid) << look;
    writer.Ask("get ax");
    EXPECT_EQ(client.Ask("echo quiet"), "$5\r\nquiet\r\n") << look;
  }
}

TEST_F(ServerTest, ClientKill_Filters_EndMatchingClients) {
  options_.threads = 2;
  Open();
  BlockingClient me(port());
  const auto id = [](BlockingClient& client) {
    const std::string reply = client.Ask("client id");
    return reply.substr(1, reply.size() - 3);
  };
  const auto peer = [](BlockingClient& client) {
    const std::string info = client.Ask("client info");
    const size_t begin = info.find(" addr=") + 6;
    return info.substr(begin, info.find(' ', begin) - begin);
  };
  const std::string mine = id(me);
  BlockingClient a(port()), b(port()), c(port());
  EXPECT_EQ(me.Ask("client kill id " + id(a)), ":1\r\n");
  EXPECT_EQ(a.Receive(), "");
  EXPECT_EQ(me.Ask("client kill " + peer(b)), "+OK\r\n");
  EXPECT_EQ(b.Receive(), "");
  EXPECT_EQ(me.Ask("client kill addr " + peer(c) + " user default type normal"), ":1\r\n");
  EXPECT_EQ(c.Receive(), "");
  BlockingClient at(port());
  EXPECT_EQ(at.Ask("ping"), "+PONG\r\n");
  EXPECT_EQ(me.Ask("client kill laddr 127.0.0.1:1"), ":0\r\n");
  EXPECT_EQ(me.Ask("client kill laddr 127.0.0.1:" + std::to_string(port())), ":1\r\n");
  EXPECT_EQ(at.Receive(), "");
  BlockingClient d(port()), e(port());
  EXPECT_EQ(d.Ask("ping"), "+PONG\r\n");
  EXPECT_EQ(e.Ask("ping"), "+PONG\r\n");
  EXPECT_EQ(me.Ask("client kill type pubsub"), ":0\r\n");
  EXPECT_EQ(me.Ask("client kill id " + mine), ":0\r\n") << "it skips itself";
  EXPECT_EQ(me.Ask("client kill maxage 1000"), ":0\r\n");
  EXPECT_EQ(me.Ask("client kill type normal"), ":2\r\n");
  EXPECT_EQ(d.Receive() + e.Receive(), "");
  EXPECT_THAT(me.Ask("client kill 192.0.2.1:5"), StartsWith("-ERR No such client"));
  EXPECT_THAT(me.Ask("client kill id 0"), HasSubstr("greater than 0"));
  EXPECT_THAT(me.Ask("client kill type odd"), HasSubstr("Unknown client type 'odd'"));
  EXPECT_THAT(me.Ask("client kill user nobody"), HasSubstr("No such user 'nobody'"));
  EXPECT_THAT(me.Ask("client kill id 1 skipme maybe"), StartsWith("-ERR syntax error"));
  EXPECT_THAT(me.Ask("client kill id 1 addr"), StartsWith("-ERR syntax error"));
  EXPECT_EQ(me.Ask("client unblock " + mine), ":0\r\n");
  EXPECT_THAT(me.Ask("client unblock " + mine + " now"), HasSubstr("TIMEOUT or ERROR"));
  BlockingClient f(port());
  f.Send("multi\r\nclient kill id " + id(me) + "\r\nexec\r\n");
  for (int i = 0; i < 3; ++i) f.Receive();
  EXPECT_EQ(me.Receive(), "");
  // Itself after the reply, but not what it sent behind it.
  f.Send("client kill id " + id(f) + " skipme no\r\nping\r\n");
  EXPECT_EQ(f.Receive(), ":1\r\n");
  EXPECT_EQ(f.Receive(), "");
  BlockingClient g(port());
  g.Send("multi\r\nclient kill id " + id(g) + " skipme no\r\nexec\r\nping\r\n");
  for (const char* reply : {"+OK\r\n", "+QUEUED\r\n", "*1\r\n:1\r\n", ""}) {
    EXPECT_EQ(g.Receive(), reply);
  }
}

// Its agent would only connect again.
TEST_F(ServerTest, ClientKill_BehindAgent_Refused) {
  OpenWithAgent();
  BlockingClient a(port()), b(port());
  const std::string reply = a.Ask("client id");
  EXPECT_THAT(b.Ask("client kill id " + reply.substr(1, reply.size() - 3)),
              HasSubstr("the agent has this client's connection"));
  EXPECT_EQ(a.Ask("ping"), "+PONG\r\n");
}

TEST_F(ServerTest, Slowlog_EverythingIsSlow_ShowsAllButPasswords) {
  Open();
  BlockingClient client(port());
  EXPECT_EQ(client.Ask("slowlog len"), ":0\r\n");
  EXPECT_EQ(client.Ask("client setname slow"), "+OK\r\n");
  EXPECT_EQ(client.Ask("config set slowlog-log-slower-than 0 slowlog-max-len 20"), "+OK\r\n");
  EXPECT_THAT(client.Ask("config get slowlog-max-len"), HasSubstr("$2\r\n20\r\n"));
  client.Send("get a\r\nget b\r\nset c 1\r\nset d 2\r\nkeys *\r\nauth secret\r\n");
  for (int i = 0; i < 6; ++i) client.Receive();
  EXPECT_EQ(client.Ask("config set slowlog-log-slower-than -1"), "+OK\r\n");
  EXPECT_EQ(client.Ask("slowlog len"), ":7\r\n");
  const std::string all = client.Ask("slowlog get -1");
  for (const char* part : {"b", "c", "d", "keys", "slower-than", "slow"}) {
    EXPECT_THAT(all, HasSubstr(part));
  }
  EXPECT_THAT(all, Not(HasSubstr("secret")));
  EXPECT_THAT(client.Ask("slowlog get 2"), StartsWith("*2\r\n*6\r\n:"));
  EXPECT_EQ(client.Ask("slowlog reset"), "+OK\r\n");
  EXPECT_EQ(client.Ask("slowlog get"), "*0\r\n");
  EXPECT_THAT(client.Ask("slowlog get -2"), HasSubstr("greater than or equal to -1"));
  EXPECT_THAT(client.Ask("slowlog gone"), HasSubstr("unknown subcommand"));
  for (const char* bad : {"slowlog-max-len -1", "slowlog-log-slower-than x"}) {
    EXPECT_THAT(client.Ask(std::string("config set ") + bad), HasSubstr("must be a number")) << bad;
  }
}

TEST_F(ServerTest, Info_BytesThroughSockets_AreCounted_UntilTheyAreReset) {
  Open();
  BlockingClient client(port());
  const auto number = [&](const std::string& name) {
    const std::string info = client.Ask("info stats");
    const size_t at = info.find(name + ":");
    EXPECT_NE(at, std::string::npos) << name;
    return std::stoull(info.substr(at + name.size() + 1));
  };
  const std::string value(10'000, 'v');
  EXPECT_EQ(client.Ask("set k " + value), "+OK\r\n");
  for (int i = 0; i < 3; ++i) client.Ask("get k");
  const uint64_t received = number("total_net_input_bytes");
  EXPECT_GE(received, value.size());
  EXPECT_LT(received, 2 * value.size());
  EXPECT_GE(number("total_net_output_bytes"), 3 * value.size());
  EXPECT_EQ(client.Ask("config resetstat"), "+OK\r\n");
  EXPECT_LT(number("total_net_input_bytes"), value.size());
  EXPECT_LT(number("total_net_output_bytes"), value.size());
  EXPECT_THAT(client.Ask("info memory"), HasSubstr("mem_fragmentation_ratio:1.00\r\n"));
}

// As many commands as take a sample, and then some.
TEST_F(ServerTest, Info_CommandsUnderWay_HaveARate) {
  Open();
  BlockingClient client(port());
  std::string pings;
  for (int i = 0; i < 1000; ++i) pings += "ping\r\n";
  EXPECT_TRUE(testing_util::Eventually([&] {
    client.Send(pings);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(client.Receive(), "+PONG\r\n");
    const std::string info = client.Ask("info stats");
    EXPECT_THAT(info, HasSubstr("instantaneous_ops_per_sec:"));
    return info.find("instantaneous_ops_per_sec:0\r\n") == std::string::npos;
  }));
}

TEST_F(ServerTest, Commands_AboutTheServer_ReplyAsRedis) {
  Open();
  BlockingClient client(port());
  client.Ask("set a 1");
  client.Ask("set b 1");
  EXPECT_THAT(client.Ask("info stats"), HasSubstr("total_commands_processed:2"));
  EXPECT_EQ(client.Ask("config resetstat"), "+OK\r\n");
  EXPECT_THAT(client.Ask("info stats"), HasSubstr("total_commands_processed:1"));
  EXPECT_THAT(client.Ask("info commandstats"), Not(HasSubstr("cmdstat_set")));
  client.Ask("set");
  client.Ask("incr a");
  client.Ask("set c x");
  client.Ask("incr c");
  client.Send("get a\r\nget b\r\nmulti\r\nget a\r\nexec\r\n");
  for (int i = 0; i < 5; ++i) client.Receive();
  const std::string stats = client.Ask("info commandstats");
  EXPECT_THAT(stats, HasSubstr("cmdstat_get:calls=3,"));
  EXPECT_THAT(stats, HasSubstr("cmdstat_exec:calls=1,"));
  EXPECT_THAT(stats, HasSubstr("cmdstat_config:calls=1,"));
  const auto line = [&](const std::string& name) {
    const size_t begin = stats.find("cmdstat_" + name + ":");
    return begin == std::string::npos ? "" : stats.substr(begin, stats.find("\r\n", begin) - begin);
  };
  EXPECT_THAT(line("set"), HasSubstr("calls=1,"));
  EXPECT_THAT(line("set"), HasSubstr(",rejected_calls=1,failed_calls=0"));
  EXPECT_THAT(line("incr"), HasSubstr("calls=2,"));
  EXPECT_THAT(line("incr"), HasSubstr(",rejected_calls=0,failed_calls=1"));
  EXPECT_THAT(client.Ask("info"), Not(HasSubstr("cmdstat_")));
  EXPECT_THAT(client.Ask("info everything"), HasSubstr("cmdstat_get:"));
  EXPECT_THAT(client.Ask("config rewrite"), HasSubstr("without a config file"));
  EXPECT_EQ(client.Ask("role"), "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
  EXPECT_EQ(client.Ask("wait 1 100"), ":0\r\n");
  EXPECT_EQ(client.Ask("wait 1 -1"), "-ERR timeout is negative\r\n");
  EXPECT_EQ(client.Ask("waitaof 0 1 100"), "*2\r\n:0\r\n:0\r\n");
  EXPECT_THAT(client.Ask("waitaof 1 0 0"), HasSubstr("appendonly is disabled"));
  EXPECT_EQ(client.Ask("command getkeysandflags mset a 1 b 2"),
            "*2\r\n*2\r\n$1\r\na\r\n*2\r\n+OW\r\n+update\r\n"
            "*2\r\n$1\r\nb\r\n*2\r\n+OW\r\n+update\r\n");
  EXPECT_EQ(client.Ask("command list filterby pattern GETR*"), "*1\r\n$8\r\ngetrange\r\n");
  EXPECT_EQ(client.Ask("command list filterby module json"), "*0\r\n");
  EXPECT_THAT(client.Ask("command list filterby aclcat transaction"), StartsWith("*5\r\n"));
  EXPECT_THAT(client.Ask("command list filterby size 1"), StartsWith("-ERR syntax error"));
  EXPECT_THAT(client.Ask("command info touch"), HasSubstr("response_policy:agg_sum"));
}

// The texts are redis-server's 7.0.15, but for what can be set.
TEST_F(ServerTest, Config_WrongArguments_ReturnsAnError) {
  Open();
  BlockingClient client(port());
  for (const std::string line : {"set", "set slowlog-max-len", "get", "resetstat x", "rewrite x"}) {
    EXPECT_EQ(client.Ask("config " + line), "-ERR wrong number of arguments for 'config|" +
                                                line.substr(0, line.find(' ')) + "' command\r\n");
  }
  EXPECT_EQ(client.Ask("config set a b c"), "-ERR syntax error\r\n");
  EXPECT_THAT(client.Ask("config foo"), HasSubstr("unknown subcommand 'foo'"));
  EXPECT_THAT(client.Ask("config set foo bar"),
              StartsWith("-ERR Unknown option or number of arguments for CONFIG SET - 'foo'"));
  EXPECT_EQ(client.Ask("config set slowlog-max-len 5 Slowlog-Max-Len 6"),
            "-ERR CONFIG SET failed (possibly related to argument 'Slowlog-Max-Len') - duplicate "
            "parameter\r\n");
  EXPECT_EQ(client.Ask("config set slowlog-max-len 7 latency-tracking no"), "+OK\r\n");
  EXPECT_EQ(client.Ask("latency history"),
            "-ERR wrong number of arguments for 'latency|history' command\r\n");
  EXPECT_EQ(client.Ask("slowlog len x"),
            "-ERR wrong number of arguments for 'slowlog|len' command\r\n");
}

}  // namespace
}  // namespace pulse::redis
