// What replies may hold, together, while nobody takes them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/redis/commands/codec.h"
#include "services/redis/test_server.h"

namespace pulse::redis {
namespace {

using RoomTest = ServerTest;

TEST_F(RoomTest, LargeValues_ManyClientsThatDoNotRead_HoldNoMoreThanTheBuffers) {
  options_.buffer_bytes = uint64_t{64} << 20;  // half of it for connections
  Open();
  const std::string value(size_t{4} << 20, 'v');
  BlockingClient writer(port());
  std::string set;
  AppendRequest({"SET", "k", value}, &set);
  ASSERT_EQ(writer.Ask(set), "+OK\r\n");
  constexpr int kClients = 40;
  std::vector<std::unique_ptr<BlockingClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<BlockingClient>(port()));
    clients.back()->Send("get k\r\n");
    clients.back()->Send("get k\r\n");
  }
  BlockingClient other(port());
  for (int i = 0; i < 50; ++i) ASSERT_EQ(other.Ask("ping"), "+PONG\r\n");
  EXPECT_TRUE(testing_util::Eventually(
      [&] { return server_->numbers().held_bytes > (uint64_t{12} << 20); }));
  EXPECT_LT(server_->numbers().held_bytes, uint64_t{56} << 20);
  // Those who take nothing while others wait may be cut off; whoever reads gets all of it.
  clients.clear();
  EXPECT_EQ(other.Ask("get k").size(), value.size() + 12);
}

}  // namespace
}  // namespace pulse::redis
