#include "bench/macro/ops/changing_work.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "base/clock.h"
#include "base/errors.h"

namespace pulse::bench {

absl::Status SlowedEngine::Process(int lane, const ops::Chunk& chunk, ops::Result& result) {
  const int64_t begin = NowNanos();
  PULSE_RETURN_IF_ERROR(engine_->Process(lane, chunk, result));
  const auto more = static_cast<int64_t>(static_cast<double>(NowNanos() - begin) *
                                         std::max(0.0, slowness_(chunk) - 1));
  if (more == 0) return absl::OkStatus();
  std::unique_lock lock(mutex_);
  const bool interrupted =
      wake_.wait_for(lock, std::chrono::nanoseconds(more), [&] { return interrupted_; });
  return interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

void SlowedEngine::Begin() {
  engine_->Begin();
  const std::lock_guard lock(mutex_);
  interrupted_ = false;
}

void SlowedEngine::Interrupt() {
  engine_->Interrupt();
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  wake_.notify_all();
}

absl::Status StagedEngine::Process(int lane, const ops::Chunk& chunk, ops::Result& result) {
  return (is_slow_(chunk) ? *slow_ : *fast_).Process(lane, chunk, result);
}

void StagedEngine::Begin() {
  fast_->Begin();
  slow_->Begin();
}

void StagedEngine::Interrupt() {
  fast_->Interrupt();
  slow_->Interrupt();
}

absl::StatusOr<OpsWork> MakeMixedWork(OpsKind kind, const std::vector<CorpusFile>& files,
                                      uint64_t least, uint64_t most, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> power(std::log2(static_cast<double>(least)),
                                               std::log2(static_cast<double>(most)));
  std::vector<CorpusFile> slices;
  for (const CorpusFile& file : files) {
    for (size_t at = 0; at < file.data.size();) {
      const auto size = static_cast<size_t>(std::exp2(power(random)));
      slices.push_back({file.name, file.data.substr(at, size)});
      at += size;
    }
  }
  return MakeWork(kind, slices, most);
}

}  // namespace pulse::bench
