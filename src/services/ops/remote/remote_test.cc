// An agent in another process, or thread, as an engine: what it makes is what the host makes, and
// an agent that dies, hangs or lies costs time only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/echo/spec.h"
#include "services/ops/remote/test_agent.h"
#include "services/ops/remote/wire.h"

namespace pulse::ops::remote {
namespace {

using filter::FilterOptions;
using filter::MakeSet;
using testing::HasSubstr;
using testing_util::Eventually;
using testing_util::TestSeed;

constexpr Placement::Kind kAuto = Placement::Kind::kAuto;
constexpr Placement::Kind kAgent = Placement::Kind::kAgent;
constexpr Placement::Kind kHost = Placement::Kind::kHost;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

CompressOptions CompressWith(Format format, int level, Processors processors) {
  CompressOptions options;
  options.format = format;
  options.level = level;
  options.chunk_bytes = 64 << 10;
  options.processors = std::move(processors);
  return options;
}

DecompressOptions DecompressWith(Processors processors) {
  DecompressOptions options;
  options.processors = std::move(processors);
  return options;
}

const std::vector<std::string>& Rules() {
  static const std::vector<std::string> rules = {"7919\\d* .*15", "^3\\d+4", "99[0-7]+ 11"};
  return rules;
}

class RemoteTest : public testing::TestWithParam<MoverKind> {};

INSTANTIATE_TEST_SUITE_P(Movers, RemoteTest,
                         testing::Values(MoverKind::kShared, MoverKind::kVmRead),
                         [](const auto& of) { return std::string(MoverName(of.param)); });

TEST_P(RemoteTest, Compress_ByTheAgentAlone_IsWhatTheHostWrites) {
  TestAgent agent(2, GetParam());
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const std::string data = MakeData(Kind::kMixed, 3'000'000, TestSeed());
  for (const Format format : kAllFormats) {
    for (const int level : {1, 6, 9}) {
      SCOPED_TRACE(absl::StrCat(FormatName(format), " ", level));
      const Outcome host = RunCompress(CompressWith(format, level, On(nullptr, kHost)), data);
      const Outcome remote = RunCompress(CompressWith(format, level, On(connected, kAgent)), data);
      ASSERT_EQ(remote.status, absl::OkStatus());
      // ISA-L (up to level 6) makes another code or match, in one block of some thousands, by where
      // its stream lies in memory: the host's engine and the agent's may differ by some bytes.
      const bool isal = level <= 6 && format != Format::kZstd && format != Format::kLz4;
      EXPECT_TRUE(isal || remote.bytes == host.bytes);
      EXPECT_NEAR(static_cast<double>(remote.bytes.size()), static_cast<double>(host.bytes.size()),
                  64);
      EXPECT_EQ(remote.agent()->chunks, remote.stats.chunks);
      const Outcome back = RunDecompress(DecompressWith(On(connected, kAgent)), remote.bytes);
      EXPECT_EQ(back.status, absl::OkStatus());
      EXPECT_TRUE(back.bytes == data);
      ASSERT_NE(back.agent(), nullptr);
      EXPECT_EQ(back.agent()->chunks, back.stats.chunks);
    }
  }
  CompressOptions primed = CompressWith(Format::kGzip, 6, On(connected, kAgent));
  primed.primed = true;
  const Outcome remote = RunCompress(primed, data);
  EXPECT_EQ(remote.status, absl::OkStatus());
  EXPECT_TRUE(RunDecompress({}, remote.bytes).bytes == data);
  EXPECT_TRUE(Eventually([&] { return agent.counters().undelivered == 0; }));
}

TEST_P(RemoteTest, Compress_WithTheHost_EachDoesSome) {
  TestAgent agent(1, GetParam());
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const std::string data = MakeData(Kind::kText, 8'000'000, TestSeed());
  Processors processors = On(connected, Placement::Kind::kSplit);
  processors.placement.percent = 50;
  const Outcome both = RunCompress(CompressWith(Format::kGzip, 9, processors), data);
  ASSERT_EQ(both.status, absl::OkStatus());
  EXPECT_NEAR(static_cast<double>(both.agent()->chunks), static_cast<double>(both.stats.chunks) / 2,
              1);
  EXPECT_TRUE(RunDecompress(DecompressWith(On(connected, kAuto)), both.bytes).bytes == data);
}

// The agent's metrics have what the host's placement decided.
TEST(RemoteOpsTest, Compress_WithTheHost_AgentIsToldWhatEachSideDid) {
  TestAgent agent;
  auto connected = RemoteAgent::Connect(agent.socket()).value();
  const std::string data = MakeData(Kind::kText, 8'000'000, TestSeed());
  Processors processors = On(connected, Placement::Kind::kSplit);
  processors.placement.percent = 25;
  PlacementNumbers mine;
  processors.numbers = &mine;
  for (int run = 0; run < 2; ++run) {
    const Outcome both = RunCompress(CompressWith(Format::kZstd, 3, processors), data);
    ASSERT_EQ(both.status, absl::OkStatus());
  }
  const std::string text = MetricsText(mine.Take());
  EXPECT_THAT(text, HasSubstr("pulse_placement_runs_total{placement=\"split\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("chunks_total{task=\"compress_zstd\",side=\"agent\"} "));
  // Awaited before the host leaves: an agent that is starved for a quarter of a second may lose the
  // last.
  EXPECT_TRUE(Eventually([&] { return MetricsText(agent.counters().placement.Take()) == text; }))
      << text << "\nbut the agent has\n"
      << MetricsText(agent.counters().placement.Take());
  processors.agent = nullptr;
  connected = nullptr;
  EXPECT_EQ(MetricsText(agent.counters().placement.Take()), text);
}

TEST_P(RemoteTest, Filter_ByTheAgentAlone_SelectsWhatTheHostSelects) {
  TestAgent agent(2, GetParam());
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const auto rules = MakeSet(Rules());
  const std::string data = MakeData(Kind::kText, 3'000'000, TestSeed());
  for (const filter::Select select :
       {filter::Select::kRecords, filter::Select::kCount, filter::Select::kCaptures}) {
    for (const bool invert : {false, true}) {
      if (invert && select == filter::Select::kCaptures) continue;
      FilterOptions options;
      options.selection = {select, invert};
      options.source.chunk_bytes = 64 << 10;
      const Outcome host = RunFilter(*rules, options, data);
      options.processors = On(connected, kAgent);
      const Outcome remote = RunFilter(*rules, options, data);
      ASSERT_EQ(remote.status, absl::OkStatus());
      EXPECT_GT(host.selected, 0u);
      EXPECT_EQ(remote.selected, host.selected);
      EXPECT_TRUE(remote.bytes == host.bytes);
      EXPECT_EQ(remote.agent()->chunks, remote.stats.chunks);
    }
  }
}

TEST(RemoteOpsTest, Filter_TheSameRulesAgain_AreCompiledOnce) {
  TestAgent agent;
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const auto rules = MakeSet(Rules());
  FilterOptions options;
  options.processors = On(connected, kAgent);
  const std::string data = MakeData(Kind::kText, 100'000, TestSeed());
  const Outcome first = RunFilter(*rules, options, data);
  const Outcome second = RunFilter(*rules, options, data);
  EXPECT_EQ(first.status, absl::OkStatus());
  EXPECT_TRUE(first.bytes == second.bytes);
  EXPECT_EQ(agent.counters().rules, Rules().size());
}

// Decompress, filter and compress at the same time, on one agent with one thread.
TEST(RemoteOpsTest, Filter_CompressedToCompressed_AllByTheAgent) {
  TestAgent agent;
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const auto rules = MakeSet({"1"});
  const std::string data = MakeData(Kind::kText, 12'000'000, TestSeed());
  const std::string packed =
      RunCompress(CompressWith(Format::kGzip, 1, On(nullptr, kHost)), data).bytes;
  FilterOptions options;
  options.compress = Format::kZstd;
  const Outcome host = RunFilter(*rules, options, packed);
  options.processors = On(connected, kAgent);
  const Outcome remote = RunFilter(*rules, options, packed);
  ASSERT_EQ(remote.status, absl::OkStatus());
  EXPECT_TRUE(remote.bytes == host.bytes);
}

TEST(RemoteOpsTest, Decompress_DamagedData_IsReportedAsByTheHost) {
  TestAgent agent;
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const std::string data = MakeData(Kind::kMixed, 2'000'000, TestSeed());
  for (const Format format : kAllFormats) {
    SCOPED_TRACE(FormatName(format));
    std::string bytes = RunCompress(CompressWith(format, 6, On(nullptr, kHost)), data).bytes;
    for (size_t i = 0; i < 40; ++i) bytes[bytes.size() / 2 + i] ^= static_cast<char>(0x55);
    const Outcome host = RunDecompress({}, bytes);
    const Outcome remote = RunDecompress(DecompressWith(On(connected, kAgent)), bytes);
    EXPECT_FALSE(host.status.ok());
    EXPECT_EQ(remote.status, host.status);
  }
}

// Rules that would cost the agent too much: nobody's agent is kept busy by one request.
TEST(RemoteOpsTest, Filter_MoreRulesThanTheAgentTakes_IsTheHosts) {
  OpsAgentOptions limits;
  limits.most_rules = 3;
  limits.most_rule_bytes = 40;
  limits.most_instructions = 2000;
  TestAgent agent(limits);
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const std::string data = MakeData(Kind::kText, 300'000, TestSeed());
  const auto run = [&](const std::vector<std::string>& texts, Placement::Kind kind) {
    const auto rules = MakeSet(texts);
    FilterOptions options;
    options.processors = On(connected, kind);
    return RunFilter(*rules, options, data);
  };
  EXPECT_EQ(run({"12", "34", "56"}, kAgent).status, absl::OkStatus());
  EXPECT_EQ(agent.counters().rules, 3u);
  for (const std::vector<std::string>& texts : {std::vector<std::string>{"12", "34", "56", "78"},
                                                {std::string(41, '1')},
                                                {"12", "(3456){900}"}}) {
    const Outcome alone = run(texts, kAgent);
    EXPECT_TRUE(absl::IsResourceExhausted(alone.status)) << alone.status;
    const Outcome both = run(texts, kAuto);
    ASSERT_EQ(both.status, absl::OkStatus());
    EXPECT_TRUE(both.bytes == run(texts, kHost).bytes);
    EXPECT_EQ(both.agent(), nullptr);
  }
  EXPECT_EQ(agent.counters().rules, 3u);
  EXPECT_TRUE(Eventually([&] { return agent.counters().operators == 0; }));
}

// More operations at a time than an agent takes of one program.
TEST(RemoteOpsTest, Make_AgentWithoutRoom_TheHostDoesIt) {
  TestAgent agent;
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  EngineOrder order;
  order.kind = EngineOrder::Kind::kDecompress;
  std::vector<std::unique_ptr<Engine>> engines;
  for (size_t i = 0; i < OpsService::kMostGroups; ++i) {
    auto made = connected->Make(order, {"x", Side::kAgent, 1, {}}, nullptr);
    ASSERT_EQ(made.status(), absl::OkStatus()) << i;
    engines.push_back(*std::move(made));
  }
  const Outcome alone = RunCompress(CompressWith(Format::kGzip, 6, On(connected, kAgent)), data);
  EXPECT_TRUE(absl::IsResourceExhausted(alone.status)) << alone.status;
  Outcome both = RunCompress(CompressWith(Format::kGzip, 6, On(connected, kAuto)), data);
  ASSERT_EQ(both.status, absl::OkStatus());
  EXPECT_EQ(both.agent(), nullptr);
  EXPECT_TRUE(RunDecompress({}, both.bytes).bytes == data);
  engines.clear();
  both = RunCompress(CompressWith(Format::kGzip, 6, On(connected, kAgent)), data);
  ASSERT_EQ(both.status, absl::OkStatus());
  EXPECT_NE(both.agent(), nullptr);
}

// What a message group cannot hold, the host does.
TEST(RemoteOpsTest, Filter_ALineThatIsTooLong_IsTheHosts) {
  TestAgent agent;
  const auto connected = RemoteAgent::Connect(agent.socket()).value();
  const auto rules = MakeSet({"needle"});
  std::string data;
  data.resize(40'000'000, 'x');
  data += "needle\nneedle\n";
  data += std::string(3'000'000, 'y') + "\n";
  FilterOptions options;
  options.processors = On(connected, kAgent);
  const Outcome alone = RunFilter(*rules, options, data);
  EXPECT_THAT(Text(alone.status), AllOf(HasSubstr("at most"), HasSubstr("--cpus")));
  options.processors = On(connected, kAuto);
  const Outcome both = RunFilter(*rules, options, data);
  EXPECT_EQ(both.status, absl::OkStatus());
  EXPECT_EQ(both.selected, 2u);
}

// --- the agent is lost

enum class Operation { kCompress, kDecompress, kFilter };

Outcome RunOperation(Operation operation, Processors processors, const std::string& data,
                     const std::string& packed, const filter::RuleSet& rules,
                     std::function<void()> hook) {
  switch (operation) {
    case Operation::kCompress:
      return RunCompress(CompressWith(Format::kGzip, 9, std::move(processors)), data,
                         std::move(hook));
    case Operation::kDecompress:
      return RunDecompress(DecompressWith(std::move(processors)), packed, std::move(hook));
    case Operation::kFilter: {
      FilterOptions options;
      options.source.chunk_bytes = 64 << 10;
      options.processors = std::move(processors);
      return RunFilter(rules, options, data, std::move(hook));
    }
  }
  return {};
}

class LostTest : public testing::TestWithParam<Operation> {
 protected:
  const AgentProcess agent_;  // before any thread
  const std::string data_ = MakeData(Kind::kText, 6'000'000, TestSeed());
  const std::string packed_ =
      RunCompress(CompressWith(Format::kGzip, 1, On(nullptr, kHost)), data_).bytes;
  const std::unique_ptr<filter::RuleSet> rules_ = MakeSet(Rules());

  Outcome Expected() {
    return RunOperation(GetParam(), On(nullptr, kHost), data_, packed_, *rules_, nullptr);
  }
};

INSTANTIATE_TEST_SUITE_P(All, LostTest,
                         testing::Values(Operation::kCompress, Operation::kDecompress,
                                         Operation::kFilter),
                         [](const auto& of) {
                           return of.param == Operation::kCompress     ? "compress"
                                  : of.param == Operation::kDecompress ? "decompress"
                                                                       : "filter";
                         });

TEST_P(LostTest, Killed_InMidStream_TheHostDoesTheRest) {
  const auto connected = agent_.Connect();
  // Half of the chunks are the agent's, so that it has some when it dies.
  Processors processors = On(connected, Placement::Kind::kSplit);
  processors.placement.percent = 50;
  const Outcome outcome = RunOperation(GetParam(), processors, data_, packed_, *rules_,
                                       [this] { agent_.Signal(SIGKILL); });
  ASSERT_EQ(outcome.status, absl::OkStatus());
  EXPECT_TRUE(outcome.bytes == Expected().bytes);
  ASSERT_NE(outcome.agent(), nullptr);
  EXPECT_TRUE(outcome.agent()->lost);
  // And what comes later goes without it.
  const Outcome next =
      RunOperation(GetParam(), On(connected, kAuto), data_, packed_, *rules_, nullptr);
  ASSERT_EQ(next.status, absl::OkStatus());
  EXPECT_TRUE(next.bytes == Expected().bytes);
  EXPECT_EQ(next.agent(), nullptr);
}

TEST_P(LostTest, Killed_WithoutAHost_TheErrorSaysWhatToDo) {
  const auto connected = agent_.Connect();
  const Outcome outcome = RunOperation(GetParam(), On(connected, kAgent), data_, packed_, *rules_,
                                       [this] { agent_.Signal(SIGKILL); });
  EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
  EXPECT_THAT(Text(outcome.status),
              AllOf(HasSubstr(agent_.socket()), HasSubstr("was lost"), HasSubstr("--cpus")));
}

TEST_P(LostTest, Stopped_InMidStream_TheHostDoesTheRest) {
  const auto connected = agent_.Connect();
  const Outcome outcome = RunOperation(GetParam(), On(connected, kAuto), data_, packed_, *rules_,
                                       [this] { agent_.Signal(SIGSTOP); });
  agent_.Signal(SIGCONT);
  ASSERT_EQ(outcome.status, absl::OkStatus());
  EXPECT_TRUE(outcome.bytes == Expected().bytes);
}

TEST(HangTest, Stopped_WithoutAHost_CountsAsLost) {
  const AgentProcess agent;
  const auto connected = agent.Connect();
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  const Outcome outcome = RunCompress(CompressWith(Format::kGzip, 6, On(connected, kAgent)), data,
                                      [&] { agent.Signal(SIGSTOP); });
  agent.Signal(SIGCONT);
  EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
}

// --- connecting

TEST(ConnectTest, Connect_NobodyThere_SaysHowToStartOne) {
  const auto agent = RemoteAgent::Connect("/tmp/pulse-no-such.sock");
  EXPECT_TRUE(absl::IsNotFound(agent.status())) << agent.status();
  EXPECT_THAT(Text(agent.status()),
              HasSubstr("pulse agent --socket /tmp/pulse-no-such.sock --ops"));
  EXPECT_EQ(ErrnoOf(agent.status()), ENOENT);
}

TEST(ConnectTest, Connect_AgentWithoutOperators_NamesWhatItHas) {
  const testing_util::ScratchPath socket("ops-echo.sock");
  AgentOptions options;
  options.socket_path = socket.get();
  options.handshake_ms = 60'000;
  options.known_services = {&echo::kSpec, &kSpec};
  const auto server =
      SocketServer::Open(options, {{&echo::kSpec, &echo::CreateAgentService}}).value();
  const auto agent = RemoteAgent::Connect(socket.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(agent.status())) << agent.status();
  EXPECT_THAT(Text(agent.status()), AllOf(HasSubstr("does not offer the service ops"),
                                          HasSubstr("echo"), HasSubstr("pulse agent --ops")));
}

TEST(ConnectTest, Connect_OtherVersion_NamesBoth) {
  OpsAgent ops({1, {}, false});
  ServiceSpec next = kSpec;
  next.version = kSpec.version + 1;
  const testing_util::ScratchPath socket("ops-next.sock");
  AgentOptions options;
  options.socket_path = socket.get();
  options.handshake_ms = 60'000;
  OfferedService offered = Offered(&ops);
  offered.spec = &next;
  const auto server = SocketServer::Open(options, {offered}).value();
  EXPECT_THAT(Text(RemoteAgent::Connect(socket.get()).status()),
              AllOf(HasSubstr(absl::StrCat("version ", next.version)),
                    HasSubstr(absl::StrCat("version ", kSpec.version))));
}

TEST(ConnectTest, Make_OtherCodecs_AreRefusedWhereBytesCount) {
  OpsAgent ops({1, {}, false});
  OfferedService offered = Offered(&ops);
  offered.facts[0] ^= uint64_t{1} << kThreadBits;
  offered.facts[1] = uint64_t{1} << static_cast<int>(Codec::kLibdeflate);
  const testing_util::ScratchPath socket("ops-other.sock");
  AgentOptions options;
  options.socket_path = socket.get();
  options.handshake_ms = 60'000;
  const auto server = SocketServer::Open(options, {offered}).value();
  const auto connected = RemoteAgent::Connect(socket.get()).value();
  CompressOptions compress = CompressWith(Format::kGzip, 6, On(connected, kAuto));
  compress.deterministic = true;
  EXPECT_THAT(Text(RunCompress(compress, "x").status), HasSubstr("other versions of the codecs"));
  compress = CompressWith(Format::kZstd, 6, On(connected, kAuto));
  EXPECT_THAT(Text(RunCompress(compress, "x").status),
              AllOf(HasSubstr("does not do that"), HasSubstr("compress by libdeflate")));
}

// --- the agent's threads

int PolicyOn(OpsAgent& agent) {
  std::atomic<int> policy{-1};
  agent.Post(&agent, [&] { policy = sched_getscheduler(0); });
  EXPECT_TRUE(Eventually([&] { return policy >= 0; }));
  return policy;
}

TEST(OpsAgentTest, Threads_BesideRemoteClients_RunInWhatTheyLeave) {
  OpsAgent plain({1, {}, false});
  EXPECT_EQ(PolicyOn(plain), SCHED_BATCH);
  OpsAgent beside({1, {}, true});
  EXPECT_EQ(PolicyOn(beside), SCHED_IDLE);
}

class FrontModule : public ServiceModule, public NetworkFront {
 public:
  std::optional<OfferedService> Offer() override { return std::nullopt; }
  NetworkFront* front() override { return this; }
  absl::Status Listen() override { return absl::OkStatus(); }
  void Stop() override {}
  FrontStatus Status() const override { return {}; }
  std::string DescribeFront() const override { return ""; }
};

TEST(OpsAgentTest, Open_BesideAFront_GivesWay) {
  OptionValues options;
  AgentFacts facts;
  EXPECT_EQ(kEntry.open(options, facts).value(), nullptr);
  options.Set("--ops", {});
  EXPECT_THAT(kEntry.open(options, facts).value()->Describe(), Not(HasSubstr("give way")));
  FrontModule front;
  facts.opened.emplace_back(nullptr, &front);
  EXPECT_THAT(kEntry.open(options, facts).value()->Describe(), HasSubstr("give way"));
}

}  // namespace
}  // namespace pulse::ops::remote
