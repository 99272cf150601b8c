#include "base/cpu_profile.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace pulse {
namespace {

using Nanos = std::array<uint64_t, kCpuComponentNames.size()>;

// The clocks of the measured thread: it computes, or something else has the CPU.
thread_local uint64_t cycles = 0;
thread_local int64_t cpu_nanos = 0;

void Compute(int64_t nanos) {
  cycles += static_cast<uint64_t>(nanos) * 3;
  cpu_nanos += nanos;
}
void OffTheCpu(int64_t nanos) { cycles += static_cast<uint64_t>(nanos) * 3; }

// What `turn`, run so often on a thread of its own, adds to the agent's numbers.
template <class Turn>
Nanos Added(uint32_t turns, CpuComponent waiting, const CpuClocks& clocks, Turn turn) {
  const auto agent = static_cast<size_t>(CpuSide::kAgent);
  const Nanos before = ReadCpuProfile().nanos[agent];
  std::thread([&] {
    CpuProfile& profile = CpuProfile::OfThread();
    profile.set_side(CpuSide::kAgent);
    profile.set_clocks(clocks);
    for (uint32_t i = 0; i < turns; ++i) {
      profile.BeginWait();
      Compute(2'000);
      profile.EndWait(waiting);
      turn();
      profile.EndTurn();
    }
  }).join();
  Nanos nanos = ReadCpuProfile().nanos[agent];
  for (size_t i = 0; i < nanos.size(); ++i) nanos[i] -= before[i];
  return nanos;
}

template <class Turn>
Nanos Added(uint32_t turns, Turn turn) {
  return Added(turns, CpuComponent::kReceive,
               {.cycles = [] { return cycles; }, .cpu_nanos = [] { return cpu_nanos; }}, turn);
}

uint64_t Of(const Nanos& nanos, CpuComponent component) {
  return nanos[static_cast<size_t>(component)];
}

TEST(CpuProfileTest, FewTurns_NoneIsMeasured) {
  const Nanos nanos = Added(CpuProfile::kSampleEvery - 1, [] { Compute(1000); });
  EXPECT_EQ(std::accumulate(nanos.begin(), nanos.end(), uint64_t{0}), 0u);
}

// One turn counts for all those that are not measured.
TEST(CpuProfileTest, Scopes_DivideTheTurn) {
  const Nanos nanos = Added(CpuProfile::kSampleEvery * 20, [] {
    Compute(1'000);
    const CpuScope outer(CpuComponent::kParse);
    Compute(10'000);
    {
      const CpuScope inner(CpuComponent::kStore);
      Compute(30'000);
    }
    Compute(10'000);
  });
  const uint64_t turns = CpuProfile::kSampleEvery * 20;
  EXPECT_EQ(Of(nanos, CpuComponent::kReceive), 2'000 * turns) << "what it computes as it waits";
  EXPECT_EQ(Of(nanos, CpuComponent::kOther), 1'000 * turns);
  EXPECT_EQ(Of(nanos, CpuComponent::kParse), 20'000 * turns);
  EXPECT_EQ(Of(nanos, CpuComponent::kStore), 30'000 * turns);
  EXPECT_EQ(Of(nanos, CpuComponent::kRespond), 0u);
}

// The thread's CPU time is divided as the cycles are, so what is off the CPU adds nothing to it.
TEST(CpuProfileTest, OffTheCpu_TakesNoCpuTime) {
  const Nanos nanos = Added(CpuProfile::kSampleEvery, [] {
    const CpuScope outer(CpuComponent::kParse);
    Compute(10'000);
    const CpuScope inner(CpuComponent::kRespond);
    OffTheCpu(50'000'000);
    Compute(10'000);
  });
  EXPECT_NEAR(
      static_cast<double>(Of(nanos, CpuComponent::kParse) + Of(nanos, CpuComponent::kRespond)),
      20'000.0 * CpuProfile::kSampleEvery, 2);
}

// However the scheduler divides them, what a turn computes is counted, by the system's clocks.
TEST(CpuProfileTest, SystemClocks_CountWhatIsComputed) {
  const Nanos nanos = Added(CpuProfile::kSampleEvery, CpuComponent::kReceive, {}, [] {
    const CpuScope scope(CpuComponent::kStore);
    const int64_t end = ThreadCpuNanos() + 50'000;
    while (ThreadCpuNanos() < end) {
    }
  });
  EXPECT_GT(Of(nanos, CpuComponent::kStore), 0u);
  const uint64_t all = std::accumulate(nanos.begin(), nanos.end(), uint64_t{0});
  EXPECT_GE(all, 50'000u * CpuProfile::kSampleEvery - CpuProfile::kSampleEvery * nanos.size());
}

}  // namespace
}  // namespace pulse
