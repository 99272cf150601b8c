#include "services/redis/group_pacer.h"

#include <gtest/gtest.h>

#include <array>

namespace pulse::redis {
namespace {

constexpr int64_t kMicro = 1000;

TEST(GroupPacerTest, ClientThatIsAlone_NeverWaits) {
  GroupPacer pacer;
  GroupPacer::Seen client;
  for (int64_t now = 1; now < 20'000 * kMicro; now += 37 * kMicro) {
    pacer.Count(now, 1, &client);
    EXPECT_TRUE(pacer.MayGo(now)) << now;
    pacer.Gone();
  }
}

TEST(GroupPacerTest, SeveralClients_WaitForEachOther) {
  GroupPacer pacer;
  std::array<GroupPacer::Seen, 5> clients;
  int64_t now = 1;
  const auto round = [&] {
    std::array<bool, 5> may_go;
    for (size_t i = 0; i < clients.size(); ++i) {
      pacer.Count(now += 10 * kMicro, 1, &clients[i]);
      may_go[i] = pacer.MayGo(now);
    }
    pacer.Gone();
    return may_go;
  };
  round();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(round(), (std::array{false, false, false, false, true})) << i;
  }
}

TEST(GroupPacerTest, OneDoesNotAsk_OthersGoAfterTheLongestTime) {
  GroupPacer pacer;
  GroupPacer::Seen first;
  GroupPacer::Seen second;
  pacer.Count(1, 1, &first);
  pacer.Count(1, 1, &second);
  EXPECT_TRUE(pacer.MayGo(1));
  pacer.Gone();
  const int64_t now = 100 * kMicro;
  pacer.Count(now, 1, &first);
  EXPECT_FALSE(pacer.MayGo(now));
  EXPECT_EQ(pacer.goes_at(), now + GroupPacer::kLongestNanos);
  EXPECT_FALSE(pacer.MayGo(pacer.goes_at() - 1));
  EXPECT_TRUE(pacer.MayGo(pacer.goes_at()));
}

// A group is away, so that MayGo is asked late.
TEST(GroupPacerTest, AskedLate_TimeCountsFromTheFirstRequest) {
  GroupPacer pacer;
  GroupPacer::Seen first;
  GroupPacer::Seen second;
  pacer.Count(1, 1, &first);
  pacer.Count(1, 1, &second);
  EXPECT_TRUE(pacer.MayGo(1));
  pacer.Gone();
  pacer.Count(100 * kMicro, 1, &first);
  EXPECT_TRUE(pacer.MayGo(100 * kMicro + GroupPacer::kLongestNanos));
}

TEST(GroupPacerTest, EnoughRequests_GoAtOnce) {
  GroupPacer pacer;
  GroupPacer::Seen first;
  GroupPacer::Seen second;
  pacer.Count(1, 1, &first);
  pacer.Count(1, 1, &second);
  pacer.Gone();
  pacer.Count(100 * kMicro, GroupPacer::kEnough - 1, &first);
  EXPECT_FALSE(pacer.MayGo(100 * kMicro));
  pacer.Count(100 * kMicro, 1, &first);
  EXPECT_TRUE(pacer.MayGo(100 * kMicro));
}

TEST(GroupPacerTest, OthersLeave_WhoIsLeftWaitsNoMore) {
  GroupPacer pacer;
  GroupPacer::Seen stays;
  GroupPacer::Seen leaves;
  pacer.Count(1, 1, &stays);
  pacer.Count(1, 1, &leaves);
  EXPECT_TRUE(pacer.MayGo(1));
  pacer.Gone();
  int64_t now = 0;
  for (int i = 0; i < 3; ++i) {
    now += GroupPacer::kPeriodNanos;
    pacer.Count(now, 1, &stays);
    pacer.MayGo(now);
    pacer.Gone();
  }
  pacer.Count(now + 1, 1, &stays);
  EXPECT_TRUE(pacer.MayGo(now + 1));
}

}  // namespace
}  // namespace pulse::redis
