#include "bench/macro/cpu_meter.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <thread>

#include "base/clock.h"
#include "base/testing.h"

namespace pulse::bench {
namespace {

// Spends `millis` of the calling thread's CPU time.
void Burn(int millis) {
  const int64_t until = ThreadCpuNanos() + millis * int64_t{1'000'000};
  while (ThreadCpuNanos() < until) {
  }
}

void BurnAs(const CpuMeter& meter, const char* name, int millis) {
  std::thread([&meter, name, millis] {
    pthread_setname_np(pthread_self(), name);
    Burn(millis);
    // Stays until it has been looked at by its name, as workers do.
    const uint64_t before = meter.looks();
    testing_util::Eventually([&] { return meter.looks() >= before + 10; });
  }).join();
}

// The process's CPU time as the test says.
int64_t process_nanos = 0;
int64_t TestProcessNanos() { return process_nanos; }

TEST(CpuMeterTest, AgentThreads_BesideHostThreads_AreToldApart) {
  CpuMeter meter(CpuMeter::Agent::kThreads, 0, &TestProcessNanos);
  ASSERT_TRUE(meter.Start().ok());
  BurnAs(meter, "pulse-ag/0", 200);
  BurnAs(meter, "rocksdb:low", 20);
  process_nanos += int64_t{1000} * 1'000'000'000;
  const auto use = meter.Stop();
  ASSERT_TRUE(use.ok());
  EXPECT_GE(use->agent_seconds, 0.200);
  EXPECT_GE(use->compaction_seconds, 0.020);
  EXPECT_NEAR(use->host_seconds, 1000 - use->agent_seconds, 1e-6) << "the rest of the process";
}

TEST(CpuMeterTest, CompactionThreads_BesideOthers_AreToldApart) {
  CpuMeter meter(CpuMeter::Agent::kNone);
  ASSERT_TRUE(meter.Start().ok());
  BurnAs(meter, "rocksdb:low", 60);
  BurnAs(meter, "rocksdb:high", 80);
  Burn(20);
  const auto use = meter.Stop();
  ASSERT_TRUE(use.ok());
  EXPECT_GE(use->compaction_seconds, 0.060);
  EXPECT_LT(use->compaction_seconds, use->host_seconds - 0.095);
  EXPECT_EQ(use->agent_seconds, 0);
}

TEST(CpuMeterTest, ServerThreads_BesideTheClient_AreToldApart) {
  CpuMeter meter(CpuMeter::Agent::kThreads);
  ASSERT_TRUE(meter.Start().ok());
  BurnAs(meter, "pulse-host-0", 60);
  BurnAs(meter, "rocksdb:high", 40);
  BurnAs(meter, "rocksdb:low", 30);
  BurnAs(meter, "pulse-agent-0", 50);
  BurnAs(meter, "pulse-load", 150);
  const auto use = meter.Stop();
  ASSERT_TRUE(use.ok());
  EXPECT_GE(use->server_seconds, 0.130);
  EXPECT_GE(use->compaction_seconds, 0.030);
  EXPECT_LT(use->server_seconds, use->host_seconds - 0.140);
  EXPECT_GE(use->agent_seconds, 0.050);
}

TEST(CpuMeterTest, AgentThreads_NoAgentMeasured_CountAsHost) {
  CpuMeter meter(CpuMeter::Agent::kNone);
  ASSERT_TRUE(meter.Start().ok());
  BurnAs(meter, "pulse-ag/0", 20);
  const auto use = meter.Stop();
  ASSERT_TRUE(use.ok());
  EXPECT_GE(use->host_seconds, 0.020);
  EXPECT_EQ(use->agent_seconds, 0);
}

TEST(CpuMeterTest, CpuTime_BeforeStart_IsNotCounted) {
  process_nanos = 300'000'000;
  CpuMeter meter(CpuMeter::Agent::kNone, 0, &TestProcessNanos);
  ASSERT_TRUE(meter.Start().ok());
  process_nanos += 20'000'000;
  const auto use = meter.Stop();
  ASSERT_TRUE(use.ok());
  EXPECT_DOUBLE_EQ(use->host_seconds, 0.020);
}

TEST(CpuMeterTest, AgentProcess_ThatRuns_IsMeasured) {
  CpuMeter meter(CpuMeter::Agent::kProcess, getppid());
  ASSERT_TRUE(meter.Start().ok());
  Burn(20);
  const auto use = meter.Stop();
  ASSERT_TRUE(use.ok());
  EXPECT_GE(use->host_seconds, 0.020);
  EXPECT_GE(use->agent_seconds, 0);
}

TEST(CpuMeterTest, Start_AgentProcessGone_IsAnError) {
  CpuMeter meter(CpuMeter::Agent::kProcess, 0x7ffffff0);
  EXPECT_FALSE(meter.Start().ok());
}

}  // namespace
}  // namespace pulse::bench
