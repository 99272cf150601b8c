// What replies may hold, together, while nobody takes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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
  // Nobody is cut off within seconds for taking nothing while others wait: what is held stays.
  options_.patience_ms = 0;
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
    // More than the kernel takes of them.
    for (int k = 0; k < 8; ++k) clients.back()->Send("get k\r\n");
  }
  BlockingClient other(port());
  uint64_t highest = 0;
  const auto look = [&] { highest = std::max(highest, server_->numbers().held_bytes); };
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(other.Ask("ping"), "+PONG\r\n");
    look();
  }
  EXPECT_TRUE(testing_util::Eventually([&] {
    look();
    return highest > (uint64_t{12} << 20);
  })) << highest;
  // What there is room for is answered, and the rest waits.
  testing_util::SettledValue([&] {
    look();
    return server_->numbers().held_bytes;
  });
  EXPECT_LT(highest, uint64_t{56} << 20);
  clients.clear();
  EXPECT_EQ(other.Ask("get k").size(), value.size() + 12);
}

}  // namespace
}  // namespace pulse::redis
