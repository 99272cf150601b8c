// The choice of an engine: by name, and by cost and size; what fits together and what does not.
#include "services/graph/engines/engine_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <vector>

#include "base/cpu_list.h"
#include "base/log.h"
#include "base/testing.h"
#include "mover/test_dsa_portal.h"
#include "services/graph/engines/test_merges.h"
#include "services/graph/runs/flush_plan.h"

namespace pulse::graph::engines {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_util::TestSeed;
using testing_util::Text;

constexpr uint64_t kMiB = uint64_t{1} << 20;

EngineWork MergeOf(uint64_t bytes) {
  EngineWork work;
  work.kind = EngineWork::Kind::kMerge;
  work.bytes = bytes;
  return work;
}
EngineWork FlushOf(uint64_t bytes) {
  EngineWork work = MergeOf(bytes);
  work.kind = EngineWork::Kind::kFlush;
  return work;
}

std::string Chosen(EngineSet* set, const EngineWork& work) {
  const auto choice = set->Choose(work);
  EXPECT_TRUE(choice.ok()) << choice.status();
  if (!choice.ok()) return "";
  EXPECT_NE(choice->engine, nullptr);
  EXPECT_EQ(choice->merger != nullptr, choice->name == "agent");
  return choice->name;
}

void Tell(EngineSet* set, const EngineWork& work, const std::string& name, double nanos_per_byte,
          double cpu_per_byte, absl::Status fell_back = absl::OkStatus()) {
  EngineOutcome outcome;
  outcome.name = name;
  outcome.nanos = static_cast<int64_t>(nanos_per_byte * static_cast<double>(work.bytes));
  outcome.cpu_nanos = static_cast<int64_t>(cpu_per_byte * static_cast<double>(work.bytes));
  outcome.fell_back = std::move(fell_back);
  set->Report(work, outcome);
}

EngineSetOptions Auto(const std::string& socket) {
  EngineSetOptions options;
  options.agent_socket = socket;
  // None, whatever this machine has.
  options.dsa = {"/nothing/dev", "/nothing/sys"};
  return options;
}

TEST(EngineSet, Auto_TriesEachAndTakesTheCheapest) {
  TestAgent agent;
  const auto set = EngineSet::Open(Auto(agent.socket())).value();
  const EngineWork large = MergeOf(64 * kMiB);
  EXPECT_EQ(Chosen(set.get(), MergeOf(kMiB / 2)), "inline") << "small";
  EXPECT_EQ(Chosen(set.get(), FlushOf(64 * kMiB)), "inline") << "an agent does no flushes";
  EngineWork memory = large;
  memory.in_files = false;
  EXPECT_EQ(Chosen(set.get(), memory), "inline") << "nothing tried yet";
  EXPECT_EQ(Chosen(set.get(), large), "inline");
  Tell(set.get(), large, "inline", 1, 1);
  EXPECT_EQ(Chosen(set.get(), large), "agent") << "tried next";
  Tell(set.get(), large, "agent", 2, 0.01);
  EXPECT_EQ(Chosen(set.get(), large), "agent") << "cheaper, and not too slow";
  EXPECT_EQ(Chosen(set.get(), memory), "inline") << "no files";
  Tell(set.get(), large, "agent", 20, 0.01);
  EXPECT_EQ(Chosen(set.get(), large), "inline") << "too slow by now";
  EXPECT_THAT(set->Describe(), AllOf(HasSubstr("auto"), HasSubstr(agent.socket()),
                                     HasSubstr("no dsa: no work queue")));
}

TEST(EngineSet, AutoWithAgentThatFails_LetsItRestAndTriesAgain) {
  TestAgent agent;
  const auto set = EngineSet::Open(Auto(agent.socket())).value();
  const EngineWork large = MergeOf(64 * kMiB);
  Tell(set.get(), large, "inline", 1, 1);
  Tell(set.get(), large, "agent", 1, 0.01);
  Tell(set.get(), large, "agent", 0, 0, absl::UnavailableError("it was lost"));
  for (int i = 0; i < EngineSet::kRest; ++i) EXPECT_EQ(Chosen(set.get(), large), "inline") << i;
  EXPECT_EQ(Chosen(set.get(), large), "agent");
  EXPECT_EQ(set->uses()["agent"].fell_back, 1u);
  EXPECT_THAT(set->Summary(), AllOf(HasSubstr("1 done here instead"), HasSubstr("it was lost")));
}

TEST(EngineSet, AutoWithoutAgent_WorksAndSaysSo) {
  std::vector<std::string> lines;
  const LogTarget log([&](absl::string_view line) {
    if (line.find("goes on without") != absl::string_view::npos) lines.emplace_back(line);
  });
  const auto set = EngineSet::Open(Auto("/tmp/pulse-nobody-here.sock")).value();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("auto goes on without the agent"),
                              HasSubstr("no agent at /tmp/pulse-nobody-here.sock: No such file"),
                              HasSubstr("start it with: pulse agent --socket")));
  EXPECT_THAT(set->Describe(), AllOf(HasSubstr("pulse-nobody-here"), HasSubstr("--graph")));
  EXPECT_EQ(Chosen(set.get(), MergeOf(64 * kMiB)), "inline");
  // Nor is it said where none was named, or where it is there.
  TestAgent agent;
  for (const std::string& socket : {std::string(), agent.socket()}) {
    ASSERT_TRUE(EngineSet::Open(Auto(socket)).ok());
  }
  EXPECT_EQ(lines.size(), 1u);
}

TEST(EngineSet, CpusThatAreNotThere_AreRefusedByNumber) {
  const std::string here = std::to_string(MyCpus().at(0)), gone = std::to_string(CPU_SETSIZE - 1);
  ASSERT_LT(MyCpus().back(), CPU_SETSIZE - 1) << "expects a machine with fewer CPUs";
  for (const EngineKind kind : {EngineKind::kThreads, EngineKind::kAgent}) {
    EXPECT_TRUE(EngineSet::Open({.kind = kind, .cpus = here}).ok());
    for (const std::string& cpus : {gone, here + "," + gone}) {
      const absl::Status status = EngineSet::Open({.kind = kind, .cpus = cpus}).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(Text(status),
                  AllOf(HasSubstr("--engine-cpus"), HasSubstr("\"" + cpus + "\""),
                        HasSubstr("cannot run on CPU " + gone), HasSubstr("name CPUs that exist")));
    }
    for (const char* bad : {"-1", "x", "5-2", "99999", "0,"}) {
      const absl::Status status = EngineSet::Open({.kind = kind, .cpus = bad}).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad << status;
      EXPECT_THAT(Text(status), AllOf(HasSubstr("--engine-cpus"), HasSubstr("write it as 0,2-3")));
    }
  }
}

TEST(EngineSet, EngineThatWasNamed_IsTakenForAllSizes) {
  TestAgent agent;
  for (const auto& [kind, name] : {std::pair(EngineKind::kInline, "inline"),
                                   {EngineKind::kThreads, "threads"},
                                   {EngineKind::kSim, "sim"}}) {
    const auto set = EngineSet::Open({.kind = kind}).value();
    for (const uint64_t bytes : {uint64_t{1}, 64 * kMiB}) {
      EXPECT_EQ(Chosen(set.get(), MergeOf(bytes)), name);
      EXPECT_EQ(Chosen(set.get(), FlushOf(bytes)), name);
    }
    EXPECT_THAT(set->Describe(), HasSubstr(name));
  }
  const auto set =
      EngineSet::Open({.kind = EngineKind::kAgent, .agent_socket = agent.socket()}).value();
  EXPECT_EQ(Chosen(set.get(), MergeOf(1)), "agent");
  EXPECT_EQ(Chosen(set.get(), FlushOf(64 * kMiB)), "inline");
  // A stand-in is called one wherever it is shown.
  const auto sim = EngineSet::Open({.kind = EngineKind::kSim}).value();
  Tell(sim.get(), MergeOf(kMiB), "sim", 1, 1);
  EXPECT_THAT(sim->Describe(), HasSubstr("stand-in"));
  EXPECT_THAT(sim->Summary(), HasSubstr("stand-in"));
}

TEST(EngineSet, EngineThatIsNotThere_SaysWhyNot) {
  EngineSetOptions options;
  options.kind = EngineKind::kAgent;
  options.agent_socket = "/tmp/pulse-nobody-here.sock";
  EXPECT_THAT(Text(EngineSet::Open(options).status()), HasSubstr("pulse agent --socket"));
  options = {};
  options.kind = EngineKind::kDsa;
  options.dsa = {"/nothing/dev", "/nothing/sys"};
  EXPECT_THAT(Text(EngineSet::Open(options).status()), HasSubstr("no Intel DSA"));
  EXPECT_THAT(Text(ParseEngineKind("gpu").status()),
              HasSubstr("auto|inline|threads|agent|dsa|sim"));
}

// Each engine with each option: what fits opens, and nothing is ignored.
TEST(EngineSet, OptionsInPairs_FitOrAreRefused) {
  TestAgent agent;
  for (const char* name : {"auto", "inline", "threads", "agent", "dsa", "sim"}) {
    const EngineKind kind = ParseEngineKind(name).value();
    for (const bool socket : {false, true}) {
      for (const bool cpus : {false, true}) {
        EngineSetOptions options;
        options.kind = kind;
        options.dsa = {"/nothing/dev", "/nothing/sys"};
        if (socket) options.agent_socket = agent.socket();
        if (cpus) options.cpus = "0";
        const bool takes_socket = kind == EngineKind::kAuto || kind == EngineKind::kAgent;
        const bool takes_cpus =
            kind == EngineKind::kThreads || (kind == EngineKind::kAgent && !socket);
        const absl::Status status = EngineSet::Open(options).status();
        const std::string what =
            std::string(name) + (socket ? " socket" : "") + (cpus ? " cpus" : "");
        if ((socket && !takes_socket) || (cpus && !takes_cpus)) {
          EXPECT_TRUE(absl::IsInvalidArgument(status)) << what << ": " << status;
        } else if (kind == EngineKind::kDsa) {
          EXPECT_TRUE(absl::IsNotFound(status)) << what << ": " << status;
        } else {
          EXPECT_TRUE(status.ok()) << what << ": " << status;
        }
      }
    }
  }
  EngineSetOptions bad;
  bad.kind = EngineKind::kThreads;
  bad.cpus = "x";
  EXPECT_FALSE(EngineSet::Open(bad).ok());
  bad.cpus = "";
  bad.threads = 0;
  EXPECT_FALSE(EngineSet::Open(bad).ok());
}

// Flushes and compactions by engines that fault, reorder and fill up.
TEST(EnginesByteByByte, FaultyOnes_WriteWhatTheInlineOneWrites) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 15; ++round) {
    TestDsaPortal::Counts counts;
    TestDsaFaults faults;
    faults.full = static_cast<uint32_t>(random() % 300);
    faults.page_faults = static_cast<uint32_t>(random() % 400);
    faults.errors = static_cast<uint32_t>(random() % 300);
    faults.cut_batches = static_cast<uint32_t>(random() % 300);
    faults.size = 1 + random() % 16;
    faults.largest = 4096 + random() % 10'000;
    const auto make = [&](int engine) -> std::unique_ptr<CopyEngine> {
      if (engine == 0) return CreateInlineCopyEngine({}).value();
      if (engine == 1) {
        return vdpu::CreateSimCopyEngine({.depth = 1 + random() % 20,
                                          .seed = random(),
                                          .partial = static_cast<uint32_t>(random() % 400),
                                          .failing = static_cast<uint32_t>(random() % 400),
                                          .full = static_cast<uint32_t>(random() % 400),
                                          .reorder = true})
            .value();
      }
      return CreateDsaCopyEngine(
                 std::make_unique<TestDsaPortal>(random(), faults, &counts),
                 {.depth = 1 + random() % 40, .batch = 1 + random() % 8, .largest = faults.largest})
          .value();
    };
    const TestInputs inputs = RandomInputs(&random, 1 + random() % 4, 200, 3000);
    MergeOptions options;
    options.buffer_bytes = uint64_t{4096} << random() % 6;
    options.executor.min_engine_bytes = 1 + random() % 600;
    options.executor.max_piece_bytes = 1 + random() % 5000;
    std::string merged[3];
    for (int engine = 0; engine < 3; ++engine) {
      StringSink sink;
      const auto copies = make(engine);
      const auto result = MergeRuns(inputs.runs, options, copies.get(), &sink);
      ASSERT_TRUE(result.ok()) << result.status();
      merged[engine] = std::move(sink.bytes());
      EXPECT_TRUE(merged[engine] == merged[0]) << "engine " << engine;
    }
    // A chunk, sorted by plan.
    std::vector<char> memory(Chunk::Bytes(4096) + 64);
    char* at = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    Chunk chunk = Chunk::Format(at, Side::kOut, 4096);
    for (EdgeId edge = 0; edge < 3000; ++edge) {
      const NodeId node = random() % 2 == 0 ? random() % 3 : random() % 500;
      if (!chunk.Append(node, Record{random() % 100, edge, MakeStamp(1), kNoRecord, 1})) break;
    }
    std::vector<Record> sorted[3];
    for (int engine = 0; engine < 3; ++engine) {
      sorted[engine].resize(chunk.size());
      const FlushPlan plan = PlanFlush({&chunk, 1}, sorted[engine].data());
      const auto copies = make(engine);
      PlanExecutor executor(copies.get(), options.executor);
      executor.Start(plan.copies);
      ASSERT_TRUE(executor.Wait().ok());
      EXPECT_EQ(
          std::memcmp(sorted[engine].data(), sorted[0].data(), sorted[0].size() * sizeof(Record)),
          0)
          << "engine " << engine;
    }
    EXPECT_EQ(counts.wrong, 0u);
  }
}

}  // namespace
}  // namespace pulse::graph::engines
