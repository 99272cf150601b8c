#include "channel/queue_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/testing.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kQueueArena = wire::kMinArenaBytes;

using testing_util::Text;

class QueuePairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto region = Region::CreateShared(QueueRegionBytes(kQueueArena));
    ASSERT_TRUE(region.ok()) << region.status();
    region_ = *std::move(region);
    auto host = HostQueue::Init(region_, 42, kQueueArena);
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *host;
  }
  wire::QueueHeader* header() {
    return reinterpret_cast<wire::QueueHeader*>(region_.data() + kQueueArena);
  }
  void ExpectRefused(const char* what, const char* text) {
    const auto agent = AgentQueue::Attach(region_, kQueueArena);
    EXPECT_TRUE(absl::IsInvalidArgument(agent.status())) << what << ": " << agent.status();
    EXPECT_THAT(Text(agent.status()), HasSubstr(text)) << what;
  }

  Region region_;
  HostQueue host_;
};

TEST_F(QueuePairTest, Region_AfterInit_IsArenaThenHeaderThenRings) {
  EXPECT_EQ(host_.arena(), region_.data());
  EXPECT_EQ(host_.arena_bytes(), kQueueArena);
  EXPECT_EQ(host_.id(), 42u);
  EXPECT_EQ(header()->magic, wire::kRegionMagic);
  EXPECT_EQ(header()->version, wire::kProtocolVersion);
  EXPECT_EQ(header()->queue_id, 42u);
  EXPECT_EQ(header()->arena_bytes, kQueueArena);
  EXPECT_EQ(header()->submission_slots, wire::kSubmissionSlots);
  EXPECT_EQ(header()->completion_slots, wire::kCompletionSlots);

  wire::Descriptor d{};
  d.tag = 0x1122334455667788;
  ASSERT_TRUE(host_.TryPush(d));
  wire::Descriptor raw;
  std::memcpy(&raw, region_.data() + kQueueArena + wire::kPage, sizeof(raw));
  EXPECT_EQ(raw.tag, d.tag);
  EXPECT_EQ(header()->submission_tail.value, 1u);

  auto agent = AgentQueue::Attach(region_, kQueueArena);
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_EQ(agent->arena(), region_.data());
  EXPECT_EQ(agent->arena_bytes(), kQueueArena);
  ASSERT_TRUE(agent->TryPush({7, 8, 9, 10, 11}));
  wire::Completion c;
  std::memcpy(&c,
              region_.data() + kQueueArena + wire::kPage +
                  wire::kSubmissionSlots * sizeof(wire::Descriptor),
              sizeof(c));
  EXPECT_EQ(c.tag, 7u);
  EXPECT_EQ(c.aux, 11u);
}

TEST_F(QueuePairTest, Header_FieldsOfEachWriter_HaveOwnCacheLine) {
  const auto line = [](const auto& v) {
    return reinterpret_cast<uintptr_t>(&v) / wire::kCacheLine;
  };
  wire::QueueHeader* h = header();
  const uintptr_t lines[] = {line(h->magic),           line(h->submission_tail),
                             line(h->submission_head), line(h->completion_tail),
                             line(h->completion_head), line(h->reclaimed)};
  for (size_t i = 1; i < std::size(lines); ++i) EXPECT_EQ(lines[i], lines[i - 1] + 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(h) % wire::kPage, 0u);
}

TEST_F(QueuePairTest, Queue_RequestsAndResults_CrossUnchanged) {
  auto made = AgentQueue::Attach(region_, kQueueArena);
  ASSERT_TRUE(made.ok()) << made.status();
  AgentQueue agent = *made;
  EXPECT_FALSE(agent.HasSubmissions());
  EXPECT_FALSE(host_.HasCompletions());

  const wire::Descriptor sent{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  ASSERT_TRUE(host_.TryPush(sent));
  EXPECT_TRUE(agent.HasSubmissions());
  wire::Descriptor d{};
  ASSERT_TRUE(agent.TryPop(&d));
  EXPECT_EQ(std::memcmp(&d, &sent, sizeof(d)), 0);
  EXPECT_FALSE(agent.TryPop(&d));

  const wire::Completion result{5, -28, 1, 3, 99};
  ASSERT_TRUE(agent.TryPush(result));
  EXPECT_TRUE(host_.HasCompletions());
  wire::Completion c{};
  ASSERT_TRUE(host_.TryPop(&c));
  EXPECT_EQ(std::memcmp(&c, &result, sizeof(c)), 0);
  EXPECT_FALSE(host_.HasCompletions());

  EXPECT_EQ(host_.reclaimed(), 0u);
  agent.PublishReclaimed(123456);
  EXPECT_EQ(host_.reclaimed(), 123456u);
}

TEST_F(QueuePairTest, Rings_FilledToTheWireSlots_TakeNoMore) {
  AgentQueue agent = AgentQueue::Attach(region_, kQueueArena).value();
  for (uint32_t i = 0; i < wire::kSubmissionSlots; ++i) ASSERT_TRUE(host_.TryPush({})) << i;
  EXPECT_FALSE(host_.TryPush({}));
  for (uint32_t i = 0; i < wire::kCompletionSlots; ++i) ASSERT_TRUE(agent.TryPush({})) << i;
  EXPECT_FALSE(agent.TryPush({}));
}

TEST_F(QueuePairTest, Pop_ImpossibleTail_IsCorruptOnBothSides) {
  AgentQueue agent = AgentQueue::Attach(region_, kQueueArena).value();
  header()->submission_tail.value = 1u << 30;
  wire::Descriptor d;
  EXPECT_FALSE(agent.TryPop(&d));
  EXPECT_TRUE(agent.corrupt());
  header()->completion_tail.value = ~uint64_t{0};
  wire::Completion c;
  EXPECT_FALSE(host_.TryPop(&c));
  EXPECT_TRUE(host_.corrupt());
}

TEST_F(QueuePairTest, Attach_OtherMagicVersionOrGeometry_IsRefused) {
  header()->magic ^= 1;
  ExpectRefused("magic", "magic");
  header()->magic ^= 1;
  header()->version = wire::kProtocolVersion + 1;
  ExpectRefused("version", "version");
  header()->version = wire::kProtocolVersion;
  header()->arena_bytes = kQueueArena * 2;
  ExpectRefused("arena", "geometry");
  header()->arena_bytes = kQueueArena;
  header()->submission_slots /= 2;
  ExpectRefused("submission slots", "geometry");
  header()->submission_slots *= 2;
  header()->completion_slots = 0;
  ExpectRefused("completion slots", "geometry");
  header()->completion_slots = wire::kCompletionSlots;
  EXPECT_TRUE(AgentQueue::Attach(region_, kQueueArena).ok());
}

TEST_F(QueuePairTest, InitAndAttach_BadArenaSize_AreRefused) {
  for (uint64_t bytes :
       {uint64_t{0}, wire::kMinArenaBytes - wire::kPage, wire::kMinArenaBytes + 1,
        wire::kMaxArenaBytes + wire::kPage, ~uint64_t{0}, ~uint64_t{0} - wire::kPage + 1}) {
    for (const absl::Status& st : {HostQueue::Init(region_, 1, bytes).status(),
                                   AgentQueue::Attach(region_, bytes).status()}) {
      EXPECT_TRUE(absl::IsInvalidArgument(st)) << bytes << ": " << st;
      EXPECT_THAT(Text(st), HasSubstr("expected a multiple of 4096 from 65536 to 1073741824"));
    }
  }
  const absl::Status st = HostQueue::Init(region_, 1, 2 * kQueueArena).status();
  EXPECT_TRUE(absl::IsInvalidArgument(st));
  EXPECT_THAT(Text(st), HasSubstr("too small for an arena of 131072 bytes"));
}

TEST_F(QueuePairTest, TwoThreads_TwoMappings_ExchangeAllInOrder) {
  constexpr uint64_t kRequests = 50'000;
  auto mapped =
      Region::Map(UniqueFd(fcntl(region_.fd(), F_DUPFD_CLOEXEC, 0)), QueueRegionBytes(kQueueArena));
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  AgentQueue agent = AgentQueue::Attach(*mapped, kQueueArena).value();
  std::thread server([&] {
    wire::Descriptor d;
    for (uint64_t done = 0; done < kRequests;) {
      if (!agent.TryPop(&d)) {
        std::this_thread::yield();
        continue;
      }
      // The payload was written before its descriptor was pushed.
      uint64_t payload;
      std::memcpy(&payload, agent.arena() + d.arena_offset, sizeof(payload));
      agent.PublishReclaimed(d.position);
      while (!agent.TryPush({d.tag, static_cast<int64_t>(payload), 0, 0, 0})) {
        std::this_thread::yield();
      }
      ++done;
    }
  });
  uint64_t wrong = 0;
  uint64_t received = 0;
  const auto drain = [&] {
    wire::Completion c;
    while (host_.TryPop(&c)) {
      wrong += c.tag != received || c.result != static_cast<int64_t>(c.tag * 7);
      ++received;
    }
    std::this_thread::yield();
  };
  for (uint64_t i = 0; i < kRequests; ++i) {
    wire::Descriptor d{};
    d.tag = i;
    d.position = (i + 1) * 8;
    d.arena_offset = i * 8 % kQueueArena;
    const uint64_t payload = i * 7;
    while (i * 8 + 8 - host_.reclaimed() > kQueueArena) drain();
    std::memcpy(host_.arena() + d.arena_offset, &payload, sizeof(payload));
    while (!host_.TryPush(d)) drain();
  }
  while (received < kRequests) drain();
  server.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(host_.reclaimed(), kRequests * 8);
}

}  // namespace
}  // namespace pulse
