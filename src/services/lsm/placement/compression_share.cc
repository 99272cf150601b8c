#include "services/lsm/placement/compression_share.h"

#include <chrono>

namespace pulse::lsm {
namespace {

// So long beyond what two blocks take on average, workers count as idle.
constexpr int64_t kPatienceNanos = 100'000;

}  // namespace

void CompressionShare::BeforeOwnBlock() {
  if (MayCompress()) return;
  std::unique_lock lock(mu_);
  waiting_.store(true);
  while (!MayCompress()) {
    const uint64_t seen = blocks_.load();
    const int64_t each = seen == 0 ? 0 : workers_.load() / static_cast<int64_t>(seen);
    const std::chrono::nanoseconds patience(kPatienceNanos + 2 * each);
    if (!progress_.wait_for(lock, patience, [&] { return blocks_.load() != seen; })) break;
  }
  waiting_.store(false);
}

void CompressionShare::OnBlock(int64_t nanos) {
  workers_.fetch_add(nanos);
  blocks_.fetch_add(1);
  if (!waiting_.load()) return;
  // The mutex, so that the waiting thread is not between its look and its sleep.
  { std::lock_guard lock(mu_); }
  progress_.notify_one();
}

}  // namespace pulse::lsm
