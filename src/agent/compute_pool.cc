#include "agent/compute_pool.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace pulse {

ComputePool::ComputePool(const std::string& name, int threads) {
  for (int i = 0; i < threads; ++i) {
    try {
      threads_.emplace_back([this] { Run(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
      break;  // the machine has no more: those that there are do all of it
    }
    pthread_setname_np(threads_.back().native_handle(), name.c_str());
  }
}

ComputePool::~ComputePool() {
  {
    std::lock_guard lock(mu_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ComputePool::Post(const void* owner, std::function<void()> work) {
  {
    std::lock_guard lock(mu_);
    auto mine = std::find_if(turns_.begin(), turns_.end(),
                             [owner](const Queue& q) { return q.owner == owner; });
    if (mine == turns_.end()) {
      turns_.push_back({owner, {}});
      mine = std::prev(turns_.end());
    }
    mine->work.push_back(std::move(work));
  }
  wake_.notify_one();
}

void ComputePool::Run() {
  std::unique_lock lock(mu_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !turns_.empty(); });
    if (turns_.empty()) return;
    Queue turn = std::move(turns_.front());
    turns_.pop_front();
    const std::function<void()> work = std::move(turn.work.front());
    turn.work.pop_front();
    if (!turn.work.empty()) turns_.push_back(std::move(turn));
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace pulse
