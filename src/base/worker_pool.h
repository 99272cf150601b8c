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
#include <optional>
#include <string>
#include <system_error>
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
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (int i = 0; i < threads; ++i) StartLocked();
    } catch (...) {
      End();  // those that there are
      throw;
    }
  }
  ~WorkerPool() { End(); }

  void Post(std::function<void()> work) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

  // Work of `pool` waits while this lives for somebody who may take his time, as a client does.
  // Another thread takes its place, unless kMostWaiting wait already; when the wait is over, it
  // goes on as soon as fewer work than the pool has threads. Who makes it is one of the pool's
  // threads.
  class Waiting {
   public:
    explicit Waiting(WorkerPool* pool) : pool_(pool) { pool->BeginWaiting(); }
    ~Waiting() { pool_->EndWaiting(); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    WorkerPool* const pool_;
  };
  static constexpr int kMostWaiting = 1024;

  // CPU time of its threads.
  int64_t cpu_nanos() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    int64_t sum = ended_nanos_;
    for (const Thread& t : threads_) {
      if (t.clock) sum += std::max<int64_t>(0, ClockNanos(*t.clock));
    }
    return sum;
  }

 private:
  struct Thread {
    std::thread thread;
    std::optional<clockid_t> clock;  // of the time that is not in ended_nanos_
    bool ended = false;              // it waits to be joined
  };

  void End() {
    std::deque<std::function<void()>> dropped;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      dropped.swap(work_);
    }
    wake_.notify_all();
    resume_.notify_all();
    dropped.clear();
    for (Thread& t : threads_) t.thread.join();
  }

  void StartLocked() {
    for (auto it = threads_.begin(); it != threads_.end();) {
      if (!it->ended) {
        ++it;
        continue;
      }
      it->thread.join();
      it = threads_.erase(it);
    }
    Thread& t = threads_.emplace_back();
    try {
      t.thread = std::thread([this, &t] {
        SetThreadAffinity(cpus_).IgnoreError();  // checked by who made the list
        Run(&t);
      });
    } catch (...) {
      threads_.pop_back();
      throw;
    }
    ++running_;
    const pthread_t thread = t.thread.native_handle();
    pthread_setname_np(thread, (name_ + std::to_string(started_++ % 1000)).c_str());
    if (clockid_t clock; pthread_getcpuclockid(thread, &clock) == 0) t.clock = clock;
  }
  void BeginWaiting() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++waiting_;
    --working_;
    if (running_ < MostLocked() && !stopping_) {
      try {
        StartLocked();
      } catch (const std::system_error&) {
        // The machine has no more: others wait, as beyond kMostWaiting.
      }
    }
    NextLocked();
  }
  void EndWaiting() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++resuming_;
    resume_.wait(lock, [this] { return working_ < base_ || stopping_; });
    --resuming_;
    --waiting_;
    ++working_;
    if (!work_.empty() && working_ < base_) wake_.notify_one();
  }
  // One fewer works: who waited goes first.
  void NextLocked() {
    if (resuming_ > 0) {
      resume_.notify_one();
    } else {
      wake_.notify_one();
    }
  }
  void Run(Thread* self) {
    std::unique_lock<std::mutex> lock(mutex_);
    CpuProfile& profile = CpuProfile::OfThread();
    while (true) {
      profile.BeginWait();
      wake_.wait(lock, [this] {
        return stopping_ || TooManyLocked() ||
               (!work_.empty() && working_ < base_ && resuming_ == 0);
      });
      profile.EndWait(CpuComponent::kOther);
      if (stopping_) return;
      if (TooManyLocked()) {
        --running_;
        ended_nanos_ += ThreadCpuNanos();
        self->clock.reset();
        self->ended = true;
        wake_.notify_one();  // what woke this one may have been work
        return;
      }
      std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      ++working_;
      if (!work_.empty()) wake_.notify_one();
      lock.unlock();
      work();
      work = nullptr;
      profile.EndTurn();
      lock.lock();
      --working_;
      NextLocked();
    }
  }
  int MostLocked() const { return base_ + std::min(waiting_, kMostWaiting); }
  bool TooManyLocked() const { return running_ > MostLocked(); }

  const int base_;
  const std::string name_;
  const std::vector<int> cpus_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;    // of threads without work
  std::condition_variable resume_;  // of those whose wait is over
  std::deque<std::function<void()>> work_;
  bool stopping_ = false;
  int running_ = 0;   // threads that have not ended
  int started_ = 0;   // ever
  int working_ = 0;   // threads that have work, and do not wait
  int waiting_ = 0;   // those that do
  int resuming_ = 0;  // of these, whose wait is over
  std::list<Thread> threads_;
  int64_t ended_nanos_ = 0;  // CPU time of threads that have ended
};

}  // namespace pulse
