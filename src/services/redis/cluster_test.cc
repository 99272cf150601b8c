#include "services/redis/cluster.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/testing.h"

namespace pulse::redis {
namespace {

// Values of Redis Cluster's specification, and of redis-server's CLUSTER KEYSLOT.
TEST(ClusterTest, SlotOf_KnownKeys_IsAsRedisHasIt) {
  EXPECT_EQ(SlotOf("123456789"), 0x31c3 % kSlots);
  EXPECT_EQ(SlotOf(""), 0);
  EXPECT_EQ(SlotOf("foo"), 12182);
  EXPECT_EQ(SlotOf("{user1000}.following"), SlotOf("user1000"));
  EXPECT_EQ(SlotOf("user1000"), 3443);
  EXPECT_EQ(SlotOf("foo{}{bar}"), 8363);
  EXPECT_EQ(SlotOf("foo{{bar}}zap"), SlotOf("{bar"));
  EXPECT_EQ(SlotOf("foo{bar}{zap}"), SlotOf("bar"));
  EXPECT_EQ(SlotOf("}bar{foo"), 1488);
}

TEST(ClusterTest, SlotOf_KeysOfAnyLength_IsTheirCrcBitByBit) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (size_t size = 0; size < 100; ++size) {
    std::string key;
    unsigned crc = 0;
    for (size_t i = 0; i < size; ++i) {
      key.push_back(static_cast<char>(random() % 123));  // none is a '{'
      crc ^= static_cast<unsigned>(key.back()) << 8;
      for (int bit = 0; bit < 8; ++bit) crc = (crc << 1 ^ (crc >> 15) * 0x11021) & 0xffff;
    }
    EXPECT_EQ(SlotOf(key), static_cast<int>(crc % kSlots)) << size;
  }
}

TEST(ClusterTest, Nodes_AnyNumber_ShareAllSlots) {
  for (int count = 1; count <= 64; ++count) {
    const Cluster cluster(true, count, "host");
    ASSERT_EQ(cluster.nodes().size(), static_cast<size_t>(count));
    int next = 0;
    for (int i = 0; i < count; ++i) {
      const Cluster::Node& node = cluster.nodes()[static_cast<size_t>(i)];
      EXPECT_EQ(node.id.size(), 40u);
      ASSERT_EQ(node.first_slot, next);
      ASSERT_GE(node.last_slot, node.first_slot);
      for (int slot = node.first_slot; slot <= node.last_slot; ++slot) {
        ASSERT_EQ(cluster.NodeOf(slot), i) << slot;
      }
      next = node.last_slot + 1;
    }
    EXPECT_EQ(next, kSlots);
  }
}

TEST(ClusterTest, Endpoints_NotInClusterMode_AreOneWithAllSlots) {
  Cluster cluster(false, 4, "host");
  cluster.Listen({6379});
  ASSERT_EQ(cluster.nodes().size(), 1u);
  EXPECT_EQ(cluster.nodes()[0].last_slot, kSlots - 1);
  EXPECT_EQ(cluster.AddressOf(0), "host:6379");
}

}  // namespace
}  // namespace pulse::redis
