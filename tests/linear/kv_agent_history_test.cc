// Histories of `pulse kv` behind an agent of its own, both as processes that are killed: what a
// client was told has to hold, also over kills of either side, since the host's keys are in a
// memory file. PULSE_TEST_MINUTES goes on for so long.
#include <gtest/gtest.h>

#ifdef PULSE_PROGRAM

#include <unistd.h>

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "bench/macro/program_process.h"
#include "group_history.h"
#include "history_test.h"
#include "redis_load.h"

namespace pulse::linear {
namespace {

// Both processes, which start and are killed each for itself.
class KilledPair {
 public:
  explicit KilledPair(bool keeps_memory) : keeps_memory_(keeps_memory) {}
  void StartHost() {
    std::vector<std::string> words = {"kv",       "--port",         "0",
                                      "--memory", "128M",           "--threads",
                                      "2",        "--agent-socket", directory_ / "kv.sock"};
    if (keeps_memory_) words.insert(words.end(), {"--memory-file", memory_.get()});
    const auto status = host_.Start(words, {}, directory_ / "kv.log", PULSE_PROGRAM);
    ASSERT_TRUE(status.ok()) << status;
    // Of --memory, or of a file that it goes on with.
    const auto ready = host_.WaitFor("pulse kv: agents on ");
    ASSERT_TRUE(ready.ok()) << ready;
  }
  void StartAgent() {
    const auto status =
        agent_.Start({"agent", "--socket", directory_ / "agent.sock", "--serve", "0", "--serve-kv",
                      directory_ / "kv.sock", "--serve-kv-loops", "2"},
                     {}, directory_ / "agent.log", PULSE_PROGRAM);
    ASSERT_TRUE(status.ok()) << status;
    const auto port = agent_.WaitForPort("(port ");
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *port;
  }
  void KillHost() { host_.Kill(); }
  void KillAgent() { agent_.Kill(); }
  uint16_t port() const { return port_; }

 private:
  // A file of /dev/shm, since the memory is to be in a tmpfs.
  class ScratchMemory {
   public:
    ~ScratchMemory() { unlink(path_.c_str()); }
    const std::string& get() const { return path_; }

   private:
    const std::string path_ = absl::StrCat("/dev/shm/pulse-history-", getpid(), "-", Seeds()());
  };

  const bool keeps_memory_;
  const Directory directory_;
  const ScratchMemory memory_;
  bench::ProgramProcess host_;
  bench::ProgramProcess agent_;
  uint16_t port_ = 0;
};

// Between two kills.
constexpr uint64_t kAgentAnswers = 2000;

TEST(KvAgentHistoryTest, EitherSideKilled_UnderLoad_Linearizable) {
  KilledPair pair(/*keeps_memory=*/true);
  pair.StartHost();
  pair.StartAgent();
  if (testing::Test::HasFailure()) return;
  int protocol = 2;
  ForMinutes([&] {
    RedisLoad load(SingleKeys(pair.port(), protocol));
    protocol = 5 - protocol;
    EXPECT_TRUE(Answers(load, kAgentAnswers));
    for (int kill = 0; kill < 8 && !testing::Test::HasFailure(); ++kill) {
      std::mt19937_64 random(Seeds()());
      testing_util::RandomPause(&random, std::chrono::milliseconds(20));
      if (random() % 2 == 0) {
        pair.KillHost();
        // Clients are told so meanwhile.
        testing_util::RandomPause(&random, std::chrono::milliseconds(30));
        pair.StartHost();
      } else {
        pair.KillAgent();
        pair.StartAgent();
        load.PointTo(pair.port());
      }
      EXPECT_TRUE(Answers(load, kAgentAnswers));
    }
    load.Stop();
    EXPECT_GT(load.unknown() + load.refused() + load.lost(), 0u);
    ExpectLinearizable(load);
  });
}

// The test above can fail: without its memory file a host loses what it has acknowledged.
TEST(KvAgentHistoryTest, HostKilledWithoutItsMemory_UnderLoad_ViolationFound) {
  KilledPair pair(/*keeps_memory=*/false);
  pair.StartHost();
  pair.StartAgent();
  if (testing::Test::HasFailure()) return;
  RedisLoad load(SingleKeys(pair.port(), 2));
  EXPECT_TRUE(Answers(load, kAgentAnswers));
  pair.KillHost();
  pair.StartHost();
  EXPECT_TRUE(Answers(load, kAgentAnswers));
  load.Stop();
  EXPECT_EQ(Check(load.history()).outcome, Verdict::Outcome::kViolation);
}

// Of groups, fewer: each has kills of its own, so that what is not known of it is little.
constexpr uint64_t kGroupAnswers = 600;

struct GroupKills {
  Loss loss = Loss::kWhole;
  bool keeps_memory = true;
};

// A load on groups, during which one side is killed.
class GroupsOfAPair {
 public:
  explicit GroupsOfAPair(GroupKills kills) : kills_(kills), pair_(kills.keeps_memory) {
    pair_.StartHost();
    pair_.StartAgent();
  }
  void Run() {
    TransactionLoadOptions options = Groups(pair_.port());
    options.loss = kills_.loss;
    // Of writes that may be there or not, the checker tries each set: few for a group.
    options.clients = 4;
    options.groups = 8;
    load_.emplace(options);
    EXPECT_TRUE(Answers(*load_, kGroupAnswers));
    std::mt19937_64 random(Seeds()());
    testing_util::RandomPause(&random, std::chrono::milliseconds(20));
    if (kills_.loss == Loss::kTorn) {
      pair_.KillHost();
      testing_util::RandomPause(&random, std::chrono::milliseconds(30));
      pair_.StartHost();
    } else {
      pair_.KillAgent();
      pair_.StartAgent();
      load_->PointTo(pair_.port());
    }
    EXPECT_TRUE(Answers(*load_, kGroupAnswers));
    load_->Stop();
    troubled_ += load_->unknown() + load_->refused() + load_->lost();
  }
  const TransactionLoad& load() const { return *load_; }
  uint64_t troubled() const { return troubled_; }

 private:
  const GroupKills kills_;
  KilledPair pair_;
  std::optional<TransactionLoad> load_;
  uint64_t troubled_ = 0;
};

constexpr int kGroupRounds = 4;

// The host goes on: a transaction whose agent was killed is there as a whole, or not at all.
TEST(KvAgentHistoryTest, Groups_AgentKilledUnderLoad_LinearizableAndWhole) {
  GroupsOfAPair groups({.loss = Loss::kWhole});
  if (testing::Test::HasFailure()) return;
  ForMinutes([&] {
    for (int round = 0; round < kGroupRounds && !testing::Test::HasFailure(); ++round) {
      groups.Run();
      ExpectLinearizable(groups.load());
    }
  });
  EXPECT_GT(groups.troubled(), 0u);
}

// A transaction that was under way may be there in part. All that was answered is, as a whole.
TEST(KvAgentHistoryTest, Groups_HostKilledUnderLoad_WhatWasAnsweredIsLinearizable) {
  GroupsOfAPair groups({.loss = Loss::kTorn});
  if (testing::Test::HasFailure()) return;
  ForMinutes([&] {
    for (int round = 0; round < kGroupRounds && !testing::Test::HasFailure(); ++round) {
      groups.Run();
      ExpectLinearizable(groups.load());
    }
  });
  EXPECT_GT(groups.troubled(), 0u);
}

// The test above can fail.
TEST(KvAgentHistoryTest, Groups_HostKilledWithoutItsMemory_ViolationFound) {
  GroupsOfAPair groups({.loss = Loss::kTorn, .keeps_memory = false});
  if (testing::Test::HasFailure()) return;
  Verdict::Outcome outcome = Verdict::Outcome::kLinearizable;
  for (int round = 0; round < 5 && outcome != Verdict::Outcome::kViolation; ++round) {
    groups.Run();
    outcome = Check(groups.load()).outcome;
  }
  EXPECT_EQ(outcome, Verdict::Outcome::kViolation);
}

}  // namespace
}  // namespace pulse::linear

#endif
