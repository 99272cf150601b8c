// Compactions by an agent: byte by byte those of the host; agents that die, hang, refuse and lie;
// hosts that order what makes no sense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
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
  int lost = 0;
  for (int round = 0; round < 50 && lost < 3; ++round) {
    AgentMerger merger({agent.socket()});
    ASSERT_TRUE(merger.Connect().ok());
    StringSink sink;
    const UniqueFd output = MemoryFile("");
    absl::StatusOr<MergeStats> merged = absl::UnknownError("");
    std::thread host([&] { merged = merger.Merge(inputs.Job(&sink, output.get(), options)); });
    struct stat st {};
    Eventually([&] { return fstat(output.get(), &st) == 0 && st.st_size > 0; },
               std::chrono::microseconds(20));
    agent.Kill();
    host.join();
    if (merged.ok()) {
      EXPECT_EQ(ContentOf(output.get()), expected);  // it was faster
    } else {
      ++lost;
      EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
      EXPECT_THAT(testing_util::Text(merged.status()), HasSubstr("lost"));
      const auto again = merger.Merge(inputs.Job(&sink, output.get(), options));
      EXPECT_TRUE(absl::IsUnavailable(again.status())) << again.status();
    }
    agent.Start();
    // The same object finds the new agent.
    const UniqueFd fresh = MemoryFile("");
    const auto next = merger.Merge(inputs.Job(&sink, fresh.get(), options));
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(ContentOf(fresh.get()), expected);
  }
  EXPECT_GT(lost, 0);
  // One that hangs.
  agent.Signal(SIGSTOP);
  AgentMerger impatient({agent.socket(), /*silence_ms=*/300});
  const UniqueFd output = MemoryFile("");
  StringSink sink;
  const auto merged = impatient.Merge(inputs.Job(&sink, output.get(), options));
  EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
  agent.Signal(SIGCONT);
}

TEST(AgentMerge, RandomRuns_AreMergedAsByTheHost) {
  std::mt19937_64 random(TestSeed());
  TestAgent agent;
  AgentMerger merger({agent.socket()});
  ThreadMerger thread({});
  for (int round = 0; round < 40; ++round) {
    const TestInputs inputs = RandomInputs(&random, 1 + random() % 6, 1 + random() % 2000,
                                           random() % 3000, random() % 2 == 0);
    const MergeOptions options = RandomOptions(&random);
    const std::string expected = inputs.MergedInline(options);
    // Into a file, or into memory of a fixed size, where copies go directly.
    const bool window = random() % 2 == 0;
    const size_t room = expected.size() + random() % 100'000;
    const UniqueFd output =
        window ? MemoryFile(std::string(room, 'x'), F_SEAL_SHRINK | F_SEAL_GROW) : MemoryFile("");
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
  EXPECT_EQ(agent.agent().counters().merges, 40u);
  EXPECT_EQ(agent.agent().counters().failed, 0u);
}

TEST(AgentMerge, SeveralHostsAtOnce_EachGetTheirs) {
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
  for (int round = 0; round < 300; ++round) {
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
  for (int round = 0; round < 150; ++round) {
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

TEST(LyingAgent, AnyAnswer_IsUnavailableOrStats) {
  std::mt19937_64 random(TestSeed());
  const TestInputs inputs = RandomInputs(&random, 2, 100, 100);
  UniqueFd kept;
  for (int kind = 0; kind < 6; ++kind) {
    TestAgent agent([&](Session*, FileEngine*) -> std::unique_ptr<Service> {
      return std::make_unique<LyingService>([&, kind](UniqueFd socket) {
        Report report{};
        report.magic = kReportMagic;
        report.code = kind == 4 ? -7 : 3;
        std::memset(report.text, 'x', sizeof(report.text));
        const Progress progress{5};
        switch (kind) {
          case 0:
            break;  // hangs up
          case 1:
            (void)!send(socket.get(), &report, 17, 0);
            break;
          case 2:
            report.magic = 1;
            (void)!send(socket.get(), &report, sizeof(report), 0);
            break;
          case 3:
          case 4:
            (void)!send(socket.get(), &progress, sizeof(progress), 0);
            (void)!send(socket.get(), &report, sizeof(report), 0);
            break;
          default:
            kept = std::move(socket);  // and says nothing
        }
      });
    });
    AgentMerger merger({agent.socket(), /*silence_ms=*/200});
    StringSink sink;
    const UniqueFd output = MemoryFile("");
    const auto merged = merger.Merge(inputs.Job(&sink, output.get(), {}));
    EXPECT_TRUE(absl::IsUnavailable(merged.status())) << kind << ": " << merged.status();
  }
}

}  // namespace
}  // namespace pulse::graph::engines
