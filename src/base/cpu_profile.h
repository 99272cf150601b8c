// Where the CPU time of server threads goes: receiving, parsing, the store, responding, the rest;
// for host and agent apart. DPU-KV paper, Table 1 and Figure 6.
//
// A thread's work is turns: it waits, then works off what there is. One turn in kSampleEvery is
// measured, by the cycle counter at each change of component, and counts for all of them. The
// thread's CPU time of the turn is divided in proportion, so that time off the CPU does not count.
//
// The numbers are of the process. Threads: each has its own CpuProfile; ReadCpuProfile may
// be called by any. A scope costs a branch while the turn is not measured. Nothing blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace pulse {

enum class CpuComponent : uint8_t { kOther, kReceive, kParse, kStore, kRespond };
inline constexpr std::array<const char*, 5> kCpuComponentNames = {"other", "receive", "parse",
                                                                  "store", "respond"};
enum class CpuSide : uint8_t { kHost, kAgent };
inline constexpr std::array<const char*, 2> kCpuSideNames = {"host", "agent"};

// What a thread is measured by.
struct CpuClocks {
  uint64_t (*cycles)() = [] { return Cycles(); };
  int64_t (*cpu_nanos)() = [] { return ThreadCpuNanos(); };  // of the calling thread
};

class CpuProfile {
 public:
  // A prime: a pattern of turns has another period.
  static constexpr uint32_t kSampleEvery = 61;

  // Of the calling thread.
  static CpuProfile& OfThread() {
    thread_local CpuProfile profile;
    return profile;
  }
  void set_side(CpuSide side) { side_ = side; }
  // Between turns.
  void set_clocks(const CpuClocks& clocks) { clocks_ = clocks; }

  // The thread is about to wait: the time until EndWait is `waiting`'s.
  void BeginWait() {
    if (++turns_ % kSampleEvery == 0) Begin();
  }
  void EndWait(CpuComponent waiting) {
    if (sampling_) Waited(waiting);
  }
  void EndTurn() {
    if (sampling_) Add();
  }

  bool sampling() const { return sampling_; }
  // Returns the component until now.
  CpuComponent Switch(CpuComponent to) {
    const uint64_t now = clocks_.cycles();
    cycles_[static_cast<size_t>(component_)] += now - since_;
    since_ = now;
    const CpuComponent before = component_;
    component_ = to;
    return before;
  }

 private:
  void Begin();
  void Waited(CpuComponent waiting);
  void Add();

  CpuClocks clocks_;
  bool sampling_ = false;
  CpuComponent component_ = CpuComponent::kOther;
  CpuSide side_ = CpuSide::kHost;
  uint32_t turns_ = 0;
  uint64_t since_ = 0;  // cycles
  std::array<uint64_t, kCpuComponentNames.size()> cycles_{};
  int64_t cpu_begin_ = 0;  // nanoseconds
  int64_t cpu_waited_ = 0;
  CpuComponent waiting_ = CpuComponent::kOther;
};

// What the thread does within the scope is `component`'s; an inner scope's time is its own.
class CpuScope {
 public:
  explicit CpuScope(CpuComponent component) : profile_(CpuProfile::OfThread()) {
    if (profile_.sampling()) before_ = profile_.Switch(component);
  }
  ~CpuScope() {
    if (profile_.sampling()) profile_.Switch(before_);
  }
  CpuScope(const CpuScope&) = delete;
  CpuScope& operator=(const CpuScope&) = delete;

 private:
  CpuProfile& profile_;
  CpuComponent before_ = CpuComponent::kOther;
};

// Estimated CPU nanoseconds of all threads that have turns, since the process began.
struct CpuProfileNumbers {
  std::array<std::array<uint64_t, kCpuComponentNames.size()>, kCpuSideNames.size()> nanos{};
};
CpuProfileNumbers ReadCpuProfile();

}  // namespace pulse
