// Engine "threads": a bounded pool of threads making plain system calls. The fallback where
// io_uring is denied, and the paper's synchronous thread-pool design for comparison (III-B.3).
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/shortage.h"
#include "base/wake_event.h"
#include "uring/io_backend.h"

namespace pulse {
namespace {

constexpr int kThreads = 4;

class ThreadBackend : public IoBackend {
 public:
  ThreadBackend(WakeEvent event, size_t depth) : depth_(depth), event_(std::move(event)) {}

  ~ThreadBackend() override {
    {
      std::lock_guard lock(mu_);
      stop_ = true;
    }
    cv_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  absl::Status Start(const std::vector<int>& cpus) {
    threads_.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      std::thread thread;
      PULSE_RETURN_IF_ERROR(StartThread(
          "engine threads", [this, cpus] { Run(cpus); }, &thread));
      threads_.push_back(std::move(thread));
    }
    return absl::OkStatus();
  }

  bool Enqueue(const IoRequest& request) override {
    if (in_flight_ >= depth_) return false;
    ++in_flight_;
    batch_.push_back(request);
    return true;
  }

  void Submit() override {
    if (batch_.empty()) return;
    const size_t n = batch_.size();
    {
      std::lock_guard lock(mu_);
      queue_.insert(queue_.end(), batch_.begin(), batch_.end());
    }
    batch_.clear();
    if (n == 1) {
      cv_.notify_one();
    } else {
      cv_.notify_all();
    }
  }

  size_t Harvest(IoResult* out, size_t max) override {
    std::lock_guard lock(mu_);
    size_t n = 0;
    for (; n < max && !done_.empty(); ++n) {
      out[n] = done_.front();
      done_.pop_front();
    }
    if (done_.empty()) event_.Clear();
    in_flight_ -= n;
    return n;
  }

  int wait_fd() const override { return event_.fd(); }
  size_t in_flight() const override { return in_flight_; }
  EngineKind kind() const override { return EngineKind::kThreads; }

 private:
  void Run(const std::vector<int>& cpus) {
    pthread_setname_np(pthread_self(), "pulse-ag-io");
    // The worker was placed on the same CPUs and would have failed first.
    SetThreadAffinity(cpus).IgnoreError();
    std::unique_lock lock(mu_);
    while (true) {
      cv_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const IoRequest request = queue_.front();
      queue_.pop_front();
      lock.unlock();
      const int64_t result = ExecuteBlocking(request);
      lock.lock();
      done_.push_back({request.tag, result});
      if (done_.size() == 1) event_.Set();
    }
  }

  const size_t depth_;
  size_t in_flight_ = 0;
  std::vector<IoRequest> batch_;

  const WakeEvent event_;
  std::mutex mu_;
  std::condition_variable cv_;
  std::deque<IoRequest> queue_;
  std::deque<IoResult> done_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoBackend>> CreateThreadBackend(const IoBackendOptions& options) {
  PULSE_ASSIGN_OR_RETURN(auto event, WakeEvent::Create());
  auto backend = std::make_unique<ThreadBackend>(std::move(event), options.depth);
  PULSE_RETURN_IF_ERROR(backend->Start(options.cpus));
  return std::unique_ptr<IoBackend>(std::move(backend));
}

}  // namespace pulse
