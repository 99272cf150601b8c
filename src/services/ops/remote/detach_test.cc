// Message groups that a host gives back while its session goes on: the agent has room for others,
// and nothing that was under way in one does harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "services/ops/codecs.h"
#include "services/ops/remote/check.h"
#include "services/ops/remote/test_agent.h"
#include "services/ops/remote/wire.h"

namespace pulse::ops::remote {
namespace {

using testing_util::TestSeed;

constexpr GroupShape kSmall = {1 << 16, 1 << 16, 16};

std::unique_ptr<MessageChannel> Open(const std::string& socket) {
  const LinkOptions link{.service = {kServiceId, kServiceVersion}, .socket_path = socket};
  return MessageChannel::Open(link, "pulse agent --ops").value();
}

class Answers : public HostMessageGroup::Taker {
 public:
  std::vector<int64_t> results;

 private:
  bool OnResponse(const TakenResponse& response, uint32_t) override {
    results.push_back(response.result);
    return false;
  }
  void OnLost(uint64_t, uint32_t) override { results.push_back(INT64_MIN); }
};

// False when there is no room.
template <typename Header>
bool Send(HostMessageGroup* to, MessageKind kind, Header header, const std::string& body = "") {
  const uint32_t slot = to->TakeSlot(&header.id);
  return slot != HostMessageGroup::kNoSlot &&
         to->Submit(slot, header.id, KindOf(kind), {&header, sizeof(header)},
                    {body.data(), body.size()})
             .ok();
}

int64_t MakeOperator(HostMessageGroup* group, uint32_t number) {
  Prepare prepare{};
  prepare.number = number;
  prepare.kind = static_cast<uint8_t>(EngineOrder::Kind::kCompress);
  prepare.codec = static_cast<uint8_t>(Codec::kZlib);
  prepare.level = 1;
  EXPECT_TRUE(Send(group, MessageKind::kPrepare, prepare));
  Answers made;
  EXPECT_TRUE(group->Wait(&made, 1, HostMessageGroup::kForever).ok());
  return made.results.empty() ? INT64_MIN : made.results.front();
}

ChunkRequest RequestFor(const std::string& body) {
  ChunkRequest request{};
  request.bytes = body.size();
  request.crc = Crc32(body);
  return request;
}

class DetachTest : public testing::TestWithParam<MoverKind> {
 protected:
  // Nothing of a host is left once it has gone, and others are served.
  void TearDown() override {
    EXPECT_TRUE(testing_util::Eventually([&] {
      return agent_.counters().operators == 0 && agent_.counters().undelivered == 0 &&
             agent_.counters().waiting == 0;
    }));
    const auto channel = Open(agent_.socket());
    const auto group = HostMessageGroup::Create(channel.get(), kSmall).value();
    EXPECT_EQ(MakeOperator(group.get(), 1), 0);
    channel->Close();
  }

  TestAgent agent_{1, GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Movers, DetachTest,
                         testing::Values(MoverKind::kShared, MoverKind::kVmRead));

TEST_P(DetachTest, Groups_GivenBack_MakeRoomForOthers) {
  const auto channel = Open(agent_.socket());
  std::vector<std::unique_ptr<HostMessageGroup>> groups;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < OpsService::kMostGroups; ++i) {
      auto group = HostMessageGroup::Create(channel.get(), kSmall);
      ASSERT_EQ(group.status(), absl::OkStatus()) << round << ", " << i;
      groups.push_back(*std::move(group));
    }
    EXPECT_TRUE(
        absl::IsResourceExhausted(HostMessageGroup::Create(channel.get(), kSmall).status()));
    for (const auto& group : groups) EXPECT_TRUE(group->End());
    groups.clear();
  }
  channel->Close();
}

TEST_P(DetachTest, Group_WithChunksUnderWay_IsGivenBack) {
  const auto channel = Open(agent_.socket());
  const auto other = HostMessageGroup::Create(channel.get(), {1 << 20, 1 << 20, 16}).value();
  ASSERT_EQ(MakeOperator(other.get(), 0), 0);
  std::mt19937_64 random(TestSeed());
  std::string noise(15'000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  for (int round = 0; round < 50; ++round) {
    const auto group = HostMessageGroup::Create(channel.get(), {1 << 20, 1 << 16, 64}).value();
    // More than its response buffer takes; some are answered, some under way, some not yet taken.
    const size_t count = random() % 31;
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(Send(group.get(), MessageKind::kChunk, RequestFor(noise), noise));
    }
    Answers taken;
    for (size_t i = random() % 4; i > 0 && taken.results.size() < std::min<size_t>(count, 3); --i) {
      group->Wait(&taken, 1, 1000).IgnoreError();
    }
    EXPECT_TRUE(group->End()) << round;
  }
  // The session and its operator are still there.
  ASSERT_TRUE(Send(other.get(), MessageKind::kChunk, RequestFor(noise), noise));
  Answers result;
  ASSERT_TRUE(other->Wait(&result, 1, HostMessageGroup::kForever).ok());
  EXPECT_GT(result.results.front(), 0);
  channel->Close();
}

// While its rules are compiled, say.
TEST_P(DetachTest, Group_WithAnOperatorBeingMade_IsGivenBack) {
  const auto channel = Open(agent_.socket());
  for (uint32_t i = 0; i < 40; ++i) {
    const auto group = HostMessageGroup::Create(channel.get(), kSmall).value();
    Prepare prepare{};
    prepare.number = i;
    prepare.kind = static_cast<uint8_t>(EngineOrder::Kind::kDecompress);
    ASSERT_TRUE(Send(group.get(), MessageKind::kPrepare, prepare));
    EXPECT_TRUE(group->End()) << i;
  }
  EXPECT_LE(agent_.counters().operators, 40u);
  channel->Close();
}

TEST_P(DetachTest, GroupThatIsNotThere_IsRefusedAndTheSessionGoesOn) {
  const auto channel = Open(agent_.socket());
  EXPECT_FALSE(channel->DetachGroup(0).ok());
  const auto group = HostMessageGroup::Create(channel.get(), kSmall).value();
  EXPECT_FALSE(channel->DetachGroup(77).ok());
  EXPECT_FALSE(channel->DetachGroup(UINT32_MAX).ok());
  EXPECT_EQ(MakeOperator(group.get(), 1), 0);
  EXPECT_EQ(channel->DetachGroup(0), absl::OkStatus());
  EXPECT_FALSE(channel->DetachGroup(0).ok()) << "twice";
  // A host that goes on writing to what it gave back reaches nobody.
  Send(group.get(), MessageKind::kPrepare, Prepare{});
  const auto another = HostMessageGroup::Create(channel.get(), kSmall).value();
  EXPECT_EQ(MakeOperator(another.get(), 2), 0);
  channel->Close();
}

TEST(DetachKilledTest, AgentThatIsKilled_LetsGo) {
  const AgentProcess agent;
  ASSERT_NE(agent.Connect(), nullptr);
  const auto channel = Open(agent.socket());
  const auto group = HostMessageGroup::Create(channel.get(), kSmall).value();
  const std::string body(1000, 'x');
  ASSERT_EQ(MakeOperator(group.get(), 0), 0);
  ASSERT_TRUE(Send(group.get(), MessageKind::kChunk, RequestFor(body), body));
  agent.Signal(SIGKILL);
  EXPECT_TRUE(group->End());
  channel->Close();
}

TEST(DetachMemoryTest, MemoryOfGroupsGivenBack_IsNotCounted) {
  const testing_util::ScratchPath socket("detach.sock");
  OpsAgent ops({1, {}, false});
  AgentOptions options;
  options.socket_path = socket.get();
  options.handshake_ms = 60'000;
  options.limits.max_session_bytes = 4 * GroupBytes(kSmall);
  const auto server = SocketServer::Open(options, {Offered(&ops)}).value();
  const auto channel = Open(socket.get());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<HostMessageGroup>> groups;
    for (int i = 0; i < 4; ++i) {
      auto group = HostMessageGroup::Create(channel.get(), kSmall);
      ASSERT_EQ(group.status(), absl::OkStatus()) << round << ", " << i;
      groups.push_back(*std::move(group));
    }
    EXPECT_TRUE(
        absl::IsResourceExhausted(HostMessageGroup::Create(channel.get(), kSmall).status()));
  }
  channel->Close();
}

// Each order needs a larger message group than those before it, which are of no use any more.
TEST(DetachEngineTest, OrdersOfGrowingSize_AllFindRoom) {
  const TestAgent agent;
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  for (uint64_t size = 1; size <= 2 * OpsService::kMostGroups; ++size) {
    EngineOrder order;
    order.codec = static_cast<uint8_t>(Codec::kZlib);
    order.level = 1;
    // Requests and responses in turn, so that none fits the next.
    if (size % 2 == 0) order.kind = EngineOrder::Kind::kDecompress;
    order.chunk_bytes = size * (uint64_t{512} << 10);
    const auto made = connected->Make(order, {"x", Side::kAgent, 1, {}}, nullptr);
    EXPECT_EQ(made.status(), absl::OkStatus()) << size;
  }
}

}  // namespace
}  // namespace pulse::ops::remote
