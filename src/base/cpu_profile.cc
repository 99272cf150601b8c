#include "base/cpu_profile.h"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace pulse {
namespace {

using Sums =
    std::array<std::array<std::atomic<uint64_t>, kCpuComponentNames.size()>, kCpuSideNames.size()>;

Sums& Estimates() {
  static Sums sums{};
  return sums;
}

}  // namespace

void CpuProfile::Begin() {
  sampling_ = true;
  cpu_begin_ = clocks_.cpu_nanos();
  cpu_waited_ = 0;
  cycles_ = {};
  component_ = CpuComponent::kOther;
  since_ = clocks_.cycles();
}

void CpuProfile::Waited(CpuComponent waiting) {
  waiting_ = waiting;
  cpu_waited_ = clocks_.cpu_nanos() - cpu_begin_;
  cycles_ = {};
  component_ = CpuComponent::kOther;
  since_ = clocks_.cycles();
}

void CpuProfile::Add() {
  Switch(CpuComponent::kOther);
  sampling_ = false;
  const int64_t cpu = clocks_.cpu_nanos() - cpu_begin_ - cpu_waited_;
  const uint64_t all = std::accumulate(cycles_.begin(), cycles_.end(), uint64_t{0});
  auto& sums = Estimates()[static_cast<size_t>(side_)];
  const auto add = [&sums](size_t component, double nanos) {
    sums[component].fetch_add(static_cast<uint64_t>(nanos * kSampleEvery),
                              std::memory_order_relaxed);
  };
  add(static_cast<size_t>(waiting_), static_cast<double>(std::max<int64_t>(0, cpu_waited_)));
  if (all == 0 || cpu <= 0) return;
  for (size_t i = 0; i < cycles_.size(); ++i) {
    add(i, static_cast<double>(cpu) * static_cast<double>(cycles_[i]) / static_cast<double>(all));
  }
}

CpuProfileNumbers ReadCpuProfile() {
  CpuProfileNumbers numbers;
  for (size_t side = 0; side < numbers.nanos.size(); ++side) {
    for (size_t i = 0; i < numbers.nanos[side].size(); ++i) {
      numbers.nanos[side][i] = Estimates()[side][i].load(std::memory_order_relaxed);
    }
  }
  return numbers;
}

}  // namespace pulse
