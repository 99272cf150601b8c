// Redis's and memcached's clients on one port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/kv/test_server.h"

namespace pulse::kv::memcached {
namespace {

using ::testing::HasSubstr;

// A client of memcached's protocol, whose replies are lines.
class LineClient {
 public:
  explicit LineClient(uint16_t port) : client_(port) {}
  // All that comes until the server closes the connection.
  std::string SendAndRead(const std::string& bytes) {
    client_.Send(bytes);
    client_.ShutDown();
    return client_.ReadAll();
  }

 private:
  redis::BlockingClient client_;
};

using DetectionTest = KvServerTest;

TEST_F(DetectionTest, Port_ClientsOfBothProtocols_ShareTheKeys) {
  Open();
  redis::BlockingClient redis_client(port());
  EXPECT_EQ(LineClient(port()).SendAndRead("set a 5 0 2\r\nhi\r\ngets a\r\n"),
            "STORED\r\nVALUE a 5 2 1\r\nhi\r\nEND\r\n");
  EXPECT_EQ(redis_client.Ask("GET a"), "$2\r\nhi\r\n");
  EXPECT_EQ(redis_client.Ask("SET b 1"), "+OK\r\n");
  EXPECT_EQ(LineClient(port()).SendAndRead("get b\r\nmg b v\r\n"),
            "VALUE b 0 1\r\n1\r\nEND\r\nVA 1\r\n1\r\n");
  // Redis's own form, a word of its own, and one that comes in pieces.
  EXPECT_EQ(redis_client.Ask("*2\r\n$3\r\nGET\r\n$1\r\nb"), "$1\r\n1\r\n");
  EXPECT_EQ(redis::BlockingClient(port()).Ask("PING"), "+PONG\r\n");
  redis::BlockingClient slow(port());
  slow.Send("PI");
  EXPECT_EQ(redis_client.Ask("PING"), "+PONG\r\n");
  EXPECT_EQ(slow.Ask("NG"), "+PONG\r\n");
}

TEST_F(DetectionTest, ClientsWithoutARequest_AreCounted) {
  Open();
  redis::BlockingClient asker(port());
  const redis::BlockingClient silent(port());
  EXPECT_TRUE(testing_util::Eventually(
      [&] { return asker.Ask("INFO clients").find("connected_clients:2") != std::string::npos; }));
  // One that turns out to be memcached's is none of Redis's.
  EXPECT_EQ(LineClient(port()).SendAndRead("get a\r\n"), "END\r\n");
  EXPECT_TRUE(testing_util::Eventually(
      [&] { return asker.Ask("INFO clients").find("connected_clients:2") != std::string::npos; }));
}

TEST_F(DetectionTest, Cluster_MemcachedClientOfAnyPort_AsksForAnyKey) {
  cluster_ = std::make_unique<redis::Cluster>(true, 3, "127.0.0.1");
  Open(3);
  const auto& nodes = cluster_->nodes();
  for (int i = 0; i < 60; ++i) {
    const std::string key = absl::StrCat("k", i);
    EXPECT_EQ(LineClient(nodes[static_cast<size_t>(i % 3)].port)
                  .SendAndRead(absl::StrCat("set ", key, " 0 0 1\r\nx\r\n")),
              "STORED\r\n");
    const int owner = cluster_->NodeOf(redis::SlotOf(key));
    EXPECT_EQ(redis::BlockingClient(nodes[static_cast<size_t>(owner)].port).Ask("GET " + key),
              "$1\r\nx\r\n");
  }
  // 1 version, 2 blanks between three endpoints, 2 ends of lines.
  std::string list = "1\n";
  for (const auto& node : nodes) {
    absl::StrAppend(&list, node.first_slot == 0 ? "" : " ", "127.0.0.1|127.0.0.1|", node.port);
  }
  list += "\n";
  for (const auto& node : nodes) {
    EXPECT_EQ(LineClient(node.port).SendAndRead("config get cluster\r\n"),
              absl::StrCat("CONFIG cluster 0 ", list.size(), "\r\n", list, "\r\nEND\r\n"));
  }
}

TEST_F(DetectionTest, Config_OneEndpoint_IsListedAndOthersAreRedisOwn) {
  cluster_ = std::make_unique<redis::Cluster>(false, 1, "cache.example");
  Open(2);
  const std::string list = absl::StrCat("1\ncache.example||", port(), "\n");
  EXPECT_EQ(LineClient(port()).SendAndRead("config get cluster\nconfig get x\r\n"),
            absl::StrCat("CONFIG cluster 0 ", list.size(), "\r\n", list, "\r\nEND\r\nERROR\r\n"));
  EXPECT_THAT(redis::BlockingClient(port()).Ask("config get maxclients"), HasSubstr("maxclients"));
  EXPECT_THAT(redis::BlockingClient(port()).Ask("config get cluster-enabled"),
              HasSubstr("$2\r\nno\r\n"));
}

TEST_F(DetectionTest, Config_HostNotKnown_SaysHowToTellIt) {
  cluster_ = std::make_unique<redis::Cluster>(false, 1, "");
  Open();
  EXPECT_THAT(LineClient(port()).SendAndRead("config get cluster\r\n"),
              HasSubstr("--announce-host"));
}

TEST_F(DetectionTest, Password_ForMemcachedClients_CannotBeGoneAround) {
  options_.password = "secret";
  Open();
  const std::string reply = LineClient(port()).SendAndRead("get a\r\n");
  EXPECT_THAT(reply, HasSubstr("-NOAUTH"));
}

}  // namespace
}  // namespace pulse::kv::memcached
