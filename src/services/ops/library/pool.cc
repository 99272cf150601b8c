#include "services/ops/library/pool.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/cpu_list.h"

namespace pulse::ops {

Pool::Pool(const Processors& processors, size_t most_under_way)
    : processors_(processors), most_(most_under_way) {}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (Thread& thread : threads_) {
    if (thread.thread.joinable()) thread.thread.join();
  }
  for (pulse_ops_result& result : results_) pulse_ops_release(&result);
}

bool Pool::StartThreads() {
  if (!threads_.empty()) return true;
  const auto add = [&](Side side, const std::vector<int>& cpus) {
    for (const int cpu : cpus) threads_.push_back({side, {cpu}, {}});
  };
  add(Side::kHost, processors_.host_cpus);
  add(Side::kAgent, processors_.agent_cpus);
  if (threads_.empty()) {
    const int count = std::max(1, AllowedCpus());
    for (int i = 0; i < count; ++i) threads_.push_back({Side::kHost, {}, {}});
  }
  // The program's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  size_t started = 0;
  try {
    for (Thread& thread : threads_) {
      thread.thread = std::thread([this, &thread] { Run(thread); });
      ++started;
    }
  } catch (const std::system_error&) {
    // As many as there are do the work, if those of each side that is needed are among them.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started == threads_.size()) return true;
  stop_ = true;
  work_.notify_all();
  return false;
}

int Pool::Submit(Request request) {
  const std::lock_guard lock(mutex_);
  if (stop_ || !StartThreads()) return PULSE_OPS_FAILED;
  if (under_way_ >= most_) return PULSE_OPS_BUSY;
  Item item{std::move(request), Side::kHost, true};
  const Placement& placement = processors_.placement;
  const auto has = [&](Side side) {
    return std::any_of(threads_.begin(), threads_.end(),
                       [&](const Thread& thread) { return thread.side == side; });
  };
  if (placement.kind == Placement::Kind::kHost || placement.kind == Placement::Kind::kAgent) {
    item.side = placement.kind == Placement::Kind::kHost ? Side::kHost : Side::kAgent;
    item.any_side = !has(item.side);
  } else if (placement.kind == Placement::Kind::kSplit) {
    item.side = placement.SideOf(submitted_);
    item.any_side = !has(item.side);
  }
  ++submitted_;
  ++under_way_;
  if (item.request.raw.done == nullptr) ++for_wait_;
  const bool any = item.any_side;
  items_.push_back(std::move(item));
  any ? work_.notify_one() : work_.notify_all();
  return PULSE_OPS_OK;
}

std::deque<Pool::Item>::iterator Pool::Find(Side side) {
  return std::find_if(items_.begin(), items_.end(),
                      [&](const Item& item) { return item.any_side || item.side == side; });
}

void Pool::Run(const Thread& thread) {
  // Of CPUs that are not there, the caller has been told before.
  SetThreadAffinity(thread.cpus).IgnoreError();
  LaneCache lane;
  std::unique_lock lock(mutex_);
  while (true) {
    auto it = Find(thread.side);
    if (it == items_.end()) {
      if (stop_) return;
      work_.wait(lock);
      continue;
    }
    const Request request = std::move(it->request);
    items_.erase(it);
    lock.unlock();
    pulse_ops_result result = Execute(request, processors_, nullptr, &lane);
    if (request.raw.done != nullptr) {
      request.raw.done(request.raw.done_arg, &result);
      pulse_ops_release(&result);
      lock.lock();
      --under_way_;
      continue;
    }
    lock.lock();
    results_.push_back(result);
    done_.notify_one();
  }
}

int Pool::Wait(uint32_t timeout_ms, pulse_ops_result* result) {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                 [&] { return !results_.empty() || for_wait_ == 0; });
  if (results_.empty()) return for_wait_ == 0 ? PULSE_OPS_NOTHING : PULSE_OPS_TIMEOUT;
  *result = results_.front();
  results_.pop_front();
  --under_way_;
  --for_wait_;
  if (for_wait_ == 0) done_.notify_all();
  return PULSE_OPS_OK;
}

size_t Pool::under_way() const {
  const std::lock_guard lock(mutex_);
  return under_way_;
}

}  // namespace pulse::ops
