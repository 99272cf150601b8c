// Histories of the in-memory store's server, in each design and while designs change: commands of
// one key, and transactions over the partitions of a group's keys, both have to be linearizable.
// PULSE_TEST_MINUTES goes on for so long, on `pulse kv` as a process of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/testing.h"
#include "group_history.h"
#include "history_test.h"
#include "redis_load.h"
#include "services/kv/store.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/designs.h"
#include "services/redis/serve.h"
#ifdef PULSE_PROGRAM
#include "bench/macro/program_process.h"
#endif

namespace pulse::linear {
namespace {

constexpr const char* kDesigns[] = {"lat", "cpu", "dual", "sav", "adaptive", "dpu", "shrd"};
constexpr int kPartitions = 4;
constexpr int kThreads = 2;

enum class Fault {
  kNone,
  kTornTransactions,  // others get in between the commands of one
  kTornMset,          // and between the keys of one command
  kForgottenWatches,  // EXEC is carried out, whatever has changed
  kStaleReads,        // a GET answers what another one has found some time ago
};

// A KvStore with a fault: what the tests have to find. Its watches are forgotten by themselves:
// sessions use this object's table, and the store touches its own.
class FaultyKeyspace : public redis::Keyspace {
 public:
  FaultyKeyspace(std::unique_ptr<redis::Keyspace> store, Fault fault)
      : store_(std::move(store)), fault_(fault) {}

  const redis::KeyspaceLimits& limits() const override { return store_->limits(); }
  RunResult Run(const redis::CommandInfo& command, const redis::Arguments& args, bool may_block,
                redis::ReplyWriter* reply, redis::CommandCounts* counts) override {
    if (fault_ != Fault::kTornMset || command.id != redis::Command::kMset) {
      return store_->Run(command, args, may_block, reply, counts);
    }
    if (!may_block) return RunResult::kWouldBlock;
    std::string ignored;
    redis::ReplyWriter nowhere(&ignored, 2);
    for (size_t i = 1; i + 1 < args.size(); i += 2) {
      store_->Run(command, {args[0], args[i], args[i + 1]}, true, &nowhere, counts);
      std::this_thread::yield();
    }
    reply->Ok();
    return RunResult::kDone;
  }
  RunResult RunGets(const redis::Request* requests, size_t count, uint64_t most_bytes,
                    bool may_block, redis::ReplyWriter* reply, std::vector<size_t>* ends,
                    redis::CommandCounts* counts) override {
    if (fault_ != Fault::kStaleReads) {
      return store_->RunGets(requests, count, most_bytes, may_block, reply, ends, counts);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string& kept = kept_[std::string(requests[0][1])];
    if (kept.empty() || ++reads_ % 16 == 0) {
      kept.clear();
      std::vector<size_t> end;
      redis::ReplyWriter to_kept(&kept, 2);
      store_->RunGets(requests, 1, most_bytes, true, &to_kept, &end, counts);
    }
    reply->out()->append(kept);
    ends->push_back(reply->out()->size());
    return RunResult::kDone;
  }
  RunResult RunSets(absl::Span<const redis::Request* const> sets, bool may_block,
                    absl::Span<std::string> errors) override {
    return store_->RunSets(sets, may_block, errors);
  }
  bool CollectsSets() const override { return store_->CollectsSets(); }
  void RunTransaction(const std::vector<Queued>& commands, const redis::WatchTable::Set& watches,
                      const Answer& answer, redis::ReplyWriter* reply,
                      redis::CommandCounts* counts) override {
    if (fault_ != Fault::kTornTransactions) {
      store_->RunTransaction(commands, watches, answer, reply, counts);
      return;
    }
    reply->Array(commands.size());
    for (const Queued& queued : commands) {
      store_->Run(*queued.command, *queued.args, true, reply, counts);
      std::this_thread::yield();
    }
  }
  bool Watch(const std::string_view* keys, size_t count, bool may_block,
             redis::WatchTable::Set* watches, std::string* error) override {
    return store_->Watch(keys, count, may_block, watches, error);
  }
  int64_t now_ms() const override { return store_->now_ms(); }
  void AddInfo(std::string_view section, std::string* out) const override {
    store_->AddInfo(section, out);
  }
  std::string_view section_name() const override { return store_->section_name(); }
  std::vector<Setting> Settings() const override { return store_->Settings(); }
  std::string Configure(std::string_view name, std::string_view value) override {
    return store_->Configure(name, value);
  }

 private:
  const std::unique_ptr<redis::Keyspace> store_;
  const Fault fault_;
  std::mutex mutex_;
  std::map<std::string, std::string> kept_;
  uint64_t reads_ = 0;
};

// The server within this process.
class KvServer {
 public:
  explicit KvServer(Fault fault = Fault::kNone) : designs_(kThreads, MyCpus(), MyCpus()) {
    redis::ServeOptions options;
    options.threads = kThreads;
    options.designs = &designs_;
    options.keyspace = [this, fault](const redis::KeyspaceLimits& limits)
        -> absl::StatusOr<std::unique_ptr<redis::Keyspace>> {
      kv::KvStoreOptions store;
      store.memory_bytes = uint64_t{64} << 20;
      store.partitions = kPartitions;
      store.limits = limits;
      store.designs = &designs_;
      auto opened = kv::KvStore::Open(store);
      if (!opened.ok() || fault == Fault::kNone) return opened;
      return std::make_unique<FaultyKeyspace>(*std::move(opened), fault);
    };
    auto server = redis::Server::Open(options);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }
  ~KvServer() {
    if (server_ != nullptr) {
      EXPECT_TRUE(server_->Stop().ok());
    }
  }
  uint16_t port() const { return server_->port(); }

 private:
  redis::Designs designs_;
  std::unique_ptr<redis::Server> server_;
};

// So many answers of either load; slower where each access is looked at.
constexpr uint64_t kAnswers = testing_util::kThreadSanitizer ? 1000 : 30'000;
// Of a server without a fault, of which fewer will do.
constexpr uint64_t kSoundAnswers = testing_util::kAddressSanitizer ? kAnswers / 3 : kAnswers;

// Both loads at once, while `meanwhile` is called again and again.
void RunLoads(
    uint16_t port, int protocol, uint64_t answers, const std::function<void()>& meanwhile = [] {}) {
  RedisLoad single(SingleKeys(port, protocol));
  TransactionLoad groups(Groups(port));
  // However long a busy machine takes for all of them, the next few have to come.
  const auto least = [&] { return std::min(single.answered(), groups.answered()); };
  for (uint64_t seen = 0; seen < answers; seen = least()) {
    const uint64_t next = std::min(answers, seen + answers / 30 + 1);
    const bool more = testing_util::Eventually([&] {
      meanwhile();
      return least() >= next;
    });
    EXPECT_TRUE(more) << seen << " answers";
    if (!more) break;
  }
  single.Stop();
  groups.Stop();
  EXPECT_EQ(single.lost() + single.unknown() + single.refused(), 0u);
  ExpectLinearizable(single);
  ExpectLinearizable(groups);
}

// From design to design, of which none is in force for long.
class DesignChanger {
 public:
  explicit DesignChanger(uint16_t port) : control_(port) {}
  void Change() {
    const char* const design = kDesigns[changes_++ % std::size(kDesigns)];
    EXPECT_EQ(control_.Ask({"CONFIG", "SET", "design", design}), "+OK\r\n");
  }
  uint64_t changes() const { return changes_; }

 private:
  Control control_;
  uint64_t changes_ = 0;
};

class KvHistoryTest : public testing::TestWithParam<const char*> {};

TEST_P(KvHistoryTest, Design_RandomLoad_Linearizable) {
  const KvServer server;
  EXPECT_EQ(Control(server.port()).Ask({"CONFIG", "SET", "design", GetParam()}), "+OK\r\n");
  RunLoads(server.port(), 2, kSoundAnswers);
}

INSTANTIATE_TEST_SUITE_P(Designs, KvHistoryTest, testing::ValuesIn(kDesigns),
                         [](const auto& param) { return std::string(param.param); });

TEST(KvHistoryTest, DesignsChanged_UnderLoad_Linearizable) {
  const KvServer server;
  DesignChanger changer(server.port());
  RunLoads(server.port(), 3, kSoundAnswers, [&] { changer.Change(); });
  EXPECT_GT(changer.changes(), 10u);
}

// The tests above can fail: each fault is found.

TEST(KvHistoryTest, StaleReads_RandomLoad_ViolationFound) {
  const KvServer server(Fault::kStaleReads);
  RedisLoad load(SingleKeys(server.port()));
  EXPECT_TRUE(Answers(load, kAnswers));
  load.Stop();
  EXPECT_EQ(Check(load.history()).outcome, Verdict::Outcome::kViolation);
}

class KvFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(KvFaultTest, Groups_RandomLoad_ViolationFound) {
  const KvServer server(GetParam());
  TransactionLoadOptions options = Groups(server.port());
  // What is wrong is then nothing else.
  options.watches = GetParam() == Fault::kForgottenWatches;
  Verdict::Outcome outcome = Verdict::Outcome::kLinearizable;
  for (int round = 0; round < 20 && outcome == Verdict::Outcome::kLinearizable; ++round) {
    options.prefix = absl::StrCat("r", round, "-");
    TransactionLoad load(options);
    EXPECT_TRUE(Answers(load, kAnswers / 4));
    load.Stop();
    EXPECT_EQ(load.surprises(), std::vector<std::string>());
    outcome = Check(load).outcome;
  }
  EXPECT_EQ(outcome, Verdict::Outcome::kViolation);
}

INSTANTIATE_TEST_SUITE_P(Faults, KvFaultTest,
                         testing::Values(Fault::kTornTransactions, Fault::kTornMset,
                                         Fault::kForgottenWatches));

#ifdef PULSE_PROGRAM

TEST(KvHistoryTest, Process_DesignsChangedUnderLoad_Linearizable) {
  const Directory directory;
  std::string cpus;
  for (const int cpu : MyCpus()) absl::StrAppend(&cpus, cpus.empty() ? "" : ",", cpu);
  bench::ProgramProcess server;
  const auto status = server.Start({"kv", "--port", "0", "--memory", "128M", "--threads", "2",
                                    "--cpus", cpus, "--agent-cpus", cpus},
                                   {}, directory / "kv.log", PULSE_PROGRAM);
  ASSERT_TRUE(status.ok()) << status;
  const auto port = server.WaitForPort("127.0.0.1:");
  ASSERT_TRUE(port.ok()) << port.status();
  int protocol = 2;
  ForMinutes([&] {
    DesignChanger changer(*port);
    RunLoads(*port, protocol, kAnswers, [&] { changer.Change(); });
    protocol = 5 - protocol;
    EXPECT_EQ(Control(*port).Ask({"FLUSHALL"}), "+OK\r\n");
  });
}

#endif

}  // namespace
}  // namespace pulse::linear
