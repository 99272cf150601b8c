// Redis's and memcached's clients on one port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

TEST_F(DetectionTest, ClientsThatHaveSaidNothing_AreListed) {
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

TEST_F(DetectionTest, Password_ForMemcachedClients_CannotBeGoneAround) {
  options_.password = "secret";
  Open();
  const std::string reply = LineClient(port()).SendAndRead("get a\r\n");
  EXPECT_THAT(reply, HasSubstr("-NOAUTH"));
}

}  // namespace
}  // namespace pulse::kv::memcached
