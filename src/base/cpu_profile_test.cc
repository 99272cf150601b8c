#include "base/cpu_profile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

namespace pulse {
namespace {

using Nanos = std::array<uint64_t, kCpuComponentNames.size()>;

// What `turn`, run so often on a thread of its own, adds to the agent's numbers.
template <class Turn>
Nanos Added(uint32_t turns, CpuComponent waiting, Turn turn) {
  const auto agent = static_cast<size_t>(CpuSide::kAgent);
  const Nanos before = ReadCpuProfile().nanos[agent];
  std::thread([&] {
    CpuProfile& profile = CpuProfile::OfThread();
    profile.set_side(CpuSide::kAgent);
    for (uint32_t i = 0; i < turns; ++i) {
      profile.BeginWait();
      profile.EndWait(waiting);
      turn();
      profile.EndTurn();
    }
  }).join();
  Nanos nanos = ReadCpuProfile().nanos[agent];
  for (size_t i = 0; i < nanos.size(); ++i) nanos[i] -= before[i];
  return nanos;
}

uint64_t Of(const Nanos& nanos, CpuComponent component) {
  return nanos[static_cast<size_t>(component)];
}

// CPU time of this thread.
void Work(int64_t nanos) {
  const int64_t end = ThreadCpuNanos() + nanos;
  while (ThreadCpuNanos() < end) {
  }
}

TEST(CpuProfileTest, FewTurns_NoneIsMeasured) {
  const Nanos nanos =
      Added(CpuProfile::kSampleEvery - 1, CpuComponent::kReceive, [] { Work(1000); });
  EXPECT_EQ(std::accumulate(nanos.begin(), nanos.end(), uint64_t{0}), 0u);
}

TEST(CpuProfileTest, Scopes_DivideTheTurn) {
  const Nanos nanos = Added(CpuProfile::kSampleEvery * 20, CpuComponent::kReceive, [] {
    const CpuScope outer(CpuComponent::kParse);
    Work(10'000);
    {
      const CpuScope inner(CpuComponent::kStore);
      Work(30'000);
    }
    Work(10'000);
  });
  EXPECT_GT(Of(nanos, CpuComponent::kStore), Of(nanos, CpuComponent::kParse));
  EXPECT_GT(Of(nanos, CpuComponent::kParse), Of(nanos, CpuComponent::kRespond));
  EXPECT_EQ(Of(nanos, CpuComponent::kRespond), 0u);
  // One turn counts for all those that are not measured. (All of its CPU time; how it is divided
  // depends on when the thread had to wait for a CPU. What is less than a nanosecond is lost.)
  const uint64_t all = std::accumulate(nanos.begin(), nanos.end(), uint64_t{0});
  EXPECT_GE(all, (50'000u * CpuProfile::kSampleEvery - nanos.size()) * 20);
}

TEST(CpuProfileTest, WhatSleeps_TakesNoCpu) {
  const Nanos nanos = Added(CpuProfile::kSampleEvery, CpuComponent::kOther, [n = 0]() mutable {
    const CpuScope scope(CpuComponent::kRespond);
    // sleep: what sleeps is what is measured
    if (++n == CpuProfile::kSampleEvery) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  EXPECT_LT(Of(nanos, CpuComponent::kRespond), 50'000'000u * CpuProfile::kSampleEvery / 2);
}

}  // namespace
}  // namespace pulse
