// Compactions by an agent: byte by byte those of the host; agents that die, hang, refuse and lie;
// hosts that order what makes no sense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>

#include "agent/session.h"
#include "channel/handshake.h"
#include "services/graph/engines/test_merges.h"
#include "services/graph/engines/wire.h"

namespace pulse::graph::engines {
namespace {

using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::TestSeed;

MergeOptions RandomOptions(std::mt19937_64* random) {
  MergeOptions options;
  options.oldest_snapshot = (*random)() % 60;
  options.bottom = (*random)() % 2 == 0;
  options.check_copied = (*random)() % 2 == 0;
  options.rows_per_segment = 64u << (*random)() % 6;
  options.buffer_bytes = uint64_t{4096} << (*random)() % 8;
  options.executor.max_piece_bytes = uint64_t{1024} << (*random)() % 8;
  if ((*random)() % 3 == 0) {
    options.first_node = (*random)() % 300;
    options.last_node = options.first_node + (*random)() % 3000;
  }
  return options;
}

// A process that can be killed is forked before this one has threads: this test comes first.
TEST(AgentKilled, InMidCompaction_IsUnavailableAndTheHostCanGoOn) {
  std::mt19937_64 random(TestSeed());
  AgentProcess agent;
  const TestInputs inputs = RandomInputs(&random, 3, 20'000, 60'000);
  MergeOptions options;
  options.oldest_snapshot = 60;
  options.buffer_bytes = 4096;  // many writes
  const std::string expected = inputs.MergedInline(options);
  for (int round = 0; round < 3; ++round) {
    agent.Kill();
    agent.Start(2 + static_cast<int>(random() % 50));
    AgentMerger merger({agent.socket(), /*silence_ms=*/60'000});
    ASSERT_TRUE(merger.Connect().ok());
    StringSink sink;
    const UniqueFd output = MemoryFile("");
    absl::StatusOr<MergeStats> merged = absl::UnknownError("");
    std::thread host([&] { merged = merger.Merge(inputs.Job(&sink, output.get(), options)); });
    agent.AwaitStall();
    agent.Kill();
    host.join();
    const std::string part = ContentOf(output.get());
    EXPECT_GT(part.size(), 0u);
    EXPECT_LT(part.size(), expected.size());
    EXPECT_EQ(expected.compare(0, part.size(), part), 0);
    EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
    EXPECT_THAT(testing_util::Text(merged.status()), HasSubstr("lost"));
    const auto again = merger.Merge(inputs.Job(&sink, output.get(), options));
    EXPECT_TRUE(absl::IsUnavailable(again.status())) << again.status();
    agent.Start();
    // The same object finds the new agent.
    const UniqueFd fresh = MemoryFile("");
    const auto next = merger.Merge(inputs.Job(&sink, fresh.get(), options));
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(ContentOf(fresh.get()), expected);
  }
  // One that hangs, in a compaction and as a whole.
  agent.Kill();
  agent.Start(1);
  AgentMerger impatient({agent.socket(), /*silence_ms=*/2000});
  ASSERT_TRUE(Eventually([&] { return impatient.Connect().ok(); }));
  StringSink sink;
  const UniqueFd output = MemoryFile("");
  auto merged = impatient.Merge(inputs.Job(&sink, output.get(), options));
  EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
  EXPECT_THAT(testing_util::Text(merged.status()), HasSubstr("no sign of life"));
  agent.Signal(SIGSTOP);
  merged = impatient.Merge(inputs.Job(&sink, output.get(), options));
  EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
  agent.Signal(SIGCONT);
}

TEST(AgentMerge, RandomRuns_AreMergedAsByTheHost) {
  std::mt19937_64 random(TestSeed());
  TestAgent agent;
  AgentMerger merger({agent.socket()});
  ThreadMerger thread({});
  const int rounds = testing_util::Rounds(40);
  for (int round = 0; round < rounds; ++round) {
    const TestInputs inputs = RandomInputs(&random, 1 + random() % 6, 1 + random() % 2000,
                                           random() % 3000, random() % 2 == 0);
    const MergeOptions options = RandomOptions(&random);
    const std::string expected = inputs.MergedInline(options);
    // Into a file, or into memory of a fixed size, where copies go directly.
    const bool window = random() % 2 == 0;
    const size_t room = expected.size() + random() % 100'000;
    const UniqueFd output =
        window ? MemoryFile(std::string(room, 'x'), kOutputSeals) : MemoryFile("");
    StringSink sink;
    const auto merged = merger.Merge(inputs.Job(&sink, output.get(), options));
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_TRUE(sink.bytes().empty());
    EXPECT_TRUE(ContentOf(output.get()).substr(0, expected.size()) == expected) << window;
    const auto again = thread.Merge(inputs.Job(&sink, -1, options));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(sink.bytes() == expected);
    EXPECT_EQ(merged->records_in, again->records_in);
    EXPECT_EQ(merged->records_out, again->records_out);
    EXPECT_EQ(merged->bytes_encoded, again->bytes_encoded);
    EXPECT_EQ(merged->column_bytes_copied, again->column_bytes_copied);
  }
  EXPECT_EQ(agent.agent().counters().merges, static_cast<uint64_t>(rounds));
  EXPECT_EQ(agent.agent().counters().failed, 0u);
}

TEST(AgentMerge, SeveralHostsAtOnce_GetTheirOwnResults) {
  std::mt19937_64 random(TestSeed());
  MergeAgentOptions two;
  two.threads = 2;
  TestAgent agent(two);
  std::vector<std::thread> threads;
  for (int host = 0; host < 3; ++host) {
    threads.emplace_back([&agent, seed = random()] {
      std::mt19937_64 own(seed);
      AgentMerger merger({agent.socket()});
      for (int round = 0; round < 5; ++round) {
        const TestInputs inputs = RandomInputs(&own, 3, 500, 3000);
        const UniqueFd output = MemoryFile("");
        StringSink sink;
        const auto merged = merger.Merge(inputs.Job(&sink, output.get(), {}));
        ASSERT_TRUE(merged.ok()) << merged.status();
        EXPECT_TRUE(ContentOf(output.get()) == inputs.MergedInline({}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AgentMerge, NobodyThereOrAnotherService_SaysHowToStartIt) {
  std::mt19937_64 random(TestSeed());
  const TestInputs inputs = RandomInputs(&random, 1, 10, 10);
  StringSink sink;
  const UniqueFd output = MemoryFile("");
  AgentMerger nobody({"/tmp/pulse-no-agent-here.sock"});
  const auto merged = nobody.Merge(inputs.Job(&sink, output.get(), {}));
  EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
  EXPECT_THAT(testing_util::Text(merged.status()), HasSubstr("--graph"));
  TestAgent agent;
  AgentMerger merger({agent.socket()});
  MergeJob job = inputs.Job(&sink, -1, {});
  EXPECT_TRUE(absl::IsUnavailable(merger.Merge(job).status())) << "no output";
  job = inputs.Job(&sink, output.get(), {});
  job.files = {};
  EXPECT_TRUE(absl::IsUnavailable(merger.Merge(job).status())) << "no files";
}

TEST(AgentMerge, WhatItCannotDo_IsUnavailableWithTheReason) {
  std::mt19937_64 random(TestSeed());
  MergeAgentOptions small;
  small.most_memory = 100'000;
  TestAgent agent(small);
  AgentMerger merger({agent.socket()});
  StringSink sink;
  const auto refused = [&](const MergeJob& job, const std::string& why) {
    const auto merged = merger.Merge(job);
    EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
    EXPECT_THAT(testing_util::Text(merged.status()), HasSubstr(why));
  };
  const TestInputs large = RandomInputs(&random, 2, 5000, 20'000);
  const UniqueFd output = MemoryFile("");
  refused(large.Job(&sink, output.get(), {}), "--graph-memory");
  TestInputs inputs = RandomInputs(&random, 2, 500, 500);
  refused(inputs.Job(&sink, inputs.descriptors[0], {.rows_per_segment = 3}), "rows_per_segment");
  // Cut short, damaged, not a file.
  ASSERT_EQ(ftruncate(inputs.descriptors[1], 100), 0);
  refused(inputs.Job(&sink, output.get(), {}), "has 100 bytes");
  std::string bytes = inputs.bytes[1];
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(WriteAt(inputs.descriptors[1], bytes, 0, "a file").ok());
  refused(inputs.Job(&sink, output.get(), {.check_copied = true}), "run 1");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd in(ends[0]), out(ends[1]);
  inputs.descriptors[1] = in.get();
  refused(inputs.Job(&sink, output.get(), {}), "no regular file");
  inputs.descriptors[1] = inputs.files[1].get();
  refused(inputs.Job(&sink, out.get(), {}), "no regular file");
  const UniqueFd reading = OpenFile("/proc/self/exe", O_RDONLY);
  refused(inputs.Job(&sink, reading.get(), {}), "reading only");
  EXPECT_TRUE(Eventually([&] { return agent.Idle(); }));
}

TEST(AgentMerge, AgentStops_IsUnavailable) {
  std::mt19937_64 random(TestSeed());
  const TestInputs inputs = RandomInputs(&random, 2, 500, 500);
  StringSink sink;
  const UniqueFd output = MemoryFile("");
  TestAgent agent;
  AgentMerger merger({agent.socket()});
  ASSERT_TRUE(merger.Merge(inputs.Job(&sink, output.get(), {})).ok());
  agent.Stop();
  EXPECT_TRUE(absl::IsUnavailable(merger.Merge(inputs.Job(&sink, output.get(), {})).status()));
}

// Parallel relationships take a few bits each in a run, and some 70 bytes in memory.
TEST(AgentMerge, NodeThatTakesTooMuchMemory_IsUnavailable) {
  MergeAgentOptions small;
  small.most_memory = uint64_t{4} << 20;
  TestAgent agent(small);
  TestInputs inputs;
  for (EdgeId first : {1, 1'000'001}) {
    std::vector<testing_runs::Item> items;
    for (EdgeId i = 0; i < 100'000; ++i) items.push_back({7, 1, 8, first + i, 0, {}});
    inputs.Add(testing_runs::RunOf(items, {}), false);
    ASSERT_LT(inputs.bytes.back().size(), 50'000u);
  }
  AgentMerger merger({agent.socket()});
  StringSink sink;
  const UniqueFd output = MemoryFile("");
  const auto merged = merger.Merge(inputs.Job(&sink, output.get(), {}));
  EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
  EXPECT_THAT(testing_util::Text(merged.status()), HasSubstr("200000 records of node 7"));
}

// --- Hosts that are no friends

class HostileHost {
 public:
  explicit HostileHost(const std::string& socket) {
    LinkOptions options;
    options.service = {kServiceId, kServiceVersion};
    options.socket_path = socket;
    link_ = ConnectToAgent(options, -1).value();
  }
  absl::Status Ask(const std::vector<int>& fds) {
    return link_->Ask(MakeMessage(wire::MessageType::kService), fds, wire::MessageType::kServiceAck)
        .status();
  }
  // Puts what `put` puts into a compaction's socket, and gives it to the agent; the report's code,
  // -1 for none.
  int Order(const std::function<void(int socket)>& put) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd mine(ends[0]);
    UniqueFd theirs(ends[1]);
    put(mine.get());
    if (!Ask({theirs.get()}).ok()) return -1;
    theirs = UniqueFd();
    Report report;
    bool reset = false;
    while (true) {
      const ssize_t n = recv(mine.get(), &report, sizeof(report), 0);
      if (n < 0 && errno == ECONNRESET && !std::exchange(reset, true)) continue;
      if (n <= 0) return -1;
      if (n == sizeof(report)) return report.code;
    }
  }

 private:
  std::unique_ptr<AgentLink> link_;
};

TEST(HostileHost, RandomOrders_AreRefusedAndHarmNobody) {
  std::mt19937_64 random(TestSeed());
  TestAgent agent;
  HostileHost hostile(agent.socket());
  const TestInputs inputs = RandomInputs(&random, 2, 500, 500);
  for (int round = 0; round < testing_util::Rounds(300); ++round) {
    const UniqueFd output = MemoryFile("");
    const int code = hostile.Order([&](int socket) {
      const uint64_t messages = random() % 4;
      for (uint64_t m = 0; m < messages; ++m) {
        wire::Message message =
            MakeMessage(random() % 8 == 0 ? wire::MessageType::kFile : wire::MessageType::kService);
        for (uint64_t& arg : message.args) {
          arg = random() % 3 == 0 ? random() : random() % 3;
        }
        if (m > 0) message.args[0] = random() % 2 == 0 ? random() : random() % 5000;
        // A text that does not end.
        std::memset(message.text, 'n', sizeof(message.text));
        std::vector<int> fds;
        for (uint64_t n = random() % 6 == 0 ? random() % 4 : 1; n > 0; --n) {
          fds.push_back(random() % 3 == 0 ? output.get() : inputs.descriptors[random() % 2]);
        }
        SendMessage(socket, message, fds, false).IgnoreError();
      }
      if (random() % 5 == 0) {
        const char junk[300] = "junk";
        (void)!send(socket, junk, random() % sizeof(junk), MSG_DONTWAIT);
      }
    });
    // By luck an order may make sense: one run, merged with itself alone.
    EXPECT_NE(code, -1) << "no report of round " << round;
  }
  // No socket, several, none.
  EXPECT_FALSE(hostile.Ask({}).ok());
  EXPECT_FALSE(hostile.Ask({inputs.descriptors[0]}).ok());
  EXPECT_FALSE(hostile.Ask({inputs.descriptors[0], inputs.descriptors[1]}).ok());
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd a(ends[0]), b(ends[1]);
  EXPECT_FALSE(hostile.Ask({a.get()}).ok());
  // Others are served.
  AgentMerger merger({agent.socket()});
  StringSink sink;
  const UniqueFd output = MemoryFile("");
  const auto merged = merger.Merge(inputs.Job(&sink, output.get(), {}));
  EXPECT_TRUE(merged.ok()) << merged.status();
}

// A run of any content, right by its size, is refused or merged, and never more than that.
TEST(HostileHost, DamagedRuns_AreRefusedOrMerged) {
  std::mt19937_64 random(TestSeed());
  TestAgent agent;
  AgentMerger merger({agent.socket()});
  for (int round = 0; round < testing_util::Rounds(150); ++round) {
    TestInputs inputs = RandomInputs(&random, 2, 300, 600);
    std::string bytes = inputs.bytes[0];
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] ^= static_cast<char>(random());
    inputs.files[0] =
        MemoryFile(bytes, random() % 2 == 0 ? F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE : 0);
    inputs.descriptors[0] = inputs.files[0].get();
    const UniqueFd output = MemoryFile("");
    StringSink sink;
    const auto merged = merger.Merge(inputs.Job(&sink, output.get(), RandomOptions(&random)));
    if (!merged.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
    }
  }
  EXPECT_TRUE(Eventually([&] { return agent.Idle(); }));
}

// Memory that its owner has not touched, of a size that this machine may not have.
TEST(HostileHost, OutputOfAnySize_IsWrittenAndNotFilled) {
  std::mt19937_64 random(TestSeed());
  TestAgent agent;
  AgentMerger merger({agent.socket()});
  const TestInputs inputs = RandomInputs(&random, 2, 300, 600);
  const UniqueFd output = MemoryFile("");
  ASSERT_EQ(ftruncate(output.get(), int64_t{80} << 20), 0);
  ASSERT_EQ(fcntl(output.get(), F_ADD_SEALS, kOutputSeals), 0);
  StringSink sink;
  const auto merged = merger.Merge(inputs.Job(&sink, output.get(), {}));
  ASSERT_TRUE(merged.ok()) << merged.status();
  const std::string expected = inputs.MergedInline({});
  EXPECT_TRUE(ContentOf(output.get()).substr(0, expected.size()) == expected);
  struct stat st {};
  ASSERT_EQ(fstat(output.get(), &st), 0);
  // Where all pages are huge, one or two of them.
  EXPECT_LE(st.st_blocks * 512, int64_t{8} << 20);
}

TEST(SharedMappings, OfSeveralHosts_KeepNoMoreThanTheyMayTogether) {
  const auto budget = std::make_shared<MappingBudget>(uint64_t{3} << 20);
  const auto memory = [] {
    return MemoryFile(std::string(1 << 20, 'x'), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  };
  SharedMappings one(budget);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(one.ForReading(memory().get(), 1 << 20).data, nullptr);
  }
  EXPECT_EQ(budget->used, uint64_t{3} << 20);
  {
    // It is served, and nothing of it is kept.
    SharedMappings other(budget);
    const auto mapping = other.ForReading(memory().get(), 1 << 20);
    ASSERT_NE(mapping.data, nullptr);
    EXPECT_EQ(mapping.data[0], 'x');
    EXPECT_EQ(budget->used, uint64_t{3} << 20);
  }
  {
    SharedMappings mine(std::make_shared<MappingBudget>(uint64_t{3} << 20));
    const UniqueFd output = MemoryFile(std::string(8192, 'x'), kOutputSeals);
    EXPECT_NE(mine.ForWriting(output.get(), 8192).data, nullptr);
    const UniqueFd larger = MemoryFile(std::string(8192, 'x'), kOutputSeals);
    EXPECT_EQ(mine.ForWriting(larger.get(), 8191).data, nullptr);
  }
  EXPECT_EQ(budget->used, uint64_t{3} << 20);
}

TEST(HostileHost, ManyOrdersThatNobodyReads_AreBounded) {
  std::mt19937_64 random(TestSeed());
  TestAgent agent;
  const TestInputs inputs = RandomInputs(&random, 3, 5000, 20'000);
  HostileHost hostile(agent.socket());
  std::vector<UniqueFd> sockets, outputs;
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    sockets.emplace_back(ends[0]);
    const UniqueFd theirs(ends[1]);
    outputs.push_back(MemoryFile(""));
    wire::Message order =
        MakeMessage(wire::MessageType::kService,
                    {3, 0, 0, ~uint64_t{0}, 4096 | uint64_t{4} << 32, 512 | uint64_t{64} << 32});
    ASSERT_TRUE(SendMessage(ends[0], order, {outputs.back().get()}, false).ok());
    for (size_t k = 0; k < 3; ++k) {
      order.args[0] = inputs.bytes[k].size();
      ASSERT_TRUE(SendMessage(ends[0], order, {inputs.descriptors[k]}, false).ok());
    }
    if (!hostile.Ask({theirs.get()}).ok()) ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(agent.agent().counters().refused, static_cast<uint64_t>(refused));
  sockets.clear();  // gives all of them up
  EXPECT_TRUE(Eventually([&] { return agent.Idle(); }));
}

// --- Agents that are no friends

class LyingService : public Service {
 public:
  explicit LyingService(std::function<void(UniqueFd)> answer) : answer_(std::move(answer)) {}
  void OnDescriptor(SessionQueue*, const wire::Descriptor&) override {}
  void OnFile(uint32_t, UniqueFd) override {}
  absl::Status OnMessage(const wire::Message&, std::vector<UniqueFd> fds, wire::Message*) override {
    answer_(std::move(fds[0]));
    return absl::OkStatus();
  }
  void BeginShutdown() override {}
  bool Drained() const override { return true; }

 private:
  const std::function<void(UniqueFd)> answer_;
};

TEST(LyingAgent, AnyAnswer_IsUnavailableWithTheReason) {
  std::mt19937_64 random(TestSeed());
  const TestInputs inputs = RandomInputs(&random, 2, 100, 100);
  enum Kind { kHangsUp, kCut, kNoReport, kFailed, kOddCode, kSilent, kTrickles, kBackwards };
  const std::pair<Kind, const char*> kinds[] = {{kHangsUp, "lost during a compaction"},
                                                {kCut, "makes no sense"},
                                                {kNoReport, "makes no sense"},
                                                {kFailed, "xxx"},
                                                {kOddCode, "xxx"},
                                                {kSilent, "no sign of life"},
                                                {kTrickles, "does not get on"},
                                                {kBackwards, "progress makes no sense"}};
  for (const auto& [kind, why] : kinds) {
    UniqueFd kept;
    std::thread trickle;
    std::atomic<int> asked{0};
    {
      TestAgent agent([&, kind = kind](Session*, FileEngine*) -> std::unique_ptr<Service> {
        return std::make_unique<LyingService>([&, kind](UniqueFd socket) {
          ++asked;
          Report report{};
          report.magic = kind == kNoReport ? 1 : kReportMagic;
          report.code = kind == kOddCode ? -7 : 3;
          std::memset(report.text, 'x', sizeof(report.text));
          Progress progress{5};
          const auto put = [&](const auto& what, size_t bytes) {
            return send(socket.get(), &what, bytes, MSG_NOSIGNAL) > 0;
          };
          switch (kind) {
            case kHangsUp:
              break;
            case kCut:
              put(report, 17);
              break;
            case kNoReport:
              put(report, sizeof(report));
              break;
            case kFailed:
            case kOddCode:
              put(progress, sizeof(progress));
              put(report, sizeof(report));
              break;
            case kSilent:
              kept = std::move(socket);
              break;
            case kTrickles:
              trickle = std::thread([end = std::move(socket)] {
                Progress more{1};
                while (send(end.get(), &more, sizeof(more), MSG_NOSIGNAL) > 0) {
                  ++more.bytes;
                  // sleep: a sign of life now and then
                  std::this_thread::sleep_for(std::chrono::milliseconds(20));
                }
              });
              break;
            case kBackwards:
              put(progress, sizeof(progress));
              progress.bytes = 4;
              put(progress, sizeof(progress));
              kept = std::move(socket);
              break;
          }
        });
      });
      const bool waits = kind == kSilent || kind == kTrickles;
      AgentMerger merger({agent.socket(), /*silence_ms=*/waits ? 2000 : 60'000});
      ASSERT_TRUE(Eventually([&] { return merger.Connect().ok(); }));
      StringSink sink;
      const UniqueFd output = MemoryFile("");
      const auto merged = merger.Merge(inputs.Job(&sink, output.get(), {}));
      EXPECT_TRUE(absl::IsUnavailable(merged.status())) << kind << ": " << merged.status();
      EXPECT_THAT(testing_util::Text(merged.status()), HasSubstr(why)) << kind;
      EXPECT_EQ(asked, 1) << kind;
    }
    if (trickle.joinable()) trickle.join();
  }
}

}  // namespace
}  // namespace pulse::graph::engines
