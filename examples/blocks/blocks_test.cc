// The protocol's decoding, both kinds of files behind the server, the load's verification, and what
// the offload functions make of messages.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "examples/blocks/load.h"
#include "examples/blocks/server.h"
#include "examples/blocks/stamps.h"
#include "examples/blocks/wire.h"
#include "services/files/test_agent.h"
#include "services/offload/program.h"

namespace pulse::blocks {
namespace {

using testing_util::TestSeed;

RequestHeader ReadOf(uint64_t id, uint64_t file, uint64_t offset, uint32_t size) {
  RequestHeader h{};
  h.id = id;
  h.file = file;
  h.offset = offset;
  h.size = size;
  h.op = Op::kRead;
  return h;
}
RequestHeader WriteOf(uint64_t id, uint64_t file, uint64_t offset, uint32_t size) {
  RequestHeader h = ReadOf(id, file, offset, size);
  h.op = Op::kWrite;
  return h;
}

// A message of reads (r) and writes (w), with ids from 1.
std::string Message(const std::string& kinds) {
  MessageBuilder b(kRequestMagic);
  uint64_t id = 0;
  for (const char kind : kinds) {
    ++id;
    if (kind == 'r') {
      b.Add(ReadOf(id, 7, id * 1024, 1024));
    } else {
      b.Add(WriteOf(id, 7, id * 1024, 1024), std::string(1024, static_cast<char>('a' + id)));
    }
  }
  return std::string(b.Finish());
}

TEST(BlocksWireTest, DecodeRequests_WholeOrCutMessage_DecodesOnlyTheWhole) {
  const std::string m = Message("rwwr");
  EXPECT_EQ(SplitMessage(m + "xyz", kRequestMagic).value(), m.size());
  std::vector<Request> requests;
  ASSERT_EQ(DecodeRequests(m, &requests), absl::OkStatus());
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[2].header.id, 3u);
  EXPECT_EQ(requests[2].data, std::string(1024, 'd'));
  EXPECT_TRUE(requests[3].data.empty());
  for (size_t n = 0; n < m.size(); ++n) {
    const auto part = SplitMessage(std::string_view(m).substr(0, n), kRequestMagic);
    ASSERT_TRUE(part.ok());
    EXPECT_EQ(*part, 0u);
    EXPECT_FALSE(DecodeRequests(std::string_view(m).substr(0, n), &requests).ok());
  }
  EXPECT_FALSE(SplitMessage(m, kReplyMagic).ok());
}

TEST(BlocksWireTest, DecodeRequests_ChangedBytes_AreRefusedOrHarmless) {
  std::mt19937_64 dice(TestSeed());
  std::vector<Request> requests;
  for (int i = 0; i < 20'000; ++i) {
    std::string m = Message("rwr");
    for (uint64_t n = dice() % 4; n < 4; ++n) m[dice() % 120] = static_cast<char>(dice());
    if (!DecodeRequests(m, &requests).ok()) continue;
    for (const Request& r : requests) {
      EXPECT_LE(r.header.size, kMaxIo);
      EXPECT_TRUE(r.data.empty() || (r.data.data() >= m.data() &&
                                     r.data.data() + r.data.size() <= m.data() + m.size()));
    }
  }
}

TEST(BlocksStampTest, VersionOf_StampedOrDamagedBlock_TellsVersionOrNone) {
  std::string block(1024, '\0');
  EXPECT_EQ(VersionOf(block.data(), 1024, 5), 0u);
  Stamp(block.data(), 1024, 5, 9);
  EXPECT_EQ(VersionOf(block.data(), 1024, 5), 9u);
  EXPECT_EQ(VersionOf(block.data(), 1024, 6), std::nullopt);
  std::string newer(1024, '\0');
  Stamp(newer.data(), 1024, 5, 10);
  const std::string torn = block.substr(0, 512) + newer.substr(512);
  EXPECT_EQ(VersionOf(torn.data(), 1024, 5), std::nullopt);
}

// One connection, without the load's checks.
class Wire {
 public:
  explicit Wire(uint16_t port) {
    auto fd = examples::ConnectTcp("127.0.0.1", port);
    EXPECT_TRUE(fd.ok()) << fd.status();
    if (fd.ok()) fd_ = *std::move(fd);
  }
  void Send(std::string_view bytes) {
    EXPECT_EQ(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // The next reply message; empty at the end of the stream.
  std::vector<Reply> Next() {
    in_.erase(0, taken_);
    taken_ = 0;
    while (true) {
      const auto n = SplitMessage(in_, kReplyMagic);
      EXPECT_TRUE(n.ok());
      if (n.ok() && *n > 0) {
        taken_ = *n;
        std::vector<Reply> replies;
        EXPECT_EQ(DecodeReplies(std::string_view(in_).substr(0, taken_), &replies),
                  absl::OkStatus());
        return replies;
      }
      char some[4096];
      const ssize_t got = recv(fd_.get(), some, sizeof(some), 0);
      if (got <= 0) return {};
      in_.append(some, static_cast<size_t>(got));
    }
  }
  uint64_t Open(const std::string& name) {
    MessageBuilder b(kRequestMagic);
    RequestHeader h{};
    h.id = 1;
    h.op = Op::kOpen;
    h.size = static_cast<uint32_t>(name.size());
    b.Add(h, name);
    Send(b.Finish());
    const auto replies = Next();
    FileInfo info{};
    if (replies.size() == 1 && replies[0].data.size() == sizeof(info)) {
      memcpy(&info, replies[0].data.data(), sizeof(info));
    }
    return info.file;
  }

 private:
  UniqueFd fd_;
  std::string in_;
  size_t taken_ = 0;
};

constexpr uint64_t kBytes = uint64_t{1} << 20;

// Both forms of the host program.
class BlocksServerTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    options_.files.files = 2;
    options_.files.file_bytes = kBytes;
    if (GetParam()) {
      agent_ = std::make_unique<files::TestAgent>();
      agent_->Start();
      options_.files.agent = agent_->socket();
    } else {
      directory_ = "./scratch-blocks-" + std::to_string(getpid());
      std::filesystem::create_directory(directory_);
      options_.files.directory = directory_;
    }
  }
  void TearDown() override {
    host_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  void Start() {
    auto host = Server::Open(options_);
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    load_.port = host_->port();
    load_.seed = TestSeed();
    load_.seconds = 60;
    load_.requests = 3000;
  }

  examples::HostOptions options_;
  LoadOptions load_;
  std::unique_ptr<files::TestAgent> agent_;
  std::string directory_;
  std::unique_ptr<Server> host_;
};

TEST_P(BlocksServerTest, MixedLoad_SeveralConnections_ReadsWhatItWrote) {
  Start();
  load_.read_share = 0.5;
  load_.batch = 4;
  load_.outstanding = 8;
  load_.connections = 3;
  const auto mixed = RunLoad(load_);
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(mixed->errors, 0u) << mixed->last_error;
  EXPECT_EQ(mixed->reads + mixed->writes, 3000u);
  EXPECT_GT(mixed->writes, 1000u);
  // Another file: filled, then read at a rate.
  load_.file = "1";
  load_.fill = true;
  const auto filled = RunLoad(load_);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_EQ(filled->writes, kBytes / kMaxIo);
  load_.fill = false;
  load_.read_share = 1;
  load_.rate = 50'000;
  const auto read = RunLoad(load_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->reads, 3000u);
  EXPECT_EQ(read->read_nanos.Count(), 3000u);
}

TEST_P(BlocksServerTest, Reads_OddPlacesAndSizes_ReturnWhatWasWritten) {
  Start();
  Wire wire(host_->port());
  const uint64_t file = wire.Open("1");
  std::mt19937_64 dice(TestSeed());
  std::string model(kBytes, '\0');
  for (uint64_t i = 0; i < 200; ++i) {
    const auto size = static_cast<uint32_t>(1 + dice() % 9000);
    const uint64_t offset = dice() % (kBytes - size);
    const std::string data(size, static_cast<char>('a' + i % 26));
    MessageBuilder w(kRequestMagic);
    w.Add(WriteOf(i, file, offset, size), data);
    wire.Send(w.Finish());
    ASSERT_EQ(wire.Next().at(0).header.code, Code::kOk);
    model.replace(offset, size, data);
    const uint64_t from = offset > 100 ? offset - 100 : 0;
    const auto length = static_cast<uint32_t>(std::min<uint64_t>(kBytes - from, 12000));
    MessageBuilder r(kRequestMagic);
    r.Add(ReadOf(i, file, from, length));
    wire.Send(r.Finish());
    const auto replies = wire.Next();
    ASSERT_EQ(replies.size(), 1u);
    ASSERT_EQ(replies[0].data, std::string_view(model).substr(from, length));
  }
}

TEST_P(BlocksServerTest, WrongRequests_AmongGoodOnes_AreAnsweredOneByOne) {
  Start();
  Wire wire(host_->port());
  const uint64_t file = wire.Open("0");
  MessageBuilder b(kRequestMagic);
  b.Add(ReadOf(1, file, 0, 1024));
  b.Add(ReadOf(2, file, kBytes - 512, 1024));
  b.Add(ReadOf(3, file + 1000, 0, 1024));
  b.Add(WriteOf(4, file, kBytes, 16), std::string(16, 'x'));
  RequestHeader sync{};
  sync.id = 5;
  sync.file = file;
  sync.op = Op::kSync;
  b.Add(sync);
  wire.Send(b.Finish());
  const auto replies = wire.Next();
  ASSERT_EQ(replies.size(), 5u);
  const Code codes[] = {Code::kOk, Code::kOutOfRange, Code::kNotFound, Code::kOutOfRange,
                        Code::kOk};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(replies[i].header.id, i + 1);
    EXPECT_EQ(replies[i].header.code, codes[i]) << i;
  }
  EXPECT_EQ(replies[0].data, std::string(1024, '\0'));
  // Nonsense ends that connection, after a word; others go on.
  Wire bad(host_->port());
  bad.Send(std::string(64, 'x'));
  const auto word = bad.Next();
  ASSERT_EQ(word.size(), 1u);
  EXPECT_EQ(word[0].header.code, Code::kInvalid);
  EXPECT_TRUE(bad.Next().empty());
  EXPECT_EQ(wire.Open("0"), file);
}

TEST_P(BlocksServerTest, Replies_Ordered_KeepTheOrderOfMessages) {
  options_.ordered = true;
  Start();
  Wire wire(host_->port());
  const uint64_t file = wire.Open("0");
  for (uint64_t i = 0; i < 300; ++i) {
    MessageBuilder b(kRequestMagic);
    if (i % 3 == 0) {
      b.Add(WriteOf(i, file, i % 7 * 4096, 1024), std::string(1024, 'w'));
    } else {
      b.Add(ReadOf(i, file, i % 5 * 4096, 8192));
    }
    wire.Send(b.Finish());
  }
  for (uint64_t i = 0; i < 300; ++i) {
    const auto replies = wire.Next();
    ASSERT_EQ(replies.size(), 1u);
    EXPECT_EQ(replies[0].header.id, i);
  }
}

// A file that is there is not cut, nor made longer, by a slip of the command line.
TEST_P(BlocksServerTest, Open_FilesOfAnotherSize_IsRefused) {
  Start();
  host_.reset();
  for (const uint64_t bytes : {kBytes / 2, 2 * kBytes}) {
    options_.files.file_bytes = bytes;
    const auto host = Server::Open(options_);
    EXPECT_TRUE(absl::IsFailedPrecondition(host.status())) << host.status();
  }
  options_.files.file_bytes = kBytes;
  Start();
}

TEST_P(BlocksServerTest, Requests_AgentLost_FailUntilItIsBack) {
  if (!GetParam()) GTEST_SKIP() << "has no agent";
  Start();
  Wire wire(host_->port());
  const uint64_t file = wire.Open("0");
  const auto ask = [&](const RequestHeader& h, const std::string& data) {
    MessageBuilder b(kRequestMagic);
    b.Add(h, data);
    wire.Send(b.Finish());
    const auto replies = wire.Next();
    return replies.empty() ? Code::kFailed : replies[0].header.code;
  };
  EXPECT_EQ(ask(WriteOf(1, file, 0, 5), "hello"), Code::kOk);
  agent_->Stop();
  EXPECT_EQ(ask(ReadOf(2, file, 0, 5), ""), Code::kUnavailable);
  EXPECT_EQ(ask(ReadOf(3, file, 0, 5), ""), Code::kUnavailable);
  agent_->Start();
  EXPECT_TRUE(
      testing_util::Eventually([&] { return ask(ReadOf(4, file, 0, 5), "") == Code::kOk; }));
}

INSTANTIATE_TEST_SUITE_P(Files, BlocksServerTest, ::testing::Bool(),
                         [](const auto& i) { return i.param ? "Store" : "Os"; });

// --- The offload functions, called as the agent does.
const offload::Program& OffloadProgram() {
  return *offload::LoadProgram(PULSE_TEST_BLOCKS_OFFLOAD).value();
}

struct Outputs {
  offload::Requests out;
  std::vector<std::string> host, agent;
};
Outputs* Of(offload::Requests* out) { return static_cast<Outputs*>(out->self); }

void Decide(const std::string& message, Outputs* o) {
  o->out.self = o;
  o->out.host = [](offload::Requests* out, const void* data, size_t size, uint32_t replies) {
    EXPECT_EQ(replies, 1u);
    Of(out)->host.emplace_back(static_cast<const char*>(data), size);
  };
  o->out.agent = [](offload::Requests* out, const void* data, size_t size) {
    Of(out)->agent.emplace_back(static_cast<const char*>(data), size);
  };
  o->out.answer = nullptr;
  OffloadProgram().predicate(nullptr, message.data(), message.size(), nullptr, &o->out);
}

TEST(BlocksOffloadTest, Predicate_MixedMessage_ReadsToAgentRestToHost) {
  const offload::Program& p = OffloadProgram();
  Outputs o;
  Decide(Message("rwrww"), &o);
  ASSERT_EQ(o.agent.size(), 2u);
  ASSERT_EQ(o.host.size(), 1u);
  std::vector<Request> requests;
  ASSERT_EQ(DecodeRequests(o.host[0], &requests), absl::OkStatus());
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].header.id, 4u);
  EXPECT_EQ(requests[1].data, std::string(1024, 'e'));
  ASSERT_EQ(DecodeRequests(o.agent[1], &requests), absl::OkStatus());
  EXPECT_EQ(requests.at(0).header.id, 3u);
  offload::ReadOp op{};
  ASSERT_EQ(p.read(nullptr, o.agent[1].data(), o.agent[1].size(), nullptr, &op), 1);
  EXPECT_EQ(op.file, 7u);
  EXPECT_EQ(op.offset, 3072u);
  EXPECT_EQ(op.size, 1024u);
  const std::string data(1024, 'd');
  std::string header(p.max_reply_header, '\0');
  offload::Reply reply{data.data(), 0, 1024, header.data(), 0, 0, nullptr};
  ASSERT_EQ(p.reply(nullptr, o.agent[1].data(), o.agent[1].size(), &op, &reply), 1);
  std::vector<Reply> replies;
  const std::string whole = header.substr(0, reply.header_size) + data;
  ASSERT_EQ(DecodeReplies(whole, &replies), absl::OkStatus());
  EXPECT_EQ(replies.at(0).header.id, 3u);
  EXPECT_EQ(replies.at(0).data, data);
}

TEST(BlocksOffloadTest, Predicate_OnlyWritesOrCutMessage_SplitsNothing) {
  for (const std::string& m : {Message("www"), Message("rwr").substr(0, 700)}) {
    Outputs o;
    Decide(m, &o);
    EXPECT_TRUE(o.agent.empty());
    EXPECT_TRUE(o.host.empty());
  }
}

TEST(BlocksOffloadTest, Predicate_LargestWrites_FitTheHostsParts) {
  MessageBuilder b(kRequestMagic);
  for (uint64_t i = 0; i < kMaxRequests - 1; ++i) {
    b.Add(WriteOf(i, 1, 0, kMaxIo), std::string(kMaxIo, 'x'));
  }
  b.Add(ReadOf(99, 1, 0, 16));
  Outputs o;
  Decide(std::string(b.Finish()), &o);
  EXPECT_EQ(o.agent.size(), 1u);
  size_t writes = 0;
  std::vector<Request> requests;
  for (const std::string& m : o.host) {
    ASSERT_EQ(DecodeRequests(m, &requests), absl::OkStatus());
    for (const Request& r : requests) EXPECT_EQ(r.header.id, writes++);
  }
  EXPECT_EQ(writes, kMaxRequests - 1);
}

TEST(BlocksOffloadTest, Error_LostMessage_AnswersEveryRequest) {
  std::string kinds(kMaxRequests, 'w');
  const std::string m = Message(kinds);
  char out[offload::kMaxErrorBytes];
  const size_t n = OffloadProgram().error(nullptr, m.data(), m.size(), offload::Error::kHostLost,
                                          out, sizeof(out));
  std::vector<Reply> replies;
  ASSERT_EQ(DecodeReplies({out, n}, &replies), absl::OkStatus());
  ASSERT_EQ(replies.size(), kMaxRequests);
  EXPECT_EQ(replies.back().header.id, kMaxRequests);
  EXPECT_EQ(replies.back().header.code, Code::kUnavailable);
  EXPECT_EQ(
      OffloadProgram().error(nullptr, nullptr, 0, offload::Error::kMalformed, out, sizeof(out)),
      sizeof(MessageHeader) + sizeof(ReplyHeader));
}

}  // namespace
}  // namespace pulse::blocks
