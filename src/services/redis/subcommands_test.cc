// What the server says of commands and subcommands, in the words of redis-server 7.0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/redis/test_server.h"

namespace pulse::redis {
namespace {

using ::testing::StartsWith;

class SubcommandsTest : public ServerTest {
 protected:
  // Nobody else answers reads.
  SubcommandsTest() { options_.host_socket.clear(); }
};

// One name, many times, would make a reply of any size.
TEST_F(SubcommandsTest, CommandInfo_OfMoreNamesThanThereAre_IsRefused) {
  Open();
  BlockingClient client(port());
  std::string few;
  for (int i = 0; i < 150; ++i) few += " get";
  std::string many;
  for (int i = 0; i < 300; ++i) many += " get";
  for (const std::string sub : {"info", "docs"}) {
    EXPECT_THAT(client.Ask("command " + sub + many), StartsWith("-ERR more than "));
    EXPECT_THAT(client.Ask("command " + sub + few), StartsWith("*"));
  }
}

}  // namespace
}  // namespace pulse::redis
