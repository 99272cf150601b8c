#include "bench/macro/kv/priced_queue.h"

#include "bench/macro/kv/packet.h"
#include "gtest/gtest.h"

namespace pulse::bench {
namespace {

int64_t time_now = 0;
int64_t Clock() { return time_now; }

vdpu::Profile Card() {
  vdpu::Profile card;
  card.dma_latency_us = 5;
  card.dma_bandwidth_gb_s = 1;  // a byte a nanosecond
  return card;
}

TEST(PricedQueueTest, EachTransfer_TakesItsTime_AlsoTheFirstAfterIdling) {
  vdpu::DmaLink link(Card());
  PricedQueue queue({}, &link, Clock);
  time_now = 0;
  for (int batch = 0; batch < 20; ++batch) {  // more than there are slots
    SCOPED_TRACE(batch);
    time_now += 1'000'000;  // idle
    ASSERT_TRUE(queue.HasRoom());
    queue.BeginRequests().Finish();
    queue.Submit(1000);
    const int64_t arrival = time_now + 6000;
    time_now = arrival - 1;
    EXPECT_EQ(queue.PeekRequests(), nullptr);
    time_now = arrival;
    ASSERT_NE(queue.PeekRequests(), nullptr);
    queue.Answer(500);
    time_now = arrival + 5499;
    EXPECT_EQ(queue.PeekResponses(), nullptr);
    time_now = arrival + 5500;
    ASSERT_NE(queue.PeekResponses(), nullptr);
    queue.TakeResponses();
  }
}

TEST(PricedQueueTest, BatchesUnderWay_OverlapButShareTheEngine) {
  vdpu::DmaLink link(Card());
  PricedQueue first({}, &link, Clock);
  PricedQueue second({}, &link, Clock);
  time_now = 0;
  first.BeginRequests().Finish();
  first.Submit(1000);
  second.BeginRequests().Finish();
  second.Submit(1000);
  time_now = 6000;
  EXPECT_NE(first.PeekRequests(), nullptr);
  EXPECT_EQ(second.PeekRequests(), nullptr);
  time_now = 7000;
  EXPECT_NE(second.PeekRequests(), nullptr);
}

TEST(PricedQueueTest, WithoutALink_BatchesAreThereAtOnce) {
  PricedQueue queue({}, nullptr, Clock);
  queue.BeginRequests().Finish();
  queue.Submit(1000);
  ASSERT_NE(queue.PeekRequests(), nullptr);
  queue.Answer(100);
  EXPECT_NE(queue.PeekResponses(), nullptr);
}

TEST(PacketTest, Response_IsAPacketThatParses) {
  PacketHead request{};
  request.ether_type = Swap16(0x0800);
  request.version = 0x45;
  request.tos = 3;
  request.ip_id = 0x1234;
  request.fragment = 0x40;
  request.protocol = 17;
  request.ip_from = 0xfe00a8c0;
  request.ip_to = 0xffffffff;
  for (const std::string_view value : {"", "12345678", "a value of some more bytes"}) {
    char response[200];
    PrepareResponse(reinterpret_cast<const char*>(&request), response);
    const size_t size = FinishResponse(response, kv::WireStatus::kNoMemory, value);
    PacketRequest parsed{};
    ASSERT_TRUE(ParsePacket(response, size, &parsed)) << value;
    EXPECT_EQ(parsed.value, value);
    response[kIpAt + 1] ^= 1;
    EXPECT_FALSE(ParsePacket(response, size, &parsed)) << "the checksum covers it";
  }
}

}  // namespace
}  // namespace pulse::bench
