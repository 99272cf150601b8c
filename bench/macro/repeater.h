// A thread that does something again and again until it is told to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace pulse::bench {

class Repeater {
 public:
  // First after one interval.
  Repeater(std::chrono::milliseconds interval, std::function<void()> work)
      : thread_([this, interval, work = std::move(work)] {
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, interval, [this] { return stop_; })) work();
        }) {}
  ~Repeater() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace pulse::bench
