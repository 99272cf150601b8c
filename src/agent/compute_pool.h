// ComputePool: threads of an agent for work that takes milliseconds, or blocks, so that no service
// keeps a worker from its loop. The results go back to the worker by Session::Config::post.
//
// Fair: owners (sessions, say) have turns, whatever each has queued; the work of one owner begins
// in the order in which it was posted, and with one thread also ends in it. Bounded by whoever
// posts: a service takes no more requests than its session may have under way
// (AgentLimits::max_requests).
//
// Thread-safe; Post does not block. The destructor runs what is queued, and joins.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace pulse {

class ComputePool {
 public:
  // `name`: of its threads, at most 15 bytes.
  ComputePool(const std::string& name, int threads);
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  // `owner` is compared only.
  void Post(const void* owner, std::function<void()> work);

 private:
  struct Queue {
    const void* owner;
    std::deque<std::function<void()>> work;  // never empty
  };

  void Run();

  std::mutex mu_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<Queue> turns_;  // the next in front
  std::vector<std::thread> threads_;
};

}  // namespace pulse
