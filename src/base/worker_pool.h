// WorkerPool: threads that may wait. What is posted is run in order of arrival; what has not begun
// when the pool is destroyed is dropped. Post is thread-safe and does not block. Who posts bounds
// what waits: a connection waits for at most one piece of work here.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/cpu_profile.h"

namespace pulse {

class WorkerPool {
 public:
  // Names its threads `name` and a number.
  WorkerPool(int threads, std::string name, std::vector<int> cpus)
      : base_(threads), name_(std::move(name)), cpus_(std::move(cpus)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int i = 0; i < threads; ++i) StartLocked();
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
    for (Thread& t : threads_) t.thread.join();
  }

  void Post(std::function<void()> work) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

  // Work of `pool` waits while this lives for somebody who may take his time, as a client does;
  // another thread takes its place, unless there are kMostWaiting of them. Who makes it is one of
  // the pool's threads, or none of any.
  class Waiting {
   public:
    explicit Waiting(WorkerPool* pool) : pool_(pool) { pool->AddWaiting(1); }
    ~Waiting() { pool_->AddWaiting(-1); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    WorkerPool* const pool_;
  };
  static constexpr int kMostWaiting = 1024;

  // CPU time of its threads.
  int64_t cpu_nanos() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    int64_t sum = 0;
    for (const Thread& t : threads_) {
      sum += t.ended ? t.cpu_nanos : std::max<int64_t>(0, ClockNanos(t.clock));
    }
    return sum + joined_nanos_;
  }

 private:
  struct Thread {
    std::thread thread;
    clockid_t clock = CLOCK_MONOTONIC;
    bool ended = false;  // it waits to be joined
    int64_t cpu_nanos = 0;
  };

  void StartLocked() {
    for (auto it = threads_.begin(); it != threads_.end();) {
      if (!it->ended) {
        ++it;
        continue;
      }
      it->thread.join();
      joined_nanos_ += it->cpu_nanos;
      it = threads_.erase(it);
    }
    ++running_;
    Thread& t = threads_.emplace_back();
    t.thread = std::thread([this, &t] {
      SetThreadAffinity(cpus_).IgnoreError();  // checked by who made the list
      Run(&t);
    });
    const pthread_t thread = t.thread.native_handle();
    pthread_setname_np(thread, (name_ + std::to_string(running_ - 1)).c_str());
    if (pthread_getcpuclockid(thread, &t.clock) != 0) t.clock = 0;
  }
  void AddWaiting(int count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_ += count;
    const int most = base_ + std::min(waiting_, kMostWaiting);
    if (running_ < most && !stopping_) StartLocked();
  }
  void Run(Thread* self) {
    std::unique_lock<std::mutex> lock(mutex_);
    CpuProfile& profile = CpuProfile::OfThread();
    while (true) {
      profile.BeginWait();
      wake_.wait(lock, [this] { return stopping_ || !work_.empty() || TooManyLocked(); });
      profile.EndWait(CpuComponent::kOther);
      if (stopping_) return;
      if (TooManyLocked()) {
        --running_;
        self->cpu_nanos = ThreadCpuNanos();
        self->ended = true;
        wake_.notify_one();  // what woke this one may have been work
        return;
      }
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      profile.EndTurn();
      lock.lock();
    }
  }
  bool TooManyLocked() const { return running_ > base_ + std::min(waiting_, kMostWaiting); }

  const int base_;
  const std::string name_;
  const std::vector<int> cpus_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  int running_ = 0;  // threads that have not ended
  int waiting_ = 0;
  std::list<Thread> threads_;
  int64_t joined_nanos_ = 0;
};

}  // namespace pulse
