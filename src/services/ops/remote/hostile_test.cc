// Agents that lie: one whose answers are not what they should be is a lost engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
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
    options.handshake_ms = 60'000;
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

// The engine is the same for both files, and the first file is done right.
TEST(LyingAgentTest, Compress_OtherDataFromTheSecondFileOn_IsFoundBySample) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  const std::string other = MakeData(Kind::kText, 64 << 10, TestSeed() + 1);
  std::atomic<bool> lies{false};
  LyingAgent agent([&](const Chunk& chunk, Told* told) {
    if (!lies) return;
    Chunk of_other;
    of_other.input.Append(other.substr(0, chunk.size()));
    Result result;
    const Codec codec = PickCodec(Format::kGzip, 6, false, false);
    const auto engine = MakeCompressor(codec, Format::kGzip, 6, {"x", Side::kHost, 1, {}}).value();
    EXPECT_EQ(engine->Process(0, of_other, result), absl::OkStatus());
    told->bytes = std::string(result.payload());
    told->header.bytes = told->bytes.size();
    told->header.crc = Crc32(told->bytes);
  });
  const auto connected = agent.Connect();  // outlives the engines that are kept
  EngineCache cache;
  CompressOptions options = Small(Format::kGzip, With(connected, Placement::Kind::kAgent));
  options.processors.engines = &cache;
  EXPECT_EQ(RunCompress(options, data).status, absl::OkStatus());
  lies = true;
  const Outcome second = RunCompress(options, data);
  EXPECT_TRUE(absl::IsUnavailable(second.status)) << second.status;
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

// Whole records, as many as it says, and others than those that match.
TEST(LyingAgentTest, Filter_WellFormedLies_AreFoundBySample) {
  const std::string data = MakeData(Kind::kText, 6'000'000, TestSeed());
  const auto rules = filter::MakeSet({"1\\d*7"});
  constexpr uint64_t kChunk = 64 << 10;
  ASSERT_GT(data.size() / kChunk, 66u) << "the second sample is the 65th";
  const Lie fewer = [](const Chunk&, Told* told) {
    told->bytes.erase(0, told->bytes.find('\n') + 1);
    --told->header.count;
    told->header.bytes = told->bytes.size();
    told->header.crc = Crc32(told->bytes);
  };
  const Lie count = [](const Chunk&, Told* told) { --told->header.count; };
  for (const auto& [lie, select] :
       {std::pair(fewer, filter::Select::kRecords), std::pair(count, filter::Select::kCount)}) {
    for (const uint64_t honest : {0, 1, 1000}) {
      SCOPED_TRACE(absl::StrCat(honest, " chunks are right"));
      uint64_t done = 0;
      LyingAgent agent([&, &lie = lie](const Chunk& chunk, Told* told) {
        if (done++ >= honest) lie(chunk, told);
      });
      filter::FilterOptions options;
      options.selection.select = select;
      options.source.chunk_bytes = kChunk;
      options.processors = With(agent.Connect(), Placement::Kind::kAgent);
      const Outcome alone = RunFilter(*rules, options, data);
      EXPECT_EQ(absl::IsUnavailable(alone.status), honest < 1000) << alone.status;
      if (honest == 0) {
        EXPECT_THAT(testing_util::Text(alone.status), HasSubstr("other records"));
      }
    }
  }
}

TEST(LyingAgentTest, Filter_MoreRecordsThanTheChunkHas_AreNeverBelieved) {
  for (const bool lines : {true, false}) {
    EngineOrder order;
    order.kind = EngineOrder::Kind::kFilter;
    filter::RuleSetOptions options;
    options.records = lines ? filter::Records::kLines : filter::Records::kPrefixed;
    const auto rules = filter::MakeSet({"a"}, options);
    order = filter::FilterOrder(*rules, {filter::Select::kCount, false}, 1 << 16);
    Chunk chunk;
    chunk.input.Append(lines ? std::string("a\nb\nc") : std::string("\1\0\0\0a\0\0\0\0", 9));
    Result result;
    result.count = lines ? 3 : 2;
    EXPECT_EQ(CheckResult(order, chunk, false, result), absl::OkStatus());
    ++result.count;
    EXPECT_FALSE(CheckResult(order, chunk, false, result).ok());
  }
}

}  // namespace
}  // namespace pulse::ops::remote
