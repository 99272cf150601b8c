// Runs in files, and agents that merge them: in this process, or in one of their own that can be
// killed. For tests only.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "agent/socket_server.h"
#include "base/file_calls.h"
#include "base/testing.h"
#include "services/graph/engines/host_merger.h"
#include "services/graph/engines/spec.h"
#include "services/graph/runs/test_runs.h"

namespace pulse::graph::engines {

// Memory of a size that stays, which the agent maps as an output.
inline constexpr int kOutputSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

inline UniqueFd MemoryFile(const std::string& bytes, int seals = 0) {
  UniqueFd fd(memfd_create("pulse-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_TRUE(WriteAt(fd.get(), bytes, 0, "a test's memory").ok());
  if (seals != 0) {
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  }
  return fd;
}

inline std::string ContentOf(int fd) {
  struct stat st;
  EXPECT_EQ(fstat(fd, &st), 0);
  auto bytes = ReadFirst(fd, static_cast<uint64_t>(st.st_size), "reading", "a test's memory");
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

// Runs whose nodes meet in part.
struct TestInputs {
  std::vector<std::string> bytes;
  std::vector<std::shared_ptr<const RunReader>> runs;
  std::vector<UniqueFd> files;
  std::vector<int> descriptors;
  uint64_t records = 0;

  // `seal`: of memory that the agent may map.
  void Add(std::string run, bool seal) {
    auto reader = RunReader::Open(OwnRun(run, "run " + std::to_string(runs.size())));
    ASSERT_TRUE(reader.ok()) << reader.status();
    records += (*reader)->info().records;
    runs.push_back(*reader);
    files.push_back(MemoryFile(run, seal ? F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE : 0));
    descriptors.push_back(files.back().get());
    bytes.push_back(std::move(run));
  }
  MergeJob Job(RunSink* sink, int output, const MergeOptions& options) const {
    MergeJob job;
    job.runs = runs;
    job.files = descriptors;
    job.options = options;
    job.sink = sink;
    job.output = output;
    return job;
  }
  std::string MergedInline(const MergeOptions& options) const {
    StringSink sink;
    const auto engine = CreateInlineCopyEngine({});
    const auto merged = MergeRuns(runs, options, engine->get(), &sink);
    EXPECT_TRUE(merged.ok()) << merged.status();
    return std::move(sink.bytes());
  }
};

inline std::string RandomRun(std::mt19937_64* random, uint64_t nodes, uint64_t records,
                             EdgeId first) {
  std::vector<testing_runs::Item> items;
  for (uint64_t i = 0; i < records; ++i) {
    testing_runs::Item item;
    item.node = (*random)() % nodes;
    item.type = static_cast<Token>((*random)() % 3);
    item.other = (*random)() % nodes;
    item.edge = first + i;
    item.stamp = MakeStamp(1 + (*random)() % 50);
    item.properties[4] = cypher::Value::Int(static_cast<int64_t>((*random)() % 100));
    items.push_back(std::move(item));
  }
  testing_runs::Sort(&items);
  return testing_runs::RunOf(items, {});
}

inline TestInputs RandomInputs(std::mt19937_64* random, size_t runs, uint64_t nodes,
                               uint64_t records, bool seal = false) {
  TestInputs inputs;
  for (size_t i = 0; i < runs; ++i) {
    inputs.Add(RandomRun(random, nodes, records, 1 + i * 10'000'000), seal);
  }
  return inputs;
}

class TestAgent {
 public:
  explicit TestAgent(MergeAgentOptions options = {}) : agent_(std::move(options)) {
    Serve({Offered(&agent_)});
  }
  // One of another kind.
  explicit TestAgent(ServiceFactory factory) : agent_({}) { Serve({{&kSpec, std::move(factory)}}); }
  const std::string& socket() const { return socket_.get(); }
  MergeAgent& agent() { return agent_; }
  void Stop() { server_.reset(); }
  bool Idle() { return agent_.counters().running + agent_.counters().waiting == 0; }

 private:
  void Serve(ServiceTable services) {
    AgentOptions options;
    options.socket_path = socket_.get();
    options.handshake_ms = 60'000;
    server_ = SocketServer::Open(options, std::move(services)).value();
  }

  const testing_util::ScratchPath socket_{"graph.sock"};
  MergeAgent agent_;
  std::unique_ptr<SocketServer> server_;
};

// To be made while this process has no other thread.
class AgentProcess {
 public:
  // `stalls_at`: before this piece of output, counted from 1 over all compactions, the thread that
  // merges stops for good; 0: it does not.
  explicit AgentProcess(int stalls_at = 0) {
    void* at =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    shared_ = new (at) Shared;
    Start(stalls_at);
  }
  ~AgentProcess() {
    Kill();
    munmap(shared_, sizeof(Shared));
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  // The host of a stalled compaction waits until somebody kills or leaves this.
  void AwaitStall() const {
    EXPECT_TRUE(testing_util::Eventually([this] { return shared_->stalled.load(); }));
  }
  void Start(int stalls_at = 0) {
    const pid_t parent = getpid();
    shared_->stalled = false;
    pid_ = fork();
    if (pid_ == 0) {
      MergeAgentOptions merges;
      int pieces = 0;
      merges.before_write = [this, stalls_at, &pieces] {
        if (++pieces != stalls_at) return;
        shared_->stalled = true;
        while (true) pause();
      };
      MergeAgent agent(std::move(merges));
      AgentOptions options;
      options.socket_path = socket_.get();
      options.handshake_ms = 60'000;
      const auto server = SocketServer::Open(options, {Offered(&agent)});
      if (!server.ok()) _exit(1);
      testing_util::StayUntilKilled(parent);
    }
    EXPECT_GT(pid_, 0);
    EXPECT_TRUE(testing_util::Eventually([this] {
      AgentMerger merger({socket_.get()});
      return merger.Connect().ok();
    }));
  }
  void Signal(int signal) const { kill(pid_, signal); }
  void Kill() {
    if (pid_ <= 0) return;
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  const std::string& socket() const { return socket_.get(); }

 private:
  struct Shared {
    std::atomic<bool> stalled{false};
  };
  const testing_util::ScratchPath socket_{"graph-process.sock"};
  Shared* shared_ = nullptr;  // with the process
  pid_t pid_ = -1;
};

}  // namespace pulse::graph::engines
