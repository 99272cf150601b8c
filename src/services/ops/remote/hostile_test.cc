// Peers that lie. An agent whose answers are not what they should be is a lost engine; a host that
// sends what no host sends gets an error or loses its session, and nobody else notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/message_service.h"
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
using testing_util::TestSeed;

// --- an agent that lies

struct Told {
  ChunkAnswer header{};
  std::string bytes;
  int64_t result = 0;    // of the message; 0: as it should be
  uint64_t id_more = 0;  // added to the request's id
  bool answers = true;
};
using Lie = std::function<void(const Chunk&, Told*)>;

// Does what it is asked, in the worker's thread, and then lies about it.
class LyingService : public MessageService {
 public:
  LyingService(Session* session, const Lie* lie) : MessageService(session), lie_(lie) {}

 private:
  bool OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) override {
    if (message.kind == KindOf(MessageKind::kChunk)) {
      Process(group, message);
    } else {
      Prepare request;
      std::memcpy(&request, message.data, sizeof(request));
      if (message.kind == KindOf(MessageKind::kPrepare)) MakeEngine(request, message);
      group->Answer(request.id, message.kind, 0, {});
    }
    group->Forget(ticket);
    return true;
  }

  void MakeEngine(const Prepare& request, const RingMessage& message) {
    const EngineTraits traits{"liar", Side::kAgent, 1, {}};
    if (request.kind == static_cast<uint8_t>(EngineOrder::Kind::kCompress)) {
      engine_ = MakeCompressor(static_cast<Codec>(request.codec),
                               static_cast<Format>(request.format), request.level, traits)
                    .value();
    } else if (request.kind == static_cast<uint8_t>(EngineOrder::Kind::kDecompress)) {
      engine_ = MakeDecoder(static_cast<Piece>(request.format), traits);
    } else {
      auto filter = filter::ReadFilterOrder(
                        {message.data + sizeof(request), message.length - sizeof(request)})
                        .value();
      rules_ = filter::RuleSet::Compile(std::move(filter.rules), filter.options).value();
      engine_ = filter::FilterEngine::Make(rules_.get(), filter.selection, traits).value();
    }
  }

  void Process(MessageGroup* group, const RingMessage& message) {
    ChunkRequest request;
    std::memcpy(&request, message.data, sizeof(request));
    Chunk chunk;
    chunk.number = request.number;
    chunk.offset = request.offset;
    chunk.prefix = request.prefix;
    chunk.tag = request.tag;
    chunk.kind = request.kind;
    chunk.input.Append(message.data + sizeof(request), request.bytes);
    Result result;
    EXPECT_EQ(engine_->Process(0, chunk, result), absl::OkStatus());
    Told told;
    told.bytes = std::string(result.payload());
    told.header = {told.bytes.size(), result.count, 0, result.checksum, Crc32(told.bytes)};
    (*lie_)(chunk, &told);
    if (!told.answers) return;
    std::string data(reinterpret_cast<const char*>(&told.header), sizeof(told.header));
    data += told.bytes;
    const auto size = static_cast<int64_t>(data.size());
    group->Answer(request.id + told.id_more, message.kind, told.result != 0 ? told.result : size,
                  std::move(data));
  }

  const Lie* const lie_;
  std::unique_ptr<const filter::RuleSet> rules_;
  std::unique_ptr<Engine> engine_;
};

class LyingAgent {
 public:
  explicit LyingAgent(Lie lie) : lie_(std::move(lie)) {
    AgentOptions options;
    options.socket_path = socket_.get();
    OfferedService offered = Offered(&ops_);
    offered.factory = [this](Session* session, FileEngine*) -> std::unique_ptr<Service> {
      return std::make_unique<LyingService>(session, &lie_);
    };
    server_ = SocketServer::Open(options, {offered}).value();
  }
  std::shared_ptr<RemoteAgent> Connect() { return RemoteAgent::Connect(socket_.get()).value(); }

 private:
  const testing_util::ScratchPath socket_{"ops-liar.sock"};
  const Lie lie_;
  OpsAgent ops_{{1, {}, false}};
  std::unique_ptr<SocketServer> server_;
};

// The checksum of the message as it should be, so that the lie is found by something else.
Lie About(std::function<void(std::string*)> change) {
  return [change = std::move(change)](const Chunk&, Told* told) {
    change(&told->bytes);
    told->header.bytes = told->bytes.size();
    told->header.crc = Crc32(told->bytes);
  };
}

const std::vector<std::pair<const char*, Lie>>& LiesOfAnyKind() {
  static const std::vector<std::pair<const char*, Lie>> lies = {
      {"one byte is another", [](const Chunk&, Told* t) { t->bytes[t->bytes.size() / 2] ^= 1; }},
      {"a length beyond the message", [](const Chunk&, Told* t) { t->header.bytes += 1; }},
      {"a huge length", [](const Chunk&, Told* t) { t->header.bytes = UINT64_MAX; }},
      {"a result beyond the data", [](const Chunk&, Told* t) { t->result = INT64_MAX; }},
      {"a result shorter than its header", [](const Chunk&, Told* t) { t->result = 5; }},
      {"an error that is none", [](const Chunk&, Told* t) { t->result = INT64_MIN + 1; }},
      {"an error without an opposite", [](const Chunk&, Told* t) { t->result = INT64_MIN; }},
      {"an error just beyond the last", [](const Chunk&, Told* t) { t->result = -17; }},
      {"damage that is not there", [](const Chunk&, Told* t) { t->result = -15; }},
      {"data that are missing", About([](std::string* b) { b->resize(b->size() / 2); })},
      {"data that are added", About([](std::string* b) { *b += *b; })},
      {"nothing", About([](std::string* b) { b->clear(); })},
  };
  return lies;
}

Processors With(const std::shared_ptr<RemoteAgent>& agent, Placement::Kind kind) {
  return On(agent, kind);
}

CompressOptions Small(Format format, Processors processors) {
  CompressOptions options;
  options.format = format;
  options.chunk_bytes = 64 << 10;
  options.processors = std::move(processors);
  return options;
}

TEST(LyingAgentTest, Compress_AnyLie_IsNotBelieved) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  for (const auto& [name, lie] : LiesOfAnyKind()) {
    for (const Format format : kAllFormats) {
      SCOPED_TRACE(absl::StrCat(name, ", ", FormatName(format)));
      LyingAgent agent(lie);
      const auto connected = agent.Connect();
      const Outcome alone =
          RunCompress(Small(format, With(connected, Placement::Kind::kAgent)), data);
      EXPECT_TRUE(absl::IsUnavailable(alone.status)) << alone.status;
      const Outcome both =
          RunCompress(Small(format, With(connected, Placement::Kind::kAuto)), data);
      ASSERT_EQ(both.status, absl::OkStatus());
      EXPECT_TRUE(RunDecompress({}, both.bytes).bytes == data);
    }
  }
}

// Frames and checksums are as they should be, and the data are others.
TEST(LyingAgentTest, Compress_OtherData_IsFoundBySample) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  const std::string other = MakeData(Kind::kText, 64 << 10, TestSeed() + 1);
  for (const Format format : kAllFormats) {
    SCOPED_TRACE(FormatName(format));
    LyingAgent agent([&](const Chunk& chunk, Told* told) {
      Chunk of_other;
      of_other.input.Append(other.substr(0, chunk.size()));
      Result result;
      const Codec codec = PickCodec(format, 6, false, false);
      const auto engine = MakeCompressor(codec, format, 6, {"x", Side::kHost, 1, {}}).value();
      EXPECT_EQ(engine->Process(0, of_other, result), absl::OkStatus());
      told->bytes = std::string(result.payload());
      told->header.bytes = told->bytes.size();
      told->header.crc = Crc32(told->bytes);
    });
    const Outcome alone =
        RunCompress(Small(format, With(agent.Connect(), Placement::Kind::kAgent)), data);
    EXPECT_TRUE(absl::IsUnavailable(alone.status)) << alone.status;
  }
}

// Only the first chunk has nothing before it, and that one is right.
TEST(LyingAgentTest, Compress_OtherDataBehindADictionary_IsFoundBySample) {
  const std::string data = MakeData(Kind::kText, 6'000'000, TestSeed());
  const std::string other = MakeData(Kind::kText, 64 << 10, TestSeed() + 1);
  for (const Format format : {Format::kGzip, Format::kZlib}) {
    for (const bool lies : {true, false}) {
      SCOPED_TRACE(absl::StrCat(FormatName(format), lies ? ", lies" : ""));
      LyingAgent agent([&](const Chunk& chunk, Told* told) {
        if (chunk.prefix == 0 || !lies) return;
        Chunk of_other;
        of_other.prefix = chunk.prefix;
        of_other.input.Append(chunk.input.view().substr(0, chunk.prefix));
        of_other.input.Append(other.substr(0, chunk.size()));
        Result result;
        const Codec codec = PickCodec(format, 6, false, true);
        const auto engine = MakeCompressor(codec, format, 6, {"x", Side::kHost, 1, {}}).value();
        EXPECT_EQ(engine->Process(0, of_other, result), absl::OkStatus());
        told->bytes = std::string(result.payload());
        told->header.bytes = told->bytes.size();
        told->header.crc = Crc32(told->bytes);
      });
      CompressOptions options = Small(format, With(agent.Connect(), Placement::Kind::kAgent));
      options.primed = true;
      const Outcome alone = RunCompress(options, data);
      ASSERT_GT(data.size() / options.chunk_bytes, 65u) << "the second sample is the 65th";
      EXPECT_EQ(absl::IsUnavailable(alone.status), lies) << alone.status;
    }
  }
}

TEST(LyingAgentTest, CheckResult_WithADictionary_TakesOnlyTheChunksData) {
  const std::string data = MakeData(Kind::kText, 100'000, TestSeed());
  EngineOrder order;
  order.format = static_cast<uint8_t>(Format::kGzip);
  for (const int level : {1, 6, 9}) {
    const Codec codec = PickCodec(Format::kGzip, level, false, true);
    const auto engine =
        MakeCompressor(codec, Format::kGzip, level, {"x", Side::kHost, 1, {}}).value();
    Chunk chunk;
    chunk.prefix = kDeflateWindow;
    chunk.number = 1;
    chunk.input.Append(data);
    Result good;
    ASSERT_EQ(engine->Process(0, chunk, good), absl::OkStatus());
    EXPECT_EQ(CheckResult(order, chunk, true, good), absl::OkStatus()) << level;
    const std::string bytes(good.payload());
    static const std::string kFlush("\0\0\0\xff\xff", 5);
    for (const std::string& bad :
         {bytes + bytes, bytes.substr(bytes.size() / 2), kFlush,
          bytes + std::string(kDeflateEnd) + kFlush,
          std::string(bytes).replace(bytes.size() / 2, 1, 1,
                                     static_cast<char>(~bytes[bytes.size() / 2]))}) {
      Result result;
      result.bytes.Append(bad);
      EXPECT_FALSE(CheckResult(order, chunk, true, result).ok()) << level << ", " << bad.size();
    }
  }
}

TEST(LyingAgentTest, Compress_AnAnswerToNothingOrNone_IsWaitedForNoLongerThanTheOthersNeed) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  for (const bool answers : {false, true}) {
    LyingAgent agent([answers](const Chunk&, Told* told) {
      told->id_more = answers ? 1'000'000'000 : 0;
      told->answers = answers;
    });
    const Outcome both =
        RunCompress(Small(Format::kGzip, With(agent.Connect(), Placement::Kind::kAuto)), data);
    ASSERT_EQ(both.status, absl::OkStatus());
    EXPECT_TRUE(RunDecompress({}, both.bytes).bytes == data);
  }
}

TEST(LyingAgentTest, Decompress_AnyLie_IsNotBelieved) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  for (const Format format : kAllFormats) {
    const std::string bytes =
        RunCompress(Small(format, With(nullptr, Placement::Kind::kHost)), data).bytes;
    for (const auto& [name, lie] : LiesOfAnyKind()) {
      SCOPED_TRACE(absl::StrCat(name, ", ", FormatName(format)));
      LyingAgent agent(lie);
      DecompressOptions options;
      options.processors = With(agent.Connect(), Placement::Kind::kAgent);
      const Outcome alone = RunDecompress(options, bytes);
      // gzip's chunks have no size and checksum of their own: the member's is found wrong. So is an
      // LZ4 block's content, which the chunk says nothing of.
      EXPECT_FALSE(alone.status.ok() && alone.bytes != data && format != Format::kLz4);
    }
  }
}

TEST(LyingAgentTest, Filter_AnyLie_IsNotBelieved) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  const auto rules = filter::MakeSet({"1\\d*7"});
  const filter::FilterOptions on_host;
  const Outcome expected = RunFilter(*rules, on_host, data);
  auto lies = LiesOfAnyKind();
  lies.emplace_back("another number", [](const Chunk&, Told* t) { ++t->header.count; });
  for (const auto& [name, lie] : lies) {
    SCOPED_TRACE(name);
    LyingAgent agent(lie);
    filter::FilterOptions options;
    options.source.chunk_bytes = 64 << 10;
    options.processors = With(agent.Connect(), Placement::Kind::kAgent);
    EXPECT_TRUE(absl::IsUnavailable(RunFilter(*rules, options, data).status));
    options.processors = With(agent.Connect(), Placement::Kind::kAuto);
    const Outcome both = RunFilter(*rules, options, data);
    ASSERT_EQ(both.status, absl::OkStatus());
    EXPECT_TRUE(both.bytes == expected.bytes);
  }
}

// --- a host that lies

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
    const Outcome honest = RunCompress(
        Small(Format::kGzip,
              With(RemoteAgent::Connect(agent_.socket()).value(), Placement::Kind::kAgent)),
        data);
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

TEST_F(HostileHostTest, Request_TooShortOrUnknown_EndsOnlyItsSession) {
  Prepare request{};
  EXPECT_EQ(host_.Ask(static_cast<MessageKind>(77), request),
            Code(absl::StatusCode::kUnimplemented));
  host_.header_bytes = 12;
  EXPECT_EQ(host_.Ask(MessageKind::kPrepare, request), RawHost::kLost);
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
