// An agent with operators, in this process or in one of its own that can be killed, and operations
// on it. For tests only.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/socket_server.h"
#include "base/testing.h"
#include "services/ops/byte_stream.h"
#include "services/ops/compress.h"
#include "services/ops/decompress.h"
#include "services/ops/filter/filter.h"
#include "services/ops/filter/test_rules.h"
#include "services/ops/remote/host_agent.h"
#include "services/ops/remote/spec.h"
#include "services/ops/test_data.h"

namespace pulse::ops::remote {

class TestAgent {
 public:
  explicit TestAgent(int threads = 1, MoverKind mover = MoverKind::kShared)
      : TestAgent(WithThreads(threads), mover) {}
  explicit TestAgent(OpsAgentOptions ops, MoverKind mover = MoverKind::kShared)
      : ops_(std::move(ops)) {
    AgentOptions options;
    options.socket_path = socket_.get();
    options.mover = mover;
    options.handshake_ms = 60'000;
    server_ = SocketServer::Open(options, {Offered(&ops_)}).value();
  }
  const std::string& socket() const { return socket_.get(); }
  SocketServer* server() { return server_.get(); }
  OpsCounters& counters() { return ops_.counters(); }
  OpsAgent& ops() { return ops_; }

 private:
  static OpsAgentOptions WithThreads(int threads) {
    OpsAgentOptions options;
    options.threads = threads;
    return options;
  }

  const testing_util::ScratchPath socket_{"ops.sock"};
  OpsAgent ops_;
  std::unique_ptr<SocketServer> server_;
};

// In a process of its own. To be made while this process has no other thread.
class AgentProcess {
 public:
  AgentProcess() {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      OpsAgent ops({1, {}, false});
      AgentOptions options;
      options.socket_path = socket_.get();
      options.handshake_ms = 60'000;
      const auto server = SocketServer::Open(options, {Offered(&ops)});
      if (!server.ok()) _exit(1);
      testing_util::StayUntilKilled(parent);
    }
    EXPECT_GT(pid_, 0);
  }
  ~AgentProcess() {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Signal(int signal) const { kill(pid_, signal); }
  const std::string& socket() const { return socket_.get(); }
  std::shared_ptr<RemoteAgent> Connect() const {
    std::shared_ptr<RemoteAgent> agent;
    EXPECT_TRUE(testing_util::Eventually([&] {
      auto connected = RemoteAgent::Connect(socket_.get());
      if (connected.ok()) agent = *std::move(connected);
      return agent != nullptr;
    }));
    return agent;
  }

 private:
  const testing_util::ScratchPath socket_{"ops-process.sock"};
  pid_t pid_ = -1;
};

inline Processors On(std::shared_ptr<RemoteAgent> agent, Placement::Kind kind) {
  Processors processors;
  processors.agent = std::move(agent);
  processors.placement.kind = kind;
  return processors;
}

// Memory that is given in pieces; behind half of it, something happens.
class HookedSource : public ByteSource {
 public:
  HookedSource(const std::string& data, std::function<void()> hook)
      : data_(data), hook_(std::move(hook)) {}
  absl::StatusOr<size_t> Read(void* to, size_t size) override {
    if (hook_ && at_ >= data_.size() / 2) std::exchange(hook_, nullptr)();
    const size_t n = std::min({size, data_.size() - at_, size_t{100'000}});
    data_.copy(static_cast<char*>(to), n, at_);
    at_ += n;
    return n;
  }

 private:
  const std::string& data_;
  std::function<void()> hook_;
  size_t at_ = 0;
};

class StringSink : public ByteSink {
 public:
  absl::Status Write(absl::string_view bytes) override {
    data.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  std::string data;
};

struct Outcome {
  absl::Status status;
  std::string bytes;
  QueueStats stats;
  uint64_t selected = 0;

  const EngineStats* agent() const {
    for (const EngineStats& engine : stats.engines) {
      if (engine.side == Side::kAgent) return &engine;
    }
    return nullptr;
  }
};

inline Outcome RunCompress(const CompressOptions& options, const std::string& data,
                           std::function<void()> hook = nullptr) {
  HookedSource in(data, std::move(hook));
  StringSink out;
  const auto stats = Compress(options, in, out, "OUT");
  Outcome outcome{stats.status(), std::move(out.data), {}, 0};
  if (stats.ok()) outcome.stats = *stats;
  return outcome;
}

inline Outcome RunDecompress(const DecompressOptions& options, const std::string& bytes,
                             std::function<void()> hook = nullptr) {
  HookedSource in(bytes, std::move(hook));
  StringSink out;
  const auto report = Decompress(options, in, "IN", out, "OUT");
  Outcome outcome{report.status(), std::move(out.data), {}, 0};
  if (report.ok()) {
    for (const auto& [decoder, queue] : report->queues) outcome.stats.Add(queue);
  }
  return outcome;
}

inline Outcome RunFilter(const filter::RuleSet& rules, const filter::FilterOptions& options,
                         const std::string& data, std::function<void()> hook = nullptr) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd in(ends[0]);
  std::thread feeder([&, to = ends[1]] {
    HookedSource source(data, std::move(hook));
    std::string piece(100'000, '\0');
    while (true) {
      const size_t n = source.Read(piece.data(), piece.size()).value();
      size_t done = 0;
      while (done < n) {
        const ssize_t written = write(to, piece.data() + done, n - done);
        if (written <= 0) break;
        done += static_cast<size_t>(written);
      }
      if (n == 0 || done < n) break;
    }
    close(to);
  });
  const UniqueFd out = MemoryFile("");
  const auto result = filter::RunFilter(rules, options, in.get(), out.get());
  if (!result.ok()) {
    // The feeder may still write: it gets to its end.
    std::string rest(1 << 16, '\0');
    while (read(in.get(), rest.data(), rest.size()) > 0) {
    }
  }
  feeder.join();
  Outcome outcome{result.status(), ContentOf(out), {}, 0};
  if (result.ok()) {
    outcome.stats = result->stats;
    outcome.selected = result->selected;
  }
  return outcome;
}

}  // namespace pulse::ops::remote
