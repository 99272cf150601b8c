#include "services/lsm/placement/compacting_threads.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/clock.h"

namespace pulse::lsm {
namespace {

constexpr double kAllBusy = 0.9;  // of CPUs: threads wait for them
constexpr double kLeastShare = 0.05;
// Other work that uses less than this part of what a compaction gets has all that it wants.
constexpr double kSatisfied = 0.6;

}  // namespace

CompactingThreads::CompactingThreads() : taken_at_(NowNanos()) {}

int CompactingThreads::size() const {
  std::lock_guard lock(mu_);
  return static_cast<int>(threads_.size());
}

void CompactingThreads::Begin() {
  const Thread now{ThreadCpuNanos(), NowNanos()};
  std::lock_guard lock(mu_);
  threads_[gettid()] = now;
}

void CompactingThreads::End() {
  std::lock_guard lock(mu_);
  const auto it = threads_.find(gettid());
  if (it == threads_.end()) return;
  CountLocked(it->first, &it->second, NowNanos());
  threads_.erase(it);
}

bool CompactingThreads::CountLocked(pid_t tid, Thread* thread, int64_t now) {
  const int64_t cpu = ThreadCpuNanos(tid);
  if (cpu < 0) return false;
  // A thread that used no CPU time waits for something else, or its end was not told.
  if (cpu > thread->cpu_nanos) {
    cpu_nanos_ += cpu - thread->cpu_nanos;
    thread_nanos_ += now - thread->at;
  }
  *thread = {cpu, now};
  return true;
}

CompactingThreads::Use CompactingThreads::Take() {
  std::lock_guard lock(mu_);
  const int64_t now = NowNanos();
  for (auto it = threads_.begin(); it != threads_.end();) {
    it = CountLocked(it->first, &it->second, now) ? std::next(it) : threads_.erase(it);
  }
  Use use;
  if (now > taken_at_) {
    const auto nanos = static_cast<double>(now - taken_at_);
    use = {static_cast<double>(cpu_nanos_) / nanos, static_cast<double>(thread_nanos_) / nanos};
  }
  taken_at_ = now;
  cpu_nanos_ = thread_nanos_ = 0;
  return use;
}

double ForegroundDemand(double busy, int cores, const CompactingThreads::Use& own) {
  const double used = std::max(0.0, busy - own.cpus);
  if (busy < kAllBusy * cores || own.threads <= 0) return std::min<double>(cores, used);
  const double share = std::clamp(own.cpus / own.threads, kLeastShare, 1.0);
  // Between the two cases, interpolate: threads are not spread over CPUs evenly.
  const double weight = std::clamp((used / share - kSatisfied) / (1 - kSatisfied), 0.0, 1.0);
  return std::min<double>(cores, used + weight * (used / share - used));
}

}  // namespace pulse::lsm
