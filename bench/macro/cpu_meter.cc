#include "bench/macro/cpu_meter.h"

#include <time.h>

#include <chrono>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/own_threads.h"

namespace pulse::bench {
namespace {

// Threads that end between two samples lose at most this much of their time: each whole compaction
// of an embedded agent has one of its own.
constexpr std::chrono::milliseconds kInterval(25);
// Looks between two at a thread's name, which costs more than all else.
constexpr uint64_t kLooksPerName = 8;

// The kernel's encoding of a thread's CPU clock, which pthread_getcpuclockid() uses too; by number
// it also reaches threads that are not ours to know, such as io_uring's. Nanoseconds, where
// /proc/.../stat counts in ticks.
clockid_t ThreadClock(pid_t tid) {
  return static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | 6u);
}

}  // namespace

absl::StatusOr<int64_t> ProcessNanos(pid_t pid) {
  clockid_t clock;
  const int err = clock_getcpuclockid(pid, &clock);
  const int64_t nanos = err == 0 ? ClockNanos(clock) : -1;
  if (nanos < 0) {
    return absl::UnavailableError(
        absl::StrCat("reading the CPU time of the agent, process ", pid,
                     ": it is gone, or in another container; run it beside the benchmark"));
  }
  return nanos;
}

int64_t CpuMeter::OwnProcessNanos() { return ClockNanos(CLOCK_PROCESS_CPUTIME_ID); }

std::optional<CpuMeter::Who> CpuMeter::WhoIs(pid_t tid) const {
  const std::string name = NameOfThread(tid);
  const std::optional<Who> agent =
      agent_ == Agent::kThreads ? std::optional<Who>(Who::kAgent) : std::nullopt;
  // "iou-wrk-" and the number of the thread that it works for.
  if (absl::StartsWith(name, "iou-wrk-")) {
    const auto maker = threads_.find(static_cast<pid_t>(std::atoi(name.c_str() + 8)));
    return maker == threads_.end() ? agent : maker->second.who;
  }
  if (absl::StartsWith(name, "pulse-ag") || absl::StartsWith(name, "iou-")) return agent;
  // Flushes have the pool of high priority. A thread has the name of its maker until it has its
  // own.
  if (absl::StartsWith(name, "rocksdb:low") || absl::StartsWith(name, "rocksdb:bot")) {
    return Who::kCompaction;
  }
  if (absl::StartsWith(name, "pulse-host") || absl::StartsWith(name, "rocksdb:")) {
    return Who::kServer;
  }
  return std::nullopt;
}

int64_t CpuMeter::UseOf(Who who) const {
  int64_t nanos = gone_[static_cast<size_t>(who)];
  for (const auto& [tid, use] : threads_) {
    if (use.who == who) nanos += use.last - use.base;
  }
  return nanos;
}

void CpuMeter::Sample(bool first) {
  for (const pid_t tid : OwnThreads()) {
    const int64_t now = ClockNanos(ThreadClock(tid));
    if (now < 0) continue;
    auto [it, is_new] = threads_.try_emplace(tid);
    ThreadUse& use = it->second;
    if (now < use.last) {  // a new thread by an old number
      if (use.who) gone_[static_cast<size_t>(*use.who)] += use.last - use.base;
      use = ThreadUse();
      is_new = true;
    }
    if (is_new || looks_.load() % kLooksPerName == 0) use.who = WhoIs(tid);
    if (first) use.base = now;
    use.last = now;
  }
  looks_.fetch_add(1);
}

absl::Status CpuMeter::Start() {
  if (agent_ == Agent::kProcess) {
    PULSE_ASSIGN_OR_RETURN(agent_start_, ProcessNanos(agent_pid_));
  }
  getrusage(RUSAGE_SELF, &usage_start_);
  process_start_ = process_();
  Sample(true);
  sampler_.emplace(kInterval, [this] { Sample(false); });
  return absl::OkStatus();
}

absl::StatusOr<CpuUse> CpuMeter::Stop() {
  const int64_t process = process_() - process_start_;
  sampler_.reset();
  Sample(false);
  int64_t agent = UseOf(Who::kAgent);
  CpuUse use;
  use.host_seconds = static_cast<double>(process - agent) / 1e9;
  if (agent_ == Agent::kProcess) {
    PULSE_ASSIGN_OR_RETURN(const auto nanos, ProcessNanos(agent_pid_));
    agent = nanos - agent_start_;
    use.host_seconds = static_cast<double>(process) / 1e9;
  }
  use.agent_seconds = static_cast<double>(agent) / 1e9;
  use.compaction_seconds = static_cast<double>(UseOf(Who::kCompaction)) / 1e9;
  use.server_seconds = use.compaction_seconds + static_cast<double>(UseOf(Who::kServer)) / 1e9;
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  use.voluntary_switches = usage.ru_nvcsw - usage_start_.ru_nvcsw;
  use.involuntary_switches = usage.ru_nivcsw - usage_start_.ru_nivcsw;
  return use;
}

}  // namespace pulse::bench
