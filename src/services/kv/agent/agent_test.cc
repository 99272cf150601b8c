// Clients of an agent in a process of its own see the store as its own clients do.
#include <algorithm>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "services/kv/agent/test_agent.h"

namespace pulse::kv {
namespace {

using testing_util::Eventually;

class AgentCommandTest : public AgentTest {
 protected:
  void SetUp() override {
    OpenHost();
    OpenAgent();
  }
};

TEST_F(AgentCommandTest, PlainRequests_CrossAndAreAnswered) {
  Client client(agent_port());
  EXPECT_EQ(client.Ask("GET none"), "$-1\r\n");
  EXPECT_EQ(client.Ask("SET k v"), "+OK\r\n");
  EXPECT_EQ(client.Ask("get k"), Bulk("v"));
  EXPECT_EQ(client.Ask("SET longer-than-eight some-longer-value"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET longer-than-eight"), Bulk("some-longer-value"));
  EXPECT_EQ(client.Ask("DEL k"), ":1\r\n");
  EXPECT_EQ(client.Ask("DEL k"), ":0\r\n");
  EXPECT_EQ(client.Ask("SET '' empty"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET ''"), Bulk("empty"));
  EXPECT_EQ(client.Ask("SET k ''"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET k"), Bulk(""));
}

TEST_F(AgentCommandTest, Commands_AnswerAsOnTheStoresOwnPort) {
  Client agent(agent_port());
  Client own(port());
  for (const char* line : {"SET n 5",
                           "INCR n",
                           "SETEX t 100 v",
                           "TTL t",
                           "MSET a 1 b 2 c 3",
                           "MGET a b c d",
                           "APPEND a xyz",
                           "STRLEN a",
                           "GETRANGE a 1 2",
                           "SETBIT bits 7 1",
                           "BITCOUNT bits",
                           "EXISTS a b none",
                           "TYPE a",
                           "GET",
                           "GET a b",
                           "SET a",
                           "NOSUCH a b",
                           "SET a b NX",
                           "SET a 1 XX GET",
                           "OBJECT FREQ none",
                           "LPUSH l 1",
                           "ECHO hello",
                           "PING",
                           "PING text",
                           "DBSIZE",
                           "DEL a b c",
                           "EXEC",
                           "DISCARD",
                           "PULSE.HELLO x",
                           "COPY n m",
                           "RENAME m o",
                           "CLUSTER INFO",
                           "COMMAND COUNT",
                           "CONFIG GET maxmemory-policy"}) {
    EXPECT_EQ(own.Ask("FLUSHALL"), "+OK\r\n");
    const std::string expected = own.Ask(line);
    EXPECT_EQ(own.Ask("FLUSHALL"), "+OK\r\n");
    EXPECT_EQ(agent.Ask(line), expected) << line;
    EXPECT_FALSE(expected.empty());
  }
  // The same requests from the same state.
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 200; ++i) {
    const char* const lines[] = {"SET k 5",    "INCR k",     "GET k",        "DEL k",
                                 "APPEND k 1", "STRLEN k",   "TTL k",        "EXPIRE k 99",
                                 "EXISTS k",   "GETSET k 7", "SETBIT k 3 1", "MGET k k"};
    std::vector<std::string> program;
    for (int n = 0; n < 8; ++n) program.emplace_back(lines[random() % std::size(lines)]);
    std::vector<std::string> replies[2];
    Client* const clients[] = {&agent, &own};
    for (int c = 0; c < 2; ++c) {
      EXPECT_EQ(clients[c]->Ask("FLUSHALL"), "+OK\r\n");
      for (const std::string& line : program) replies[c].push_back(clients[c]->Ask(line));
    }
    ASSERT_EQ(replies[0], replies[1]);
  }
}

TEST_F(AgentCommandTest, Transactions_AreOfTheSession) {
  Client one(agent_port());
  Client two(agent_port());
  EXPECT_EQ(one.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(one.Ask("SET k 1"), "+QUEUED\r\n");
  EXPECT_EQ(two.Ask("GET k"), "$-1\r\n");
  EXPECT_EQ(one.Ask("GET k"), "+QUEUED\r\n");
  EXPECT_EQ(one.Ask("EXEC"), "*2\r\n+OK\r\n$1\r\n1\r\n");
  EXPECT_EQ(one.Ask("WATCH k"), "+OK\r\n");
  EXPECT_EQ(two.Ask("SET k 2"), "+OK\r\n");
  EXPECT_EQ(one.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(one.Ask("DEL k"), "+QUEUED\r\n");
  EXPECT_EQ(one.Ask("EXEC"), "*-1\r\n");
  EXPECT_EQ(two.Ask("GET k"), Bulk("2"));
  EXPECT_EQ(one.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(one.Ask("NOSUCH").substr(0, 4), "-ERR");
  EXPECT_EQ(one.Ask("EXEC").substr(0, 10), "-EXECABORT");
}

TEST_F(AgentCommandTest, ConnectionCommands_AreOfTheSession) {
  Client client(agent_port());
  EXPECT_EQ(client.Ask("HELLO 3").substr(0, 1), "%");
  EXPECT_EQ(client.Ask("GET none"), "_\r\n");
  EXPECT_EQ(client.Ask("CLIENT SETNAME me"), "+OK\r\n");
  EXPECT_EQ(client.Ask("CLIENT GETNAME"), Bulk("me"));
  const std::string list = Client(port()).Ask("CLIENT LIST");
  EXPECT_NE(list.find("name=me"), std::string::npos) << list;
  EXPECT_NE(list.find("addr=127.0.0.1:"), std::string::npos) << list;
  // Where it has connected to: the agent.
  EXPECT_NE(list.find(absl::StrCat("laddr=127.0.0.1:", agent_port(), " ")), std::string::npos)
      << list;
  EXPECT_EQ(client.Ask("RESET"), "+RESET\r\n");
  EXPECT_EQ(client.Ask("GET none"), "$-1\r\n");
  EXPECT_EQ(client.Ask("QUIT"), "+OK\r\n");
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_TRUE(Eventually([&] { return host_->numbers().clients == 0; }));
}

TEST_F(AgentCommandTest, Memcached_IsToldByItsFirstBytes_AndSharesTheKeys) {
  Client redis(agent_port());
  Client memcached(agent_port());
  const auto ask = [&](const std::string& bytes, const std::string& end) {
    memcached.Send(bytes);
    return memcached.ReadUntil(end);
  };
  EXPECT_EQ(ask("set k 5 0 3\r\nabc\r\n", "\r\n"), "STORED\r\n");
  EXPECT_EQ(redis.Ask("GET k"), Bulk("abc"));
  EXPECT_EQ(redis.Ask("SET k longer"), "+OK\r\n");
  EXPECT_EQ(ask("get k\r\n", "END\r\n"), "VALUE k 0 6\r\nlonger\r\nEND\r\n");
  EXPECT_EQ(ask("set k 0 0 1 noreply\r\nx\r\nmg k v\r\n", "x\r\n"), "VA 1\r\nx\r\n");
  EXPECT_EQ(ask("nosuch\r\n", "\r\n"), "ERROR\r\n");
  // A block beyond the limit is dropped as it comes.
  memcached.Send(absl::StrCat("set big 0 0 ", max_value_ + 1, "\r\n"));
  memcached.Send(std::string(max_value_ + 1, 'x') + "\r\n");
  EXPECT_EQ(ask("version\r\n", "18\r\n").substr(0, 39), "SERVER_ERROR object too large for cache");
  EXPECT_EQ(ask("get big\r\n", "END\r\n"), "END\r\n");
  memcached.Send("quit\r\n");
  EXPECT_EQ(memcached.ReadAll(), "");
}

// The store's limit counts, where it is below the agent's.
TEST_F(AgentTest, MemcachedSet_LargerThanTheStoreTakes_IsRefusedAndDropsTheOldItem) {
  max_value_ = uint64_t{1} << 20;
  OpenHost();
  max_value_ = uint64_t{8} << 20;
  OpenAgent();
  WaitForLanes();
  Client client(agent_port());
  client.Send("set k 0 0 1\r\nx\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n"), "STORED\r\n");
  const std::string large(size_t{4} << 20, 'x');  // longer than a request may be at the host
  client.Send(absl::StrCat("set k 0 0 ", large.size(), "\r\n", large, "\r\nget k\r\n"));
  EXPECT_EQ(client.ReadUntil("END\r\n"), "SERVER_ERROR object too large for cache\r\nEND\r\n");
}

TEST_F(AgentCommandTest, Pipeline_KeepsItsOrder) {
  Client client(agent_port());
  std::string bytes;
  std::string expected;
  std::mt19937_64 random(testing_util::TestSeed());
  int64_t n = 0;
  for (int i = 0; i < 20'000; ++i) {
    switch (random() % 4) {
      case 0:
        bytes += Array({"INCR", "n"});
        absl::StrAppend(&expected, ":", ++n, "\r\n");
        break;
      case 1:
        bytes += Array({"GET", "n"});
        expected += n == 0 ? "$-1\r\n" : Bulk(absl::StrCat(n));
        break;
      case 2:
        n = static_cast<int64_t>(random() % 1'000'000'000'000);
        bytes += Array({"SET", "n", absl::StrCat(n)});
        expected += "+OK\r\n";
        break;
      default:
        // Which leaves its thread, in the midst.
        bytes += Array({"MULTI"}) + Array({"INCR", "n"}) + Array({"EXEC"});
        absl::StrAppend(&expected, "+OK\r\n+QUEUED\r\n*1\r\n:", ++n, "\r\n");
    }
  }
  std::thread sender([&] { client.Send(bytes); });
  std::string got;
  while (got.size() < expected.size()) {
    const std::string reply = client.Receive();
    if (reply.empty()) break;
    got += reply;
  }
  sender.join();
  EXPECT_TRUE(got == expected) << "differs";
}

TEST_F(AgentCommandTest, LargeValues_CrossInPieces_BesideSmallRequests) {
  Client large(agent_port());
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> small{0};
  std::thread other([&] {
    Client client(agent_port());
    while (!stop.load()) {
      EXPECT_EQ(client.Ask("SET small v"), "+OK\r\n");
      EXPECT_EQ(client.Ask("GET small"), Bulk("v"));
      ++small;
    }
  });
  for (const size_t size : {kFragment - 70, kFragment - 64, kFragment - 1, kFragment, kFragment + 1,
                            2 * kFragment, size_t{1} << 20, size_t{8} << 20}) {
    std::string value(size, '\0');
    for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>('a' + i * 7 % 26);
    large.Send(Array({"SET", "k", value}));
    ASSERT_EQ(large.Receive(), "+OK\r\n") << size;
    EXPECT_TRUE(large.Ask("GET k") == Bulk(value)) << size;
    EXPECT_EQ(large.Ask("STRLEN k"), absl::StrCat(":", size, "\r\n"));
  }
  large.Send(Array({"SET", "k", std::string(max_value_ + 1, 'x')}));
  EXPECT_EQ(large.Receive(), "-ERR Protocol error: invalid bulk length\r\n");
  EXPECT_EQ(large.ReadAll(), "");
  stop = true;
  other.join();
  EXPECT_GT(small.load(), 0u);
}

TEST_F(AgentCommandTest, ClientThatDoesNotRead_DelaysNobody_AndGetsAll) {
  Client slow(agent_port());
  const std::string value(size_t{100} << 10, 'v');
  slow.Send(Array({"SET", "k", value}));
  EXPECT_EQ(slow.Receive(), "+OK\r\n");
  std::string bytes;
  constexpr int kGets = 600;  // 60 MB
  for (int i = 0; i < kGets; ++i) bytes += Array({"GET", "k"});
  slow.Send(bytes);
  Client other(agent_port());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(other.Ask("PING"), "+PONG\r\n");
  // What it has not read is not in the agent, nor in the host.
  EXPECT_LT(front_->director().stats().held_bytes, uint64_t{8} << 20);
  const std::string expected = Bulk(value);
  for (int i = 0; i < kGets; ++i) ASSERT_TRUE(slow.Receive() == expected) << i;
  EXPECT_EQ(slow.Ask("PING"), "+PONG\r\n");
}

// What they hold comes to more than a lane takes, and what frees it comes through the lane.
TEST_F(AgentCommandTest, ClientsThatDoNotRead_WithLargeRequests_DelayNobody) {
  const std::string value(size_t{1} << 20, 'v');
  const std::string large(size_t{7} << 20, 'w');
  std::vector<std::unique_ptr<Client>> slow;
  std::vector<std::thread> senders;  // what is not taken from a client, it cannot send
  for (int i = 0; i < 3; ++i) {
    slow.push_back(std::make_unique<Client>(agent_port()));
    const std::string key = absl::StrCat("k", i);
    ASSERT_EQ(slow.back()->Ask(Array({"SET", key, value})), "+OK\r\n");
    std::string bytes;
    for (int get = 0; get < 10; ++get) bytes += Array({"GET", key});
    bytes += Array({"SET", key, large});
    senders.emplace_back([client = slow.back().get(), bytes] { client->Send(bytes); });
  }
  Client other(agent_port());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(other.Ask("PING"), "+PONG\r\n");
  int cut = 0;  // the largest of clients that do not read, where they hold more than they may
  for (auto& client : slow) {
    std::string reply;
    for (int get = 0; get < 10 && (reply = client->Receive()) == Bulk(value); ++get) {
    }
    if (reply == Bulk(value)) {
      EXPECT_NE(client->Receive(), "");  // the store may be full
    } else {
      ++cut;
      EXPECT_NE(reply.find("hold too many bytes"), std::string::npos) << reply.substr(0, 200);
      client->Close();
    }
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_LT(cut, 3);
  EXPECT_EQ(other.Ask("PING"), "+PONG\r\n");
}

// Sizes at which a turn ends and the agent's credit do the same.
TEST_F(AgentCommandTest, RepliesOfExactlyTheCredit_AllCome) {
  Client client(agent_port());
  for (const size_t reply : {size_t{4096}, size_t{1024}, size_t{65536}}) {
    // A reply is $, the digits of the size, and two line ends more than its value.
    size_t size = reply - 5;
    while (Bulk(std::string(size, 'v')).size() > reply) --size;
    const std::string value(size, 'v');
    ASSERT_EQ(Bulk(value).size(), reply);
    ASSERT_EQ(client.Ask(Array({"SET", "k", value})), "+OK\r\n");
    std::string bytes;
    const size_t gets = (size_t{1} << 20) / reply;
    for (size_t i = 0; i < gets; ++i) bytes += Array({"GET", "k"});
    client.Send(bytes);
    for (size_t i = 0; i < gets; ++i) ASSERT_TRUE(client.Receive() == Bulk(value)) << i;
  }
}

TEST_F(AgentCommandTest, BadRequests_EndTheConnection_AfterAnError) {
  for (const auto& [bytes, error] : std::initializer_list<std::pair<const char*, const char*>>{
           {"*1\r\n$abc\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
           {"*1\r\nGET\r\n", "-ERR Protocol error: expected '$', got 'G'\r\n"},
           {"GET \"unbalanced\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
           {"*99999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"}}) {
    Client client(agent_port());
    client.Send("SET before 1\r\n");
    client.Send(bytes);
    EXPECT_EQ(client.ReadAll(), absl::StrCat("+OK\r\n", error)) << bytes;
  }
  Client http(agent_port());
  http.Send("POST / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(http.ReadAll(), "");
  EXPECT_TRUE(Eventually([&] { return host_->numbers().clients == 0; }));
}

TEST_F(AgentTest, ManyClients_ComeAndGo_SessionsAreFreed) {
  front_options_.director.threads = 2;
  host_options_.threads = 2;
  OpenHost();
  OpenAgent();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        Client client(agent_port());
        const std::string key = absl::StrCat("k", t, "-", i);
        EXPECT_EQ(client.Ask("SET " + key + " v"), "+OK\r\n");
        // Some leave without waiting.
        if (i % 3 == 0) client.Send("GET " + key + "\r\nINFO\r\nGET " + key + "\r\n");
        if (i % 3 == 1) {
          EXPECT_EQ(client.Ask("GET " + key), Bulk("v"));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Eventually([&] { return host_->numbers().clients == 0; }))
      << host_->numbers().clients;
  EXPECT_EQ(Client(agent_port()).Ask("DBSIZE"), ":400\r\n");
  EXPECT_EQ(host_->numbers().loops, 2u);
}

TEST_F(AgentTest, MoreClientsThanTheStoreTakes_AreToldSo) {
  host_options_.max_sessions = 2;
  OpenHost();
  OpenAgent();
  Client one(agent_port());
  EXPECT_EQ(one.Ask("PING"), "+PONG\r\n");
  {
    Client two(agent_port());
    EXPECT_EQ(two.Ask("PING"), "+PONG\r\n");
    Client three(agent_port());
    EXPECT_EQ(three.Ask("PING"), "-ERR max number of clients reached\r\n");
    EXPECT_EQ(three.ReadAll(), "");
  }
  EXPECT_TRUE(Eventually([&] { return host_->numbers().clients == 1; }));
  EXPECT_EQ(Client(agent_port()).Ask("PING"), "+PONG\r\n");
}

// Whatever CONFIG SET design says: that is of the store's own port.
TEST_F(AgentTest, Design_OfAgents_FollowsFromTheirLoops) {
  OpenHost();
  EXPECT_STREQ(host_->numbers().design, "none");
  OpenAgent();
  const auto design_is = [&](std::string_view design) {
    return Eventually([&] { return host_->numbers().design == design; });
  };
  EXPECT_TRUE(design_is("lat"));
  front_.reset();
  EXPECT_TRUE(design_is("none"));
  front_options_.director.threads = 2;
  OpenAgent();
  EXPECT_TRUE(design_is("sav"));
  std::string info;
  host_->AddInfo(&info);
  EXPECT_NE(info.find("agent_design:sav\r\n"), std::string::npos) << info;
  front_.reset();
  host_.reset();
  host_options_.threads = 2;
  StartAgentServer();
  OpenAgent();
  EXPECT_TRUE(design_is("lat"));
}

TEST_F(AgentTest, Password_IsAskedForByTheHost) {
  options_.password = "secret";
  OpenHost();
  OpenAgent();
  Client client(agent_port());
  EXPECT_EQ(client.Ask("GET k"), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.Ask("AUTH wrong").substr(0, 10), "-WRONGPASS");
  EXPECT_EQ(client.Ask("GET k"), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(client.Ask("AUTH secret"), "+OK\r\n");
  EXPECT_EQ(client.Ask("SET k v"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET k"), Bulk("v"));
  // Strangers may not send much.
  Client stranger(agent_port());
  EXPECT_EQ(stranger.Ask("PING").substr(0, 7), "-NOAUTH");
  stranger.Send("*2\r\n$3\r\nGET\r\n$20000\r\n");
  EXPECT_EQ(stranger.Receive(), "-ERR Protocol error: unauthenticated bulk length\r\n");
  // memcached's know no passwords.
  Client memcached(agent_port());
  memcached.Send("get k\r\n");
  EXPECT_EQ(memcached.ReadAll(), "-NOAUTH Authentication required.\r\n");
}

TEST_F(AgentCommandTest, Users_ChangeForClientsThatThereAre) {
  Client boss(port());
  Client client(agent_port());
  Client memcached(agent_port());
  Client own(port());
  for (Client* c : {&memcached, &own}) {
    c->Send("set k 0 0 1\r\nv\r\n");
    EXPECT_EQ(c->ReadUntil("STORED\r\n"), "STORED\r\n");
  }
  EXPECT_EQ(boss.Ask("ACL SETUSER u on nopass ~a +get"), "+OK\r\n");
  EXPECT_EQ(client.Ask("AUTH u x"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET a"), "$-1\r\n");
  EXPECT_EQ(client.Ask("GET b").substr(0, 7), "-NOPERM");
  EXPECT_EQ(client.Ask("SET a 1").substr(0, 7), "-NOPERM");
  EXPECT_EQ(boss.Ask("ACL SETUSER u ~b"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET b"), "$-1\r\n");
  EXPECT_EQ(boss.Ask("ACL DELUSER u"), ":1\r\n");
  EXPECT_EQ(client.ReadAll(), "");
  // Clients of memcached have no names: they are served while everybody may do all.
  EXPECT_EQ(boss.Ask("ACL SETUSER default resetkeys ~a"), "+OK\r\n");
  for (Client* c : {&memcached, &own}) {
    c->Send("get k\r\n");
    EXPECT_EQ(c->ReadAll(), "SERVER_ERROR clients without a password are not served any more\r\n");
  }
  Client late(agent_port());
  late.Send("get k\r\n");
  EXPECT_EQ(late.ReadAll().substr(0, 1), "-");
}

std::string Invalid(std::string_view key) {
  return absl::StrCat(">2\r\n$10\r\ninvalidate\r\n*1\r\n", Bulk(key));
}

TEST_F(AgentCommandTest, Tracking_TellsTheClientBehindItsReplies) {
  Client client(agent_port());
  Client other(agent_port());
  Client own(port());
  EXPECT_EQ(client.Ask("HELLO 3").substr(0, 1), "%");
  EXPECT_EQ(client.Ask("CLIENT TRACKING ON"), "+OK\r\n");
  for (Client* writer : {&other, &own, &client}) {
    EXPECT_NE(client.Ask("GET k"), "");
    EXPECT_EQ(writer->Ask("SET k v"), "+OK\r\n");
    EXPECT_EQ(client.Receive(), Invalid("k"));
  }
  // A pipeline, whose own writes are told of behind its replies.
  client.Send("GET k\r\nSET k w\r\nGET l\r\n");
  EXPECT_EQ(client.Receive(), Bulk("v"));
  EXPECT_EQ(client.Receive(), "+OK\r\n");
  EXPECT_EQ(client.Receive(), "_\r\n");
  EXPECT_EQ(client.Receive(), Invalid("k"));
  // Keys of many pieces.
  std::vector<std::string> keys;
  const std::string padding(1000, 'p');
  for (int i = 0; i < 300; ++i) keys.push_back(absl::StrCat(padding, i));
  for (const std::string& key : keys) EXPECT_EQ(client.Ask("GET " + key), "_\r\n");
  std::vector<std::string_view> words = {"DEL"};
  for (const std::string& key : keys) {
    EXPECT_EQ(own.Ask("SET " + key + " 1"), "+OK\r\n");
    words.push_back(key);
  }
  std::set<std::string> told;
  while (told.size() < keys.size()) {
    const std::string message = client.Receive();
    ASSERT_EQ(message.substr(0, 20), Invalid("").substr(0, 20));
    for (const std::string& key : keys) {
      if (message.find(Bulk(key)) != std::string::npos) told.insert(key);
    }
  }
  EXPECT_EQ(client.Ask("ECHO quiet"), Bulk("quiet"));
  // To another connection, of RESP2.
  Client target(agent_port());
  const std::string id = target.Ask("CLIENT ID").substr(1);
  EXPECT_EQ(target.Ask("SUBSCRIBE __redis__:invalidate"),
            "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n");
  EXPECT_EQ(other.Ask("CLIENT TRACKING ON REDIRECT " + id.substr(0, id.size() - 2)), "+OK\r\n");
  EXPECT_EQ(other.Ask("GET k"), Bulk("w"));
  EXPECT_EQ(own.Ask("DEL k"), ":1\r\n");
  EXPECT_EQ(target.Receive(),
            "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n");
  EXPECT_EQ(target.Ask("GET k").substr(0, 25), "-ERR Can't execute 'get':");
  EXPECT_EQ(own.Ask("CLIENT KILL TYPE pubsub"), ":1\r\n");
  EXPECT_EQ(target.ReadAll(), "");
}

// It is told of all at last, once it reads; the store keeps no more than what it says.
TEST_F(AgentCommandTest, TrackerThatReadsNothing_IsToldOfAllAtLast_AndIsBounded) {
  Client client(agent_port());
  EXPECT_EQ(client.Ask("HELLO 3").substr(0, 1), "%");
  EXPECT_EQ(client.Ask("CLIENT TRACKING ON BCAST"), "+OK\r\n");
  Client writer(port());
  ASSERT_EQ(writer.Ask("CONFIG SET maxmemory-policy allkeys-lru"), "+OK\r\n");
  const std::string padding(60'000, 'k');
  // More than sockets, the agent and the store keep together.
  for (int i = 0; i < 600; ++i) {
    ASSERT_EQ(writer.Ask(absl::StrCat("SET ", padding, i, " 1")), "+OK\r\n");
  }
  EXPECT_EQ(Client(agent_port()).Ask("PING"), "+PONG\r\n");
  size_t bytes = 0;
  std::string message;
  const std::string everything = ">2\r\n$10\r\ninvalidate\r\n_\r\n";
  while (message != everything) {
    message = client.Receive();
    ASSERT_EQ(message.substr(0, 20), Invalid("").substr(0, 20));
    bytes += message.size();
  }
  EXPECT_LT(bytes, 600u * 60'000);
  // Keys before it may be told of in the same message; or another "everything" is on its way, and
  // covers it.
  while (message == everything) {
    EXPECT_EQ(writer.Ask("SET last 1"), "+OK\r\n");
    do {
      message = client.Receive();
      ASSERT_NE(message, "");
    } while (message.find(Bulk("last")) == std::string::npos && message != everything);
  }
}

}  // namespace
}  // namespace pulse::kv
