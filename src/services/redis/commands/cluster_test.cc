#include "services/redis/commands/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

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

TEST(ClusterTest, SlotRange_AnyPieces_ShareItsSlots) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 200; ++round) {
    SlotRange range;
    range.first = static_cast<int>(random() % kSlots);
    range.last =
        range.first + static_cast<int>(random() % static_cast<uint64_t>(kSlots - range.first));
    const int count =
        1 + static_cast<int>(random() % static_cast<uint64_t>(std::min(range.size(), 300)));
    int next = range.first;
    for (int i = 0; i < count; ++i) {
      const SlotRange piece = range.Piece(i, count);
      ASSERT_EQ(piece.first, next);
      ASSERT_GE(piece.last, piece.first);
      EXPECT_LE(piece.size(), (range.size() + count - 1) / count);
      next = piece.last + 1;
    }
    ASSERT_EQ(next, range.last + 1);
  }
}

TEST(ClusterTest, Nodes_OfEveryShare_KeepEachSlotOnce) {
  for (const int processes : {2, 3, 7}) {
    std::vector<int> keepers(kSlots);
    for (int p = 0; p < processes; ++p) {
      Cluster cluster(true, 3, "host", SlotRange{}.Piece(p, processes));
      ASSERT_TRUE(cluster.spread());
      cluster.Listen({7000, 7001, 7002});
      for (int slot = 0; slot < kSlots; ++slot) {
        const int node = cluster.NodeOf(slot);
        ASSERT_TRUE(node >= 0 && node < 3);
        for (int i = 0; i < 3; ++i) {
          ASSERT_EQ(cluster.Serves(slot, i), cluster.slots().Has(slot) && i == node) << slot;
        }
        if (!cluster.slots().Has(slot)) continue;
        ASSERT_TRUE(cluster.nodes()[static_cast<size_t>(node)].slots().Has(slot));
        ++keepers[static_cast<size_t>(slot)];
      }
    }
    EXPECT_EQ(std::count(keepers.begin(), keepers.end(), 1), kSlots);
  }
}

TEST(ClusterTest, Members_OfOtherProcesses_OwnTheirSlotsWhileTheyServe) {
  Cluster cluster(true, 2, "a", SlotRange{}.Piece(0, 2));
  cluster.Listen({1, 2});
  EXPECT_EQ(cluster.nodes()[1].id, NodeIdOf("a", 2));
  EXPECT_EQ(cluster.OwnerOf(0), "a:1");
  EXPECT_EQ(cluster.OwnerOf(8192), "");
  Cluster::Members members = *cluster.members();
  ASSERT_EQ(members.size(), 2u);
  Cluster::Member other;
  other.id = NodeIdOf("b", 3);
  other.host = "b";
  other.port = 3;
  other.first_slot = 8192;
  other.last_slot = kSlots - 1;
  members.push_back(other);
  cluster.SetMembers(members);
  EXPECT_EQ(cluster.OwnerOf(8192), "b:3");
  EXPECT_TRUE(cluster.Serves(8191, 1));
  EXPECT_FALSE(cluster.Serves(8192, 1));
  members[2].state = Cluster::State::kFailed;
  // Another process has the slots of this one's second node.
  members[1].state = Cluster::State::kSuperseded;
  cluster.SetMembers(members);
  EXPECT_EQ(cluster.OwnerOf(8192), "");
  EXPECT_FALSE(cluster.Serves(8191, 1));
  EXPECT_TRUE(cluster.Serves(0, 0));
}

TEST(ClusterTest, Endpoints_NotInClusterMode_AreOneWithAllSlots) {
  Cluster cluster(false, 4, "host");
  cluster.Listen({6379});
  ASSERT_EQ(cluster.nodes().size(), 1u);
  EXPECT_EQ(cluster.nodes()[0].last_slot, kSlots - 1);
  EXPECT_EQ(cluster.AddressOf(0), "host:6379");
}

TEST(ClusterTest, Announce_APortInFrontOfTheServer_IsWhatClientsAreTold) {
  Cluster cluster(/*enabled=*/false, /*nodes=*/2, "10.0.0.1");
  cluster.Announce(6380);
  cluster.Listen({6379});
  EXPECT_EQ(cluster.AddressOf(0), "10.0.0.1:6380");
  ASSERT_EQ(cluster.members()->size(), 1u);
  EXPECT_EQ(cluster.members()->front().port, 6380);
}

}  // namespace
}  // namespace pulse::redis
