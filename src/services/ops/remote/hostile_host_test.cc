// Hosts that lie: one that sends what no host sends gets an error or loses its session, and nobody
// else notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "services/ops/codecs.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/filter/filter_order.h"
#include "services/ops/remote/check.h"
#include "services/ops/remote/test_agent.h"
#include "services/ops/remote/wire.h"

namespace pulse::ops::remote {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_util::TestSeed;

// One request after the other, by hand.
class RawHost : private HostMessageGroup::Taker {
 public:
  explicit RawHost(const std::string& socket) {
    const LinkOptions link{.service = {kServiceId, kServiceVersion}, .socket_path = socket};
    channel_ = MessageChannel::Open(link, "pulse agent --ops").value();
    group_ = HostMessageGroup::Create(channel_.get(), {1 << 20, 1 << 20, 16}).value();
  }
  ~RawHost() override { channel_->Close(); }

  // The result; its text is in `text`. The session's end is kLost.
  static constexpr int64_t kLost = INT64_MIN;
  template <typename Header>
  int64_t Ask(MessageKind kind, Header header, const std::string& body = "") {
    const uint32_t slot = group_->TakeSlot(&header.id);
    const size_t size = std::min(sizeof(header), header_bytes);
    EXPECT_EQ(
        group_->Submit(slot, header.id, KindOf(kind), {&header, size}, {body.data(), body.size()}),
        absl::OkStatus());
    result_ = kLost;
    group_->Wait(this, 1, HostMessageGroup::kForever).IgnoreError();
    return result_;
  }
  int64_t MakeOperator(uint32_t number, EngineOrder::Kind kind, uint8_t codec, uint8_t format,
                       uint8_t level, const std::string& body = "") {
    Prepare request{};
    request.number = number;
    request.kind = static_cast<uint8_t>(kind);
    request.codec = codec;
    request.format = format;
    request.level = level;
    request.text_bytes = body.size();
    request.text_crc = Crc32(body);
    return Ask(MessageKind::kPrepare, request, body);
  }
  static ChunkRequest RequestFor(uint32_t number, const std::string& body) {
    ChunkRequest request{};
    request.operator_number = number;
    request.bytes = body.size();
    request.crc = Crc32(body);
    return request;
  }

  std::string text;
  size_t header_bytes = SIZE_MAX;

 private:
  bool OnResponse(const TakenResponse& response, uint32_t) override {
    result_ = response.result;
    text.assign(response.data, response.capacity);
    return false;
  }
  void OnLost(uint64_t, uint32_t) override { result_ = kLost; }

  std::unique_ptr<MessageChannel> channel_;
  std::unique_ptr<HostMessageGroup> group_;
  int64_t result_ = 0;
};

int64_t Code(absl::StatusCode code) { return -static_cast<int64_t>(code); }
const int64_t kInvalid = Code(absl::StatusCode::kInvalidArgument);

class HostileHostTest : public testing::Test {
 protected:
  // The others do not notice.
  void TearDown() override {
    const std::string data = MakeData(Kind::kText, 300'000, TestSeed());
    CompressOptions options;
    options.chunk_bytes = 64 << 10;
    options.processors = On(RemoteAgent::Connect(agent_.socket()).value(), Placement::Kind::kAgent);
    const Outcome honest = RunCompress(options, data);
    EXPECT_EQ(honest.status, absl::OkStatus());
    EXPECT_TRUE(RunDecompress({}, honest.bytes).bytes == data);
  }

  static constexpr auto kCompress = EngineOrder::Kind::kCompress;
  static constexpr auto kDecompress = EngineOrder::Kind::kDecompress;
  static constexpr auto kFilter = EngineOrder::Kind::kFilter;

  TestAgent agent_;
  RawHost host_{agent_.socket()};
};

TEST_F(HostileHostTest, Prepare_Nonsense_IsRefused) {
  EXPECT_EQ(host_.MakeOperator(1, kCompress, 200, 0, 6), kInvalid);
  EXPECT_EQ(host_.MakeOperator(1, kCompress, 0, 99, 6), kInvalid);
  EXPECT_EQ(host_.MakeOperator(1, kCompress, 0, 0, 0), kInvalid);
  EXPECT_EQ(host_.MakeOperator(1, kCompress, 0, 0, 9), kInvalid) << "isal has levels to 6";
  EXPECT_EQ(host_.MakeOperator(1, kCompress, 3, 0, 6), kInvalid) << "zstd does not write gzip";
  EXPECT_EQ(host_.MakeOperator(1, kDecompress, 0, 6, 0), kInvalid);
  EXPECT_EQ(host_.MakeOperator(1, static_cast<EngineOrder::Kind>(9), 0, 0, 0), kInvalid);
  const std::string good =
      filter::FilterOrder(*filter::MakeSet({"a", "b+"}), filter::Selection(), 0).text;
  EXPECT_EQ(host_.MakeOperator(1, kFilter, 0, 0, 0, good), 0);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(host_.MakeOperator(2, kFilter, 0, 0, 0, good.substr(0, size)), kInvalid) << size;
  }
  EXPECT_EQ(host_.MakeOperator(2, kFilter, 0, 0, 0, good + "x"), kInvalid);
  const std::string wrong =
      filter::FilterOrder(*filter::MakeSet({"ab"}), filter::Selection(), 0).text;
  std::string broken = wrong;
  broken.replace(broken.size() - 2, 2, "a(");
  EXPECT_EQ(host_.MakeOperator(2, kFilter, 0, 0, 0, broken), kInvalid);
  EXPECT_THAT(host_.text, HasSubstr("a("));
  EXPECT_EQ(host_.MakeOperator(1, kCompress, 0, 0, 6), Code(absl::StatusCode::kAlreadyExists));
  Prepare crc{};
  crc.number = 3;
  crc.kind = static_cast<uint8_t>(kFilter);
  crc.text_bytes = good.size();
  EXPECT_EQ(host_.Ask(MessageKind::kPrepare, crc, good), kInvalid);
  crc.text_bytes = UINT64_MAX;
  EXPECT_EQ(host_.Ask(MessageKind::kPrepare, crc, good), kInvalid);
}

TEST_F(HostileHostTest, Prepare_TooMany_IsRefused) {
  for (uint32_t i = 0; i < OpsService::kMostOperators; ++i) {
    ASSERT_EQ(host_.MakeOperator(i, kDecompress, 0, 0, 0), 0) << i;
  }
  EXPECT_EQ(host_.MakeOperator(1000, kDecompress, 0, 0, 0),
            Code(absl::StatusCode::kResourceExhausted));
  Prepare drop{};
  drop.number = 5;
  EXPECT_EQ(host_.Ask(MessageKind::kDrop, drop), 0);
  EXPECT_EQ(host_.MakeOperator(1000, kDecompress, 0, 0, 0), 0);
}

TEST_F(HostileHostTest, Chunk_Nonsense_IsRefused) {
  const auto ask = [&](ChunkRequest request, const std::string& body) {
    return host_.Ask(MessageKind::kChunk, request, body);
  };
  const std::string body(1000, 'x');
  EXPECT_EQ(ask(RawHost::RequestFor(7, body), body), Code(absl::StatusCode::kNotFound));
  ASSERT_EQ(host_.MakeOperator(1, kCompress, 2, 0, 6), 0);
  ChunkRequest request = RawHost::RequestFor(1, body);
  request.bytes += 1;
  EXPECT_EQ(ask(request, body), kInvalid);
  request.bytes = UINT64_MAX;
  EXPECT_EQ(ask(request, body), kInvalid);
  request = RawHost::RequestFor(1, body);
  request.prefix = 1001;
  EXPECT_EQ(ask(request, body), kInvalid);
  request.prefix = 10;
  EXPECT_EQ(ask(request, body), kInvalid) << "libdeflate takes no dictionary";
  request.prefix = 0;
  request.crc ^= 1;
  EXPECT_EQ(ask(request, body), kInvalid);
  EXPECT_EQ(ask(RawHost::RequestFor(1, ""), ""), kInvalid);
  EXPECT_GT(ask(RawHost::RequestFor(1, body), body), 0);
}

TEST_F(HostileHostTest, Chunk_ThatNoSourceMakes_IsNotGivenToItsEngine) {
  const auto piece = [&](Piece of, const std::string& body, uint64_t tag, uint32_t kind) {
    const auto number = static_cast<uint32_t>(of);
    host_.MakeOperator(number, kDecompress, 0, static_cast<uint8_t>(of), 0);
    ChunkRequest request = RawHost::RequestFor(number, body);
    request.tag = tag;
    request.kind = kind;
    return host_.Ask(MessageKind::kChunk, request, body);
  };
  std::mt19937_64 random(TestSeed());
  std::string noise(500, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  EXPECT_EQ(piece(Piece::kMarkedCrc, noise, 0, 0) > 0, false);
  EXPECT_EQ(piece(Piece::kBgzf, noise, 0, 0), kInvalid);
  EXPECT_EQ(piece(Piece::kBgzf, std::string(BgzfEnd()).substr(0, 20), 0, 0), kInvalid);
  // A block whose extra field is longer than the block.
  std::string block(BgzfEnd());
  block[10] = static_cast<char>(200);
  EXPECT_EQ(piece(Piece::kBgzf, block, 0, 0), kInvalid);
  EXPECT_LT(piece(Piece::kZstd, noise, 1000, 0), 0);
  EXPECT_EQ(piece(Piece::kZstd, noise, UINT64_MAX, 0), Code(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(piece(Piece::kLz4, noise, uint64_t{1} << 40, 0), kInvalid);
  EXPECT_EQ(piece(Piece::kLz4, noise, 65536, 2), kInvalid);
  EXPECT_EQ(piece(Piece::kLz4, "abc", 65536, 1), kInvalid);
  EXPECT_EQ(piece(Piece::kLz4, std::string("\xff\xff\xff\x7f", 4) + "x", 65536, 1), kInvalid);
  // Many blocks, each of which could become 4 MiB.
  std::string blocks;
  for (int i = 0; i < 100; ++i) blocks += std::string("\x01\x00\x00\x00x", 5);
  EXPECT_EQ(piece(Piece::kLz4, blocks, uint64_t{4} << 20, 0),
            Code(absl::StatusCode::kResourceExhausted));
}

TEST_F(HostileHostTest, Report_Nonsense_IsRefusedAndNotCounted) {
  Report report{};
  report.operator_number = 1;
  report.host.chunks = 5;
  EXPECT_EQ(host_.Ask(MessageKind::kReport, report), Code(absl::StatusCode::kNotFound));
  ASSERT_EQ(host_.MakeOperator(1, kCompress, 2, 0, 6), 0);
  const auto refused = [&](auto change) {
    Report changed = report;
    change(changed);
    return host_.Ask(MessageKind::kReport, changed) == kInvalid;
  };
  EXPECT_TRUE(refused([](Report& r) { r.placement = 5; }));
  EXPECT_TRUE(refused([](Report& r) { r.host.bytes = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Report& r) { r.host.refused = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Report& r) { r.agent.discarded = kMostReported + 1; }));
  EXPECT_TRUE(refused([](Report& r) { r.agent.lost = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Report& r) { r.host.busy_nanos = UINT64_MAX; }));
  EXPECT_TRUE(refused([](Report& r) { r.agent.rate = kMostRate + 1; }));
  EXPECT_TRUE(refused([](Report& r) { r.whole = kMostRate + 1; }));
  EXPECT_TRUE(refused([](Report& r) { r.before_nanos = kMostSetUp + 1; }));
  EXPECT_THAT(MetricsText(agent_.counters().placement.Take()), Not(HasSubstr("libdeflate")));
  EXPECT_EQ(host_.Ask(MessageKind::kReport, report), 0);
  EXPECT_THAT(MetricsText(agent_.counters().placement.Take()),
              HasSubstr("chunks_total{task=\"compress_libdeflate\",side=\"host\"} 5\n"));
  host_.header_bytes = sizeof(Report) - 1;
  EXPECT_EQ(host_.Ask(MessageKind::kReport, report), RawHost::kLost);
}

TEST_F(HostileHostTest, Request_TooShortOrUnknown_EndsOnlyItsSession) {
  Prepare request{};
  EXPECT_EQ(host_.Ask(static_cast<MessageKind>(77), request),
            Code(absl::StatusCode::kUnimplemented));
  host_.header_bytes = 12;
  EXPECT_EQ(host_.Ask(MessageKind::kPrepare, request), RawHost::kLost);
}

TEST_F(HostileHostTest, Attach_ManyGroupsThatSayNothing_IsRefused) {
  const LinkOptions link{.service = {kServiceId, kServiceVersion}, .socket_path = agent_.socket()};
  const auto channel = MessageChannel::Open(link, "pulse agent --ops").value();
  std::vector<std::unique_ptr<HostMessageGroup>> groups;
  for (size_t i = 0; i < OpsService::kMostGroups; ++i) {
    auto group = HostMessageGroup::Create(channel.get(), {1 << 16, 1 << 16, 16});
    ASSERT_EQ(group.status(), absl::OkStatus()) << i;
    groups.push_back(*std::move(group));
  }
  EXPECT_FALSE(HostMessageGroup::Create(channel.get(), {1 << 16, 1 << 16, 16}).ok());
  channel->Close();
}

// What is taken of a session is bounded by what it may become, over all of its message groups; the
// rest is taken later.
class HostileMemoryTest : public testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(MostHeld, HostileMemoryTest, testing::Values(0, 1 << 20));

TEST_P(HostileMemoryTest, Chunks_OfManyGroups_AreTakenAsFarAsTheyMayBeHeld) {
  OpsAgentOptions options;
  options.most_held = GetParam();
  TestAgent agent(options);
  const LinkOptions link{.service = {kServiceId, kServiceVersion}, .socket_path = agent.socket()};
  const auto channel = MessageChannel::Open(link, "pulse agent --ops").value();
  struct Results : HostMessageGroup::Taker {
    bool OnResponse(const TakenResponse& response, uint32_t) override {
      results.push_back(response.result);
      return false;
    }
    void OnLost(uint64_t, uint32_t) override { results.push_back(INT64_MIN); }
    std::vector<int64_t> results;
  } taker;
  std::vector<std::unique_ptr<HostMessageGroup>> groups;
  for (int i = 0; i < 5; ++i) {
    groups.push_back(HostMessageGroup::Create(channel.get(), {1 << 21, 1 << 16, 16}).value());
  }
  const auto send = [](HostMessageGroup* to, MessageKind kind, auto header,
                       const std::string& body) {
    const uint32_t slot = to->TakeSlot(&header.id);
    ASSERT_EQ(to->Submit(slot, header.id, KindOf(kind), {&header, sizeof(header)},
                         {body.data(), body.size()}),
              absl::OkStatus());
  };
  Prepare prepare{};
  prepare.kind = static_cast<uint8_t>(EngineOrder::Kind::kCompress);
  prepare.codec = static_cast<uint8_t>(Codec::kZlib);
  prepare.level = 1;
  send(groups[0].get(), MessageKind::kPrepare, prepare, "");
  groups[0]->Wait(&taker, 1, HostMessageGroup::kForever).IgnoreError();
  ASSERT_EQ(taker.results, std::vector<int64_t>{0});
  taker.results.clear();
  // The agent's only thread is busy.
  std::atomic<bool> busy{false};
  std::atomic<bool> go_on{false};
  agent.ops().Post(&busy, [&] {
    busy = true;
    go_on.wait(false);
  });
  ASSERT_TRUE(testing_util::Eventually([&] { return busy.load(); }));
  const std::string body(600'000, 'x');
  for (int i = 0; i < 4; ++i) {
    send(groups[static_cast<size_t>(i)].get(), MessageKind::kChunk, RawHost::RequestFor(0, body),
         body);
  }
  // The worker looks at all groups before it comes to one for the second time.
  for (int i = 0; i < 3; ++i) {
    Prepare drop{};
    drop.number = 77;
    send(groups[4].get(), MessageKind::kDrop, drop, "");
    groups[4]->Wait(&taker, 1, HostMessageGroup::kForever).IgnoreError();
  }
  EXPECT_EQ(agent.counters().waiting, GetParam() == 0 ? 4u : 1u);
  go_on = true;
  go_on.notify_all();
  taker.results.clear();
  for (size_t i = 0; i < 4; ++i) {
    groups[i]->Wait(&taker, 1, HostMessageGroup::kForever).IgnoreError();
  }
  EXPECT_THAT(taker.results, testing::SizeIs(4));
  EXPECT_THAT(taker.results, testing::Each(testing::Gt(0)));
  channel->Close();
}

// Results that nobody takes do not grow without end, and a host that leaves frees them.
// Waits for one answer.
class OneAnswer : public HostMessageGroup::Taker {
 public:
  int64_t result = kInvalid;

 private:
  bool OnResponse(const TakenResponse& response, uint32_t) override {
    result = response.result;
    return false;
  }
  void OnLost(uint64_t, uint32_t) override {}
};

TEST_F(HostileHostTest, Host_ThatTakesNothingAndLeaves_IsForgotten) {
  {
    const LinkOptions link{.service = {kServiceId, kServiceVersion},
                           .socket_path = agent_.socket()};
    const auto channel = MessageChannel::Open(link, "pulse agent --ops").value();
    const auto group = HostMessageGroup::Create(channel.get(), {1 << 20, 1 << 16, 64}).value();
    Prepare prepare{};
    prepare.kind = static_cast<uint8_t>(kCompress);
    prepare.codec = static_cast<uint8_t>(Codec::kZlib);
    prepare.level = 1;
    std::string noise(15'000, '\0');
    std::mt19937_64 random(TestSeed());
    for (char& c : noise) c = static_cast<char>(random());
    uint64_t id = 0;
    uint32_t slot = group->TakeSlot(&prepare.id);
    ASSERT_EQ(group->Submit(slot, prepare.id, KindOf(MessageKind::kPrepare),
                            {&prepare, sizeof(prepare)}, {}),
              absl::OkStatus());
    OneAnswer made;
    ASSERT_TRUE(group->Wait(&made, 1, HostMessageGroup::kForever).ok());
    ASSERT_EQ(made.result, 0);
    for (int i = 0; i < 30; ++i) {
      slot = group->TakeSlot(&id);
      ChunkRequest request = RawHost::RequestFor(0, noise);
      request.id = id;
      ASSERT_EQ(group->Submit(slot, id, KindOf(MessageKind::kChunk), {&request, sizeof(request)},
                              {noise.data(), noise.size()}),
                absl::OkStatus());
    }
    EXPECT_TRUE(testing_util::Eventually([&] { return agent_.counters().undelivered > 0; }));
    EXPECT_LE(agent_.counters().undelivered, OpsService::kDepth + 1);
    channel->Close();
  }
  EXPECT_TRUE(testing_util::Eventually([&] {
    return agent_.counters().operators == 0 && agent_.counters().undelivered == 0 &&
           agent_.counters().waiting == 0;
  }));
}

}  // namespace
}  // namespace pulse::ops::remote
