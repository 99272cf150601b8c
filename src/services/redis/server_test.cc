// The server by its sockets: order, authentication, fences, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "net/director.h"
#include "services/redis/codec.h"
#include "services/redis/commands.h"
#include "services/redis/offload_resp.h"
#include "services/redis/serve.h"
#include "services/redis/users.h"

namespace pulse::resp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A client that blocks.
class Client {
 public:
  explicit Client(uint16_t port) {
    fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Connect(reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  explicit Client(const std::string& path) {
    fd_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    Connect(reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // One reply; empty at the end of the stream.
  std::string Receive() {
    ReplySplitter splitter;
    while (true) {
      const auto size = splitter.Next(in_);
      EXPECT_TRUE(size.ok()) << size.status();
      if (!size.ok()) return "";
      if (*size > 0) {
        std::string reply = in_.substr(0, *size);
        in_.erase(0, *size);
        return reply;
      }
      char buffer[65536];
      const ssize_t n = recv(fd_.get(), buffer, sizeof(buffer), 0);
      if (n <= 0) return "";
      in_.append(buffer, static_cast<size_t>(n));
    }
  }
  std::string Ask(const std::string& line) {
    Send(line + "\r\n");
    return Receive();
  }
  void ShutDown() { shutdown(fd_.get(), SHUT_WR); }
  void Close() { fd_.reset(); }

 private:
  void Connect(const sockaddr* address, socklen_t size) {
    ASSERT_EQ(connect(fd_.get(), address, size), 0) << strerror(errno);
  }
  UniqueFd fd_;
  std::string in_;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : db_("serve-db") {
    options_.db = db_.get();
    options_.cache_bytes = 4 << 20;
    options_.host_socket = "/tmp/pulse-resp-test-" + std::to_string(getpid()) + ".sock";
  }
  ~ServerTest() override {
    server_.reset();
    std::filesystem::remove_all(db_.get());
  }
  void Open() {
    auto server = Server::Open(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void OpenWithAgent() {
    options_.offload = true;
    auto server = Server::Open(options_, EmbeddedOffload());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  uint16_t port() const { return server_->port(); }

  testing_util::ScratchPath db_;
  ServeOptions options_;
  std::unique_ptr<Server> server_;
};

// Commands that answer at once and commands that wait are mixed; replies come in their order, and
// each command sees what those before it have done.
TEST_F(ServerTest, PipelinesInOrder) {
  options_.threads = 2;
  Open();
  const uint64_t seed = testing_util::TestSeed();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(t));
      Client client(port());
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

TEST_F(ServerTest, BadRequestsEndOneConnection) {
  options_.limits.max_bulk = 1 << 20;
  Open();
  Client other(port());
  EXPECT_EQ(other.Ask("set a 1"), "+OK\r\n");
  for (const char* bad : {"*1\r\n$-5\r\n", "*x\r\n", "*1\r\n$1048577\r\n", "set 'a\r\n"}) {
    Client client(port());
    client.Send(std::string("get a\r\n") + bad);
    EXPECT_EQ(client.Receive(), "$1\r\n1\r\n");
    EXPECT_THAT(client.Receive(), StartsWith("-ERR Protocol error: "));
    EXPECT_EQ(client.Receive(), "");
  }
  EXPECT_EQ(other.Ask("get a"), "$1\r\n1\r\n");
}

TEST_F(ServerTest, RepliesOutliveHalfClosing) {
  Open();
  Client client(port());
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += "append a x\r\nkeys a\r\n";
  client.Send(requests + "strlen a\r\n");
  client.ShutDown();
  std::string last;
  for (std::string reply = client.Receive(); !reply.empty(); reply = client.Receive()) last = reply;
  EXPECT_EQ(last, ":500\r\n");
}

// A client that asks for much and reads nothing costs what the limits say, and nothing is lost.
TEST_F(ServerTest, ClientThatDoesNotRead) {
  Open();
  Client client(port());
  const std::string value(1 << 20, 'v');
  std::string set;
  AppendRequest({"set", "large", value}, &set);
  client.Send(set);
  ASSERT_EQ(client.Receive(), "+OK\r\n");
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += "get large\r\n";
  client.Send(requests);
  Client other(port());
  EXPECT_EQ(other.Ask("ping"), "+PONG\r\n");
  EXPECT_TRUE(testing_util::Eventually([&] { return server_->numbers().held_bytes > 0; }));
  uint64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    most = std::max(most, server_->numbers().held_bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_LT(most, uint64_t{16} << 20);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(client.Receive().size(), value.size() + 12) << i;
}

// Large requests behind one that waits for the client are not read until there is room for them:
// here behind replies that it does not take, each large enough that they are made one by one.
TEST_F(ServerTest, RequestsThatWaitAreNotReadWithoutLimit) {
  Open();
  Client client(options_.host_socket);  // little room in the sockets' buffers
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
  int last = -1;
  int same = 0;
  testing_util::Eventually([&] {
    const int now = sent.load();
    same = now == last ? same + 1 : 0;
    last = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return same >= 50;
  });
  EXPECT_LT(last, kLarge);
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

TEST_F(ServerTest, Passwords) {
  options_.password = "secret";
  Open();
  Client client(port());
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
  Client stranger(port());
  stranger.Send("*1\r\n$20000\r\n");
  EXPECT_THAT(stranger.Receive(), HasSubstr("unauthenticated bulk length"));
}

// What comes with the password may be as long as what comes after it; with a wrong one it may not.
TEST_F(ServerTest, APasswordAndMoreInOnePiece) {
  options_.password = "secret";
  OpenWithAgent();
  std::string many;
  AppendRequest({"mset", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6"}, &many);
  std::string more = many;
  AppendRequest({"set", "long", std::string(20'000, 'v')}, &more);
  const auto ask = [&](Client* client) {
    client->Send("auth secret\r\n" + more);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client->Receive(), "+OK\r\n");
    client->Send("reset\r\nhello 2 auth default secret\r\n" + more);
    EXPECT_EQ(client->Receive(), "+RESET\r\n");
    EXPECT_THAT(client->Receive(), StartsWith("*14\r\n"));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(client->Receive(), "+OK\r\n");
  };
  Client client(port());
  ask(&client);
  Client direct(options_.host_socket);
  ask(&direct);
  // To the host alone, as an agent learns only by and by that there are passwords.
  Client stranger(options_.host_socket);
  stranger.Send("auth wrong\r\n" + many);
  EXPECT_THAT(stranger.Receive(), StartsWith("-WRONGPASS"));
  EXPECT_THAT(stranger.Receive(), StartsWith("-NOAUTH"));
  stranger.Send("*1\r\n$20000\r\n");
  EXPECT_THAT(stranger.Receive(), HasSubstr("unauthenticated bulk length"));
}

// A web page can have a browser send this.
TEST_F(ServerTest, HttpIsCutOff) {
  OpenWithAgent();
  Client other(port());
  EXPECT_EQ(other.Ask("set k v"), "+OK\r\n");
  for (const char* head : {"POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"}) {
    for (const bool direct : {false, true}) {
      Client page = direct ? Client(options_.host_socket) : Client(port());
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

// Nobody has to send an EXEC: what is kept until then has limits, and is free when its client is
// gone.
TEST_F(ServerTest, TransactionsThatDoNotEndHaveALimit) {
  Open();
  std::string large = "multi\r\n";
  AppendRequest({"set", "k", std::string(31 << 20, 'v')}, &large);
  AppendRequest({"set", "k", std::string(31 << 20, 'v')}, &large);
  const auto hoard = [&](Client* client) {
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
  std::vector<std::unique_ptr<Client>> clients;
  int queued = 0;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
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
    Client client(port());
    return hoard(&client) == 2;
  }));
}

TEST_F(ServerTest, WatchedKeysHaveALimit) {
  Open();
  Client client(port());
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
  Client other(port());
  EXPECT_EQ(other.Ask("set k7 v"), "+OK\r\n");
  EXPECT_EQ(client.Ask("multi"), "+OK\r\n");
  EXPECT_EQ(client.Ask("exec"), "*-1\r\n");
  EXPECT_EQ(watch(0, 10'000), "+OK\r\n");
  EXPECT_EQ(client.Ask("unwatch"), "+OK\r\n");
  EXPECT_THAT(client.Ask("info stats"), HasSubstr("watched_keys:0\r\n"));
}

TEST_F(ServerTest, AHelloThatFailsHasDoneNothing) {
  const testing_util::ScratchPath users("serve-users");
  std::ofstream(users.get()) << "user default on >d ~* +@all\nuser a on >a ~* +@read\n"
                                "user b on >b ~* +@all\n";
  options_.users_file = users.get();
  Open();
  Client client(port());
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
TEST_F(ServerTest, AnAgentAnswersOnlyWhoMayRead) {
  const testing_util::ScratchPath users("serve-users");
  std::ofstream(users.get()) << "user default on nopass ~* +@write\nuser all on >a ~* +@all\n"
                                "user writer on >w ~* +@write\n";
  options_.users_file = users.get();
  OpenWithAgent();
  ASSERT_NE(server_->agent(), nullptr);
  const uint64_t commands = server_->numbers().commands;
  const auto offloaded = [](Client* client) {
    EXPECT_EQ(client->Ask("auth all a"), "+OK\r\n");
    const std::string before = client->Ask("info offload");
    const std::string line = before.substr(before.find("offload_reads:"));
    EXPECT_TRUE(testing_util::Eventually([&] {
      EXPECT_EQ(client->Ask("get k"), "$1\r\nv\r\n");
      return client->Ask("info offload").find(line.substr(0, line.find('\r') + 1)) ==
             std::string::npos;
    }));
  };
  Client client(port());
  EXPECT_EQ(client.Ask("set k v"), "+OK\r\n");
  offloaded(&client);
  Client stranger(port());
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
  const director::DirectorStats agent = server_->agent()->stats();
  EXPECT_GT(numbers.commands, commands);
  EXPECT_GE(numbers.errors, 4u);
  EXPECT_GE(numbers.connections, 2u);
  EXPECT_GT(numbers.loop_cpu_nanos, 0);
  EXPECT_GE(agent.requests, agent.forwarded + 2);
  EXPECT_EQ(agent.connections, 2u);
}

TEST_F(ServerTest, TransactionsByConnection) {
  Open();
  Client a(port());
  Client b(port());
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

TEST_F(ServerTest, FencesWaitForConnectionsAndTheirWork) {
  options_.password = "secret";
  Open();
  Client stranger(port());
  EXPECT_THAT(stranger.Ask("pulse.fence a"), HasSubstr("unknown command"));
  Client fence(options_.host_socket);
  const std::string digest = " " + CommandsDigest();
  const std::string run_id = fence.Ask("pulse.fence a" + digest);
  EXPECT_EQ(run_id.size(), 5u + 40 + 2);
  Client mine(options_.host_socket);
  EXPECT_EQ(mine.Ask("pulse.hello a" + digest), run_id);
  EXPECT_EQ(mine.Ask("auth secret"), "+OK\r\n");
  Client another(options_.host_socket);
  EXPECT_EQ(another.Ask("pulse.hello b" + digest), run_id);
  // Agents of other releases.
  for (const char* other : {"pulse.hello c", "pulse.hello c 0000000000000000", "pulse.hello c 0 0",
                            "pulse.fence a", "pulse.fence a 0"}) {
    EXPECT_THAT(another.Ask(other), HasSubstr("run both from the same release")) << other;
  }
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
  Client third(options_.host_socket);
  EXPECT_EQ(third.Ask("pulse.hello agent:1" + digest), run_id);
  EXPECT_EQ(third.Ask("auth secret"), "+OK\r\n");
  EXPECT_EQ(another.Ask("pulse.hello other:1" + digest), run_id);
  EXPECT_EQ(fence.Ask("pulse.fence !agent:" + digest), run_id);
  EXPECT_EQ(another.Receive(), "");
  EXPECT_EQ(third.Ask("ping"), "+PONG\r\n");
}

TEST_F(ServerTest, ClientsAreListed) {
  Open();
  Client a(port());
  Client b(port());
  EXPECT_EQ(a.Ask("client setname first"), "+OK\r\n");
  EXPECT_EQ(b.Ask("client setname second"), "+OK\r\n");
  const auto id = [](Client& client) {
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
  EXPECT_EQ(a.Ask("client list type replica"), "$0\r\n\r\n");
  EXPECT_THAT(a.Ask("client list type odd"), HasSubstr("Unknown client type 'odd'"));
  EXPECT_THAT(a.Ask("client list id 0"), HasSubstr("Invalid client ID"));
  EXPECT_THAT(a.Ask("client list id"), HasSubstr("syntax error"));
  EXPECT_THAT(a.Ask("client list first"), HasSubstr("syntax error"));
}

TEST_F(ServerTest, RefusesToBeOpen) {
  options_.bind = "0.0.0.0";
  EXPECT_THAT(Server::Open(options_).status().message(), HasSubstr("--insecure"));
  options_.password = "secret";
  Open();
}

TEST_F(ServerTest, RefusesToBeOpenToAnyUser) {
  const testing_util::ScratchPath users("serve-users");
  std::ofstream(users.get()) << "user default off\nuser eve off nopass +@all\n"
                                "user bob on nopass +@all\n";
  options_.users_file = users.get();
  options_.bind = "0.0.0.0";
  EXPECT_THAT(Server::Open(options_).status().message(), HasSubstr("user bob may"));
  options_.bind = "127.0.0.1";
  Open();
}

TEST(UsersTest, FilesAndPermissions) {
  const std::string hash = Sha256("pw");
  const auto users = Users::Parse("# who\n\nuser a on #" + hash +
                                      " ~* +@read\nuser w on >pw +@read +@write\n"
                                      "user off off >pw +@all\nuser default off nopass +@all\n"
                                      "user writer on >pw +@write\n",
                                  "file");
  ASSERT_TRUE(users.ok()) << users.status();
  const User* a = users->Check("a", "pw");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(users->Check("a", "px"), nullptr);
  EXPECT_EQ(users->Check("off", "pw"), nullptr);
  EXPECT_EQ(users->Check("nobody", "pw"), nullptr);
  EXPECT_EQ(users->Anonymous(), nullptr);
  EXPECT_TRUE(a->May(*FindCommand("get")));
  EXPECT_TRUE(a->May(*FindCommand("ping")));
  EXPECT_FALSE(a->May(*FindCommand("set")));
  EXPECT_FALSE(a->May(*FindCommand("getdel")));
  EXPECT_FALSE(a->May(*FindCommand("config")));
  EXPECT_TRUE(users->Check("w", "pw")->May(*FindCommand("incr")));
  // What SET's option GET tells is only for those who may read.
  const User* writer = users->Check("writer", "pw");
  ASSERT_NE(writer, nullptr);
  const CommandInfo& set = *FindCommand("set");
  EXPECT_TRUE(writer->May(set, {"set", "get", "get"}));
  EXPECT_TRUE(writer->May(set, {"set", "k", "v", "nx"}));
  EXPECT_FALSE(writer->May(set, {"set", "k", "v", "nx", "Get"}));
  EXPECT_FALSE(a->May(set, {"set", "k", "v", "get"}));
  EXPECT_TRUE(users->Check("w", "pw")->May(set, {"SET", "k", "v", "GET"}));
  for (const char* bad :
       {"user", "nobody", "user a on >pw +@everything", "user a #12", "user a\nuser a", ""}) {
    EXPECT_FALSE(Users::Parse(bad, "file").ok()) << bad;
  }
}

}  // namespace
}  // namespace pulse::resp
