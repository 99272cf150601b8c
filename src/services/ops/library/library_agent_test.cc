// pulse/ops.h with an agent process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/socket_server.h"
#include "base/cpu_list.h"
#include "base/testing.h"
#include "pulse/ops.h"
#include "services/ops/remote/spec.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using operators::Operators;
using operators::Request;
using operators::Result;
using testing::HasSubstr;
using testing::Not;
using testing_util::TestSeed;

TEST(OpsLibraryAgentTest, Open_OldStruct_HasNoAgent) {
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  options.struct_size = offsetof(pulse_ops_options, agent);
  options.agent = "/tmp/pulse-no-such.sock";  // beyond what the program knows
  EXPECT_TRUE(Operators::Open(&options, nullptr));
  options.struct_size -= sizeof(size_t);
  EXPECT_FALSE(Operators::Open(&options, nullptr));
}

TEST(OpsLibraryAgentTest, Open_AgentThatIsNotThere_SaysSo) {
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  options.agent = "/tmp/pulse-no-such.sock";
  pulse_ops* ops = nullptr;
  char why[256];
  EXPECT_EQ(pulse_ops_open(&options, &ops, why, sizeof why), PULSE_OPS_IO);
  EXPECT_THAT(why, testing::HasSubstr("--ops"));
  const std::string cpu = std::to_string(MyCpus().front());
  options.agent_cpus = cpu.c_str();
  EXPECT_EQ(pulse_ops_open(&options, &ops, why, sizeof why), PULSE_OPS_INVALID);
}

TEST(OpsLibraryAgentTest, Run_ByAnAgent_AsByTheHostUntilItIsLost) {
  const testing_util::ScratchPath socket("ops-library.sock");
  remote::OpsAgent agent({1, {}, false});
  AgentOptions agent_options;
  agent_options.socket_path = socket.get();
  auto server = SocketServer::Open(agent_options, {remote::Offered(&agent)}).value();
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  const std::string& path = socket.get();
  options.agent = path.c_str();
  options.placement = "agent";
  std::string why;
  const Operators operators = Operators::Open(&options, &why);
  ASSERT_TRUE(operators) << why;
  const std::string data = MakeData(Kind::kMixed, 5'000'000, TestSeed());
  Request request(PULSE_OPS_COMPRESS);
  request.From(data);
  Result packed = operators.Run(request);
  ASSERT_TRUE(packed.ok()) << packed.message();
  EXPECT_TRUE(packed.data() == Operators::Open(nullptr, nullptr).Run(request).data());
  EXPECT_GT(agent.counters().tasks[0].chunks, 0u);
  server.reset();
  const Result lost = operators.Run(request);
  EXPECT_EQ(lost.code(), PULSE_OPS_IO) << lost.message();
  // Without CPUs of the host, small ones fail as well.
  ASSERT_EQ(pulse_ops_submit(operators.get(), &request), PULSE_OPS_OK);
  Result batch;
  ASSERT_EQ(pulse_ops_wait(operators.get(), batch.get(), 60000), PULSE_OPS_OK);
  EXPECT_EQ(batch.code(), PULSE_OPS_IO) << batch.message();
}

struct BatchAgent {
  BatchAgent() {
    AgentOptions options;
    options.socket_path = socket.get();
    options.handshake_ms = 60'000;
    server = SocketServer::Open(options, {remote::Offered(&agent)}).value();
  }
  Operators Open(const char* placement, const char* cpus) const {
    pulse_ops_options options;
    pulse_ops_options_init(&options);
    options.agent = socket.get().c_str();
    options.placement = placement;
    options.cpus = cpus;
    std::string why;
    Operators operators = Operators::Open(&options, &why);
    EXPECT_TRUE(operators) << why;
    return operators;
  }

  testing_util::ScratchPath socket{"ops-batch.sock"};
  remote::OpsAgent agent{{2, {}, false}};
  std::unique_ptr<SocketServer> server;
};

pulse_ops_counts CountsOf(const Operators& operators) {
  pulse_ops_counts counts;
  pulse_ops_counts_init(&counts);
  EXPECT_EQ(pulse_ops_get_counts(operators.get(), &counts), PULSE_OPS_OK);
  return counts;
}

TEST(OpsLibraryAgentTest, Submit_ToAnAgentAlone_AllOperationsAreDoneThere) {
  const BatchAgent agent;
  const Operators operators = agent.Open("agent", nullptr);
  ASSERT_TRUE(operators);
  std::string why;
  const operators::Rules rules = operators::Rules::Compile({"b+", "[0-9]x"}, 0, &why);
  ASSERT_TRUE(rules) << why;
  for (uint64_t i = 0; i < 24; ++i) {
    const std::string data = MakeData(Kind::kMixed, 1000 + i * 3000, TestSeed() + i);
    for (const int format : {PULSE_OPS_GZIP, PULSE_OPS_ZSTD, PULSE_OPS_LZ4}) {
      Request pack(PULSE_OPS_COMPRESS);
      pack.format = format;
      pack.From(data);
      const Result packed = operators.Submit(pack).get();
      ASSERT_TRUE(packed.ok()) << packed.message();
      Request unpack(PULSE_OPS_DECOMPRESS);
      unpack.From(packed.data());
      const Result unpacked = operators.Submit(unpack).get();
      ASSERT_TRUE(unpacked.ok()) << unpacked.message();
      EXPECT_TRUE(unpacked.data() == data) << i;
    }
    Request filter(PULSE_OPS_FILTER);
    filter.rules = rules.get();
    filter.From("abc\nxyz\n7x\n7 x\n");
    const Result found = operators.Submit(filter).get();
    ASSERT_TRUE(found.ok()) << found.message();
    EXPECT_EQ(found.data(), "abc\n7x\n");
    EXPECT_EQ(found.raw().selected, 2u);
  }
  const pulse_ops_counts counts = CountsOf(operators);
  EXPECT_EQ(counts.submitted, 24u * 7);
  EXPECT_EQ(counts.done_by_agent, 24u * 7);
  EXPECT_EQ(counts.fallback_chunks, 0u);
  EXPECT_GT(counts.agent_chunks, 24u * 4);
  EXPECT_EQ(counts.agent_lost, 0);
}

// The agent has room for sixteen at a time.
TEST(OpsLibraryAgentTest, Submit_ManyKindsOfOrders_AllAreDoneByTheAgent) {
  const BatchAgent agent;
  const Operators operators = agent.Open("agent", nullptr);
  ASSERT_TRUE(operators);
  const std::string data = MakeData(Kind::kMixed, 20'000, TestSeed());
  uint64_t submitted = 0;
  for (int round = 0; round < 2; ++round) {
    for (const int format : {PULSE_OPS_GZIP, PULSE_OPS_ZLIB, PULSE_OPS_ZSTD, PULSE_OPS_LZ4}) {
      for (int level = 1; level <= 9; ++level, ++submitted) {
        Request pack(PULSE_OPS_COMPRESS);
        pack.format = format;
        pack.level = level;
        pack.From(data);
        const Result packed = operators.Submit(pack).get();
        ASSERT_TRUE(packed.ok()) << format << " at " << level << ": " << packed.message();
      }
    }
  }
  const pulse_ops_counts counts = CountsOf(operators);
  EXPECT_EQ(counts.done_by_agent, submitted);
  EXPECT_EQ(counts.fallback_chunks, 0u);
}

TEST(OpsLibraryAgentTest, Submit_AgentDiesWithinABatch_HostDoesTheRestAndCounts) {
  BatchAgent agent;
  const std::string cpu = std::to_string(MyCpus().front());
  const Operators operators = agent.Open("split=100", cpu.c_str());
  ASSERT_TRUE(operators);
  const std::string data = MakeData(Kind::kMixed, 300'000, TestSeed());
  Request request(PULSE_OPS_COMPRESS);
  request.level = 9;
  request.From(data);
  const Result by_host = Operators::Open(nullptr, nullptr).Run(request);
  constexpr int kRequests = 60;
  for (int i = 0; i < kRequests; ++i) {
    request.tag = static_cast<uint64_t>(i);
    ASSERT_EQ(pulse_ops_submit(operators.get(), &request), PULSE_OPS_OK);
  }
  std::vector<int> seen(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    Result result;
    ASSERT_EQ(pulse_ops_wait(operators.get(), result.get(), 60000), PULSE_OPS_OK);
    ASSERT_TRUE(result.ok()) << result.message();
    EXPECT_TRUE(result.data() == by_host.data());
    ++seen[result.raw().tag];
    if (i == 5) agent.server.reset();
  }
  EXPECT_EQ(seen, std::vector<int>(kRequests, 1));
  const pulse_ops_counts counts = CountsOf(operators);
  EXPECT_GT(counts.agent_chunks, 0u);
  EXPECT_GT(counts.fallback_chunks, 0u);
  EXPECT_EQ(counts.agent_lost, 1);
  EXPECT_EQ(counts.agent_chunks + counts.fallback_chunks, uint64_t{kRequests});
  // Each by who did it, and not by whose thread it was.
  const std::string text = operators.Metrics();
  const std::string chunks = "chunks_total{task=\"compress_libdeflate\",side=\"";
  EXPECT_THAT(text, HasSubstr(absl::StrCat(chunks, "agent\"} ", counts.agent_chunks, "\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat(chunks, "host\"} ", counts.fallback_chunks, "\n")));
  const auto line = [](const char* family, const char* side) {
    return absl::StrCat("pulse_placement_", family, "{task=\"compress_libdeflate\",side=\"", side,
                        "\"} ");
  };
  EXPECT_THAT(text, HasSubstr(absl::StrCat(line("refused_chunks_total", "agent"),
                                           counts.fallback_chunks, "\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat(line("engines_lost_total", "agent"), "1\n")));
  for (const char* side : {"host", "agent"}) {
    EXPECT_THAT(text, Not(HasSubstr(absl::StrCat(line("busy_seconds_total", side), "0\n"))));
    EXPECT_THAT(text, HasSubstr(line("busy_seconds_total", side)));
  }
}

TEST(OpsLibraryAgentTest, Submit_Auto_EachRequestIsDoneOnce) {
  const BatchAgent agent;
  const Operators operators = agent.Open("auto", nullptr);
  ASSERT_TRUE(operators);
  std::vector<std::string> data;
  for (uint64_t i = 0; i < 200; ++i) {
    data.push_back(MakeData(Kind::kMixed, 100 + i * 700, TestSeed() + i));
  }
  for (size_t i = 0; i < data.size(); ++i) {
    Request request(PULSE_OPS_COMPRESS);
    request.tag = i;
    request.From(data[i]);
    ASSERT_EQ(pulse_ops_submit(operators.get(), &request), PULSE_OPS_OK);
  }
  for (size_t i = 0; i < data.size(); ++i) {
    Result result;
    ASSERT_EQ(pulse_ops_wait(operators.get(), result.get(), 60000), PULSE_OPS_OK);
    ASSERT_TRUE(result.ok()) << result.message();
    Request unpack(PULSE_OPS_DECOMPRESS);
    unpack.From(result.data());
    EXPECT_TRUE(operators.Run(unpack).data() == data[result.raw().tag]);
  }
  const pulse_ops_counts counts = CountsOf(operators);
  EXPECT_EQ(counts.done_by_host + counts.done_by_agent, data.size());
  EXPECT_EQ(counts.fallback_chunks, 0u);
}

TEST(OpsLibraryAgentTest, Metrics_OfRunsAndBatches_SayWhichSideDidWhat) {
  const std::vector<int> cpus = MyCpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU: no second side";
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  const std::string host = std::to_string(cpus[0]);
  const std::string agent = std::to_string(cpus[1]);
  options.cpus = host.c_str();
  options.agent_cpus = agent.c_str();
  options.placement = "split=50";
  const Operators both = Operators::Open(&options, nullptr);
  ASSERT_TRUE(both);
  const std::string data = MakeData(Kind::kText, 8 << 20, TestSeed());
  Request run(PULSE_OPS_COMPRESS);
  run.From(data).format = PULSE_OPS_ZSTD;
  run.chunk_bytes = 1 << 20;
  const Result packed = both.Run(run);
  ASSERT_TRUE(packed.ok()) << packed.message();
  Request small(PULSE_OPS_DECOMPRESS);
  small.From(packed.data());
  std::vector<std::future<Result>> batch;
  for (int i = 0; i < 4; ++i) batch.push_back(both.Submit(small));
  for (auto& one : batch) EXPECT_TRUE(one.get().ok());
  // What failed was done by nobody. Cut in the midst of one of its eight frames, not between two.
  const std::string cut(packed.data().substr(0, packed.data().size() * 9 / 16));
  Request bad(PULSE_OPS_DECOMPRESS);
  bad.From(cut);
  EXPECT_EQ(both.Submit(bad).get().code(), PULSE_OPS_DAMAGED);
  const std::string text = both.Metrics();
  for (const char* task : {"compress_zstd", "decompress_zstd"}) {
    const int each = task[0] == 'c' ? 4 : 2;
    for (const char* side : {"host", "agent"}) {
      const std::string labels = absl::StrCat("{task=\"", task, "\",side=\"", side, "\"} ");
      EXPECT_THAT(text, HasSubstr(absl::StrCat("chunks_total", labels, each, "\n")));
      EXPECT_THAT(text, Not(HasSubstr(absl::StrCat("rate_bytes_per_second", labels, "0\n"))));
    }
  }
  EXPECT_THAT(text, HasSubstr("runs_total{placement=\"split\"} 5\n"));
  // As much as there is room for.
  std::string some(101, 'x');
  EXPECT_EQ(pulse_ops_get_metrics(both.get(), some.data(), 100), text.size());
  EXPECT_EQ(some.substr(0, 99), text.substr(0, 99));
  EXPECT_EQ(some.substr(99), std::string("\0x", 2));
  EXPECT_EQ(pulse_ops_get_metrics(both.get(), nullptr, 0), text.size());
}

TEST(OpsLibraryAgentTest, Counts_OfNothing_AreRefused) {
  const Operators operators = Operators::Open(nullptr, nullptr);
  pulse_ops_counts counts{};
  EXPECT_EQ(pulse_ops_get_counts(operators.get(), &counts), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_get_counts(operators.get(), nullptr), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_get_counts(nullptr, &counts), PULSE_OPS_INVALID);
}

}  // namespace
}  // namespace pulse::ops
