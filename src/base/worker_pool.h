// WorkerPool: threads that may wait. What is posted is run in order of arrival; what has not begun
// when the pool is destroyed is dropped. Post is thread-safe and does not block. Who posts bounds
// what waits: a connection waits for at most one piece of work here.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/cpu_profile.h"

namespace pulse {

class WorkerPool {
 public:
  // Names its threads `name` and a number.
  WorkerPool(int threads, const std::string& name, const std::vector<int>& cpus) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, cpus] {
        SetThreadAffinity(cpus).IgnoreError();  // checked by who made the list
        Run();
      });
      const pthread_t thread = threads_.back().native_handle();
      pthread_setname_np(thread, (name + std::to_string(i)).c_str());
      if (pthread_getcpuclockid(thread, &clocks_.emplace_back()) != 0) clocks_.pop_back();
    }
  }
  ~WorkerPool() {
    std::deque<std::function<void()>> dropped;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      dropped.swap(work_);
    }
    wake_.notify_all();
    dropped.clear();
    for (std::thread& thread : threads_) thread.join();
  }

  void Post(std::function<void()> work) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_.push_back(std::move(work));
    }
    wake_.notify_one();
  }
  // CPU time of its threads.
  int64_t cpu_nanos() const {
    int64_t sum = 0;
    for (const clockid_t clock : clocks_) sum += std::max<int64_t>(0, ClockNanos(clock));
    return sum;
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    CpuProfile& profile = CpuProfile::OfThread();
    while (true) {
      profile.BeginWait();
      wake_.wait(lock, [this] { return stopping_ || !work_.empty(); });
      profile.EndWait(CpuComponent::kOther);
      if (stopping_) return;
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      profile.EndTurn();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  std::vector<clockid_t> clocks_;
};

}  // namespace pulse
