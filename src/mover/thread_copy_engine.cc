#include "mover/thread_copy_engine.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/stream_copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pulse {
namespace {

#if defined(__x86_64__)
// `to` is aligned to a line; whole lines.
__attribute__((target("avx512f"))) void StreamLines512(char* to, const char* from, size_t lines) {
  for (size_t i = 0; i < lines; ++i) {
    const __m512i line = _mm512_loadu_si512(from + 64 * i);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + 64 * i), line);
  }
}
#endif

class ThreadCopyEngine : public CopyEngine {
 public:
  explicit ThreadCopyEngine(const ThreadCopyOptions& options)
      : depth_(options.depth),
        stream_bytes_(options.stream_bytes),
        shares_(static_cast<size_t>(options.threads)) {}

  ~ThreadCopyEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status StartThreads(int threads, const std::vector<int>& cpus) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this, cpus] { Run(cpus); });
    } catch (const std::system_error& e) {
      return absl::ResourceExhaustedError(
          absl::StrCat("starting a thread that copies: ", e.what(), "; ask for fewer threads"));
    }
    return absl::OkStatus();
  }

  size_t Submit(const CopyItem* items, size_t n) override {
    n = std::min(n, depth_ - in_flight_);
    if (n == 0) return 0;
    in_flight_ += n;
    {
      const std::lock_guard lock(mutex_);
      for (size_t i = 0; i < n; ++i) {
        if (absl::Status st = CheckCopy(items[i]); !st.ok()) {
          done_.push_back({items[i].tag, 0, std::move(st)});
        } else {
          open_.push_back(items[i]);
        }
      }
    }
    if (n > 1) {
      work_.notify_all();
    } else {
      work_.notify_one();
    }
    return n;
  }

  size_t Poll(CopyCompletion* out, size_t max) override {
    const std::lock_guard lock(mutex_);
    const size_t n = std::min(max, done_.size());
    std::move(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(n), out);
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(n));
    in_flight_ -= n;
    return n;
  }
  size_t in_flight() const override { return in_flight_; }
  size_t depth() const override { return depth_; }

 private:
  static constexpr size_t kTake = 8;  // under one lock

  void Run(const std::vector<int>& cpus) {
    // CPUs that went away since the options were checked: any then.
    SetThreadAffinity(cpus).IgnoreError();
    CopyItem items[kTake];
    while (true) {
      size_t n = 0;
      {
        std::unique_lock lock(mutex_);
        work_.wait(lock, [this] { return stop_ || !open_.empty(); });
        if (open_.empty()) return;
        // What there is is shared with the other threads.
        n = std::min(kTake, (open_.size() + shares_ - 1) / shares_);
        for (size_t i = 0; i < n; ++i) {
          items[i] = open_.front();
          open_.pop_front();
        }
      }
      for (size_t i = 0; i < n; ++i) {
        const CopyItem& item = items[i];
        if (item.length >= stream_bytes_) {
          CopyPastCaches(item.destination, item.source, item.length);
        } else if (item.length > 0) {
          std::memcpy(item.destination, item.source, item.length);
        }
      }
      const std::lock_guard lock(mutex_);
      for (size_t i = 0; i < n; ++i) {
        done_.push_back({items[i].tag, items[i].length, absl::OkStatus()});
      }
    }
  }

  const size_t depth_;
  const uint64_t stream_bytes_;
  const size_t shares_;   // threads
  size_t in_flight_ = 0;  // the owner's
  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<CopyItem> open_;
  std::deque<CopyCompletion> done_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

void CopyPastCaches(char* to, const char* from, size_t n) {
#if defined(__x86_64__)
  static const bool avx512 = __builtin_cpu_supports("avx512f") != 0;
  if (avx512 && n >= 512) {
    const size_t head = (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64;
    std::memcpy(to, from, head);
    to += head;
    from += head;
    n -= head;
    StreamLines512(to, from, n / 64);
    std::memcpy(to + n / 64 * 64, from + n / 64 * 64, n % 64);
    StreamFence();
    return;
  }
#endif
  StreamCopy(to, from, n);
  StreamFence();
}

absl::StatusOr<std::unique_ptr<CopyEngine>> CreateThreadCopyEngine(
    const ThreadCopyOptions& options) {
  if (options.threads < 1 || options.threads > 1024 || options.depth == 0) {
    return absl::InvalidArgumentError(
        "a copy engine of threads needs 1 to 1024 threads and a depth of at least 1");
  }
  std::vector<int> cpus;
  if (!options.cpus.empty()) {
    PULSE_ASSIGN_OR_RETURN(cpus, ParseCpuList(options.cpus));
  }
  auto engine = std::make_unique<ThreadCopyEngine>(options);
  PULSE_RETURN_IF_ERROR(engine->StartThreads(options.threads, cpus));
  return engine;
}

}  // namespace pulse
